! SPDX-License-Identifier: Apache-2.0
!! Walks through the steps of its argument from Fortran and prints what each returned.
program start_stop
  use, intrinsic :: iso_fortran_env, only: int32, real64
  use mpi_f08
  use ostraka
  implicit none
  interface
    subroutine kokkos_initialize() bind(c, name='start_stop_kokkos_initialize')
    end subroutine
    subroutine kokkos_finalize() bind(c, name='start_stop_kokkos_finalize')
    end subroutine
  end interface
  type(ostraka_mesh_t) :: mesh
  type(ostraka_buffer_t) :: buffer
  type(ostraka_fsdp_context_t) :: context
  type(ostraka_fsdp_module_t) :: module
  type(ostraka_optimizer_t) :: optimizer
  character(64) :: letters
  integer :: i
  integer(int32) :: ierr

  call get_command_argument(1, letters)
  do i = 1, len_trim(letters)
    ierr = OSTRAKA_OK
    call step(letters(i:i))
    if (ierr == OSTRAKA_OK) then
      print '(a, 1x, a)', letters(i:i), ostraka_status_name(ierr)
    else
      print '(a, 1x, a, 1x, a)', letters(i:i), ostraka_status_name(ierr), ostraka_last_error()
    end if
    flush (6)
  end do
  print '(a)', 'end'

contains

  subroutine step(letter)
    character, intent(in) :: letter

    select case (letter)
    case ('M')
      call mpi_init()
    case ('m')
      call mpi_finalize()
    case ('K')
      call kokkos_initialize()
    case ('k')
      call kokkos_finalize()
    case ('I')
      call ostraka_initialize(ierr)
    case ('i')
      call ostraka_finalize(ierr)
    case ('C')
      call create()
    case ('U')
      call use_it()
    case ('G')
      call gather()
    case default
      call destroy()
    end select
  end subroutine

  subroutine create()
    call mesh%create(MPI_COMM_WORLD%mpi_val, ierr=ierr)
    if (ierr == OSTRAKA_OK) call buffer%empty(mesh, [ostraka_shard()], [ostraka_shape([6])], OSTRAKA_F64, ierr=ierr)
    if (ierr == OSTRAKA_OK) call context%create(mesh, ierr=ierr)
    if (ierr == OSTRAKA_OK) call context%add_module('m', module, ierr)
    if (ierr == OSTRAKA_OK) call module%add_parameter('w', [6], dtype=OSTRAKA_F64, ierr=ierr)
    if (ierr == OSTRAKA_OK) call module%build(ierr)
    if (ierr == OSTRAKA_OK) call context%finalize(ierr)
    if (ierr == OSTRAKA_OK) call optimizer%create_sgd(context, ierr=ierr)
  end subroutine

  subroutine use_it()
    call context%begin_inference(ierr)
    if (ierr == OSTRAKA_OK) call module%pre_forward(ierr)
    if (ierr == OSTRAKA_OK) call module%post_forward(ierr)
    if (ierr == OSTRAKA_OK) call context%end_inference(ierr)
  end subroutine

  subroutine gather()
    type(ostraka_buffer_t) :: whole

    call buffer%allgather(1, whole, ierr=ierr)
    if (ierr == OSTRAKA_OK) call whole%destroy(ierr)
  end subroutine

  subroutine destroy()
    call optimizer%destroy(ierr)
    if (ierr == OSTRAKA_OK) call context%destroy(ierr)
    if (ierr == OSTRAKA_OK) call buffer%destroy(ierr)
    if (ierr == OSTRAKA_OK) call mesh%destroy(ierr)
  end subroutine
end program
