! SPDX-License-Identifier: Apache-2.0
!! Checkpoints from Fortran: what is saved on some ranks is loaded on others, and training goes on as if it had never
!! stopped; extras, asynchronous saves, parts of files; every error once.
program checkpoint_test
  use, intrinsic :: iso_fortran_env, only: int32, int64, int8, real32, real64
  use checks
  use ddp_network, only: add_network, flat, num_steps, run_pass, weights_of
  use ostraka
  implicit none

#ifdef OSTRAKA_TEST_HAS_CHECKPOINT
  logical, parameter :: has_files = .true.
#else
  logical, parameter :: has_files = .false.
#endif
  integer, parameter :: steps = 3, more = 2
  character(:), allocatable :: folder
  type(ostraka_mesh_t) :: world

  type :: model_t
    type(ostraka_mesh_t) :: mesh
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    type(ostraka_optimizer_t) :: adamw
  end type

  call start()
  call make_folder()
  call world%create(MPI_COMM_WORLD%mpi_val)
  call check_extras_alone()
  if (has_files) then
    call check_round_trips()
    call check_ddp()
    call check_async()
    call check_parts()
    call check_errors()
  else
    call check_absent()
  end if
  call world%destroy()
  call mpi_barrier(MPI_COMM_WORLD)
  if (my_rank == 0) call execute_command_line('rm -r ' // folder)
  call finish()

contains

  subroutine make_folder()
    integer :: values(8)
    character(80) :: name

    if (my_rank == 0) then
      call date_and_time(values=values)
      write(name, '(a, 3i0, 2("_", i0))') '/tmp/ostraka_fortran_', values(5:7), values(8), num_ranks
      call execute_command_line('mkdir ' // trim(name))
    end if
    call mpi_bcast(name, len(name), MPI_CHARACTER, 0, MPI_COMM_WORLD)
    folder = trim(name)
  end subroutine

  !! --- a network whose weights after any number of steps are known by plain arithmetic

  !! Elements of 'layer.weight' (3, 5) and 'layer.bias' (5), and of the frozen 'layer.scale' (2, 2).
  pure function first_values(salt) result(w)
    integer, intent(in) :: salt
    real(real64) :: w(24)
    integer :: i

    w = [(sin(1 + 3d0 * i) + salt, i = 1, 24)]
  end function

  elemental real(real64) function slope(step, i, w)
    integer, intent(in) :: step, i
    real(real64), intent(in) :: w

    slope = 0.3d0 * w + cos(step + 0.5d0 * i)
  end function

  pure function trained(salt, count) result(w)
    integer, intent(in) :: salt, count
    real(real64) :: w(24), m(20), v(20), g(20)
    integer :: step, i

    w = first_values(salt)
    m = 0
    v = 0
    do step = 1, count
      g = slope(step, [(i, i = 1, 20)], w(:20))
      m = 0.8d0 * m + 0.2d0 * g
      v = 0.95d0 * v + 0.05d0 * g**2
      w(:20) = w(:20) - 0.02d0 * 0.1d0 * w(:20)
      w(:20) = w(:20) - 0.02d0 * (m / (1 - 0.8d0**step)) / (sqrt(v / (1 - 0.95d0**step)) + 1d-6)
    end do
  end function

  subroutine make(net, comm, recipe, salt)
    type(model_t), intent(out) :: net
    type(MPI_Comm), intent(in) :: comm
    integer(int32), intent(in) :: recipe
    integer, intent(in) :: salt
    real(real64) :: w(24)

    w = first_values(salt)
    call net%mesh%create(comm%mpi_val)
    call net%context%create(net%mesh, recipe=recipe)
    call net%context%add_module('layer', net%layer)
    call net%layer%add_parameter('weight', [3, 5])
    call net%layer%add_parameter('bias', [5])
    call net%layer%add_parameter('scale', [2, 2], trainable=.false.)
    call net%layer%build()
    call net%layer%set_parameter('weight', w(:15))
    call net%layer%set_parameter('bias', w(16:20))
    call net%layer%set_parameter('scale', w(21:))
    call net%context%finalize()
    call net%adamw%create_adamw(net%context, learning_rate=0.02d0, beta1=0.8d0, beta2=0.95d0, epsilon=1d-6, &
                                weight_decay=0.1d0)
  end subroutine

  subroutine destroy(net)
    type(model_t), intent(inout) :: net

    call net%adamw%destroy()
    call net%context%destroy()
    call net%mesh%destroy()
  end subroutine

  subroutine train(net, first, last)
    type(model_t), intent(in) :: net
    integer, intent(in) :: first, last
    real(real64), pointer, contiguous :: w(:,:), b(:), g(:,:), gb(:)
    real(real64) :: beta
    integer :: step, i

    do step = first, last
      call net%context%zero_grad()
      call net%layer%pre_forward()
      call net%layer%post_forward()
      call net%layer%pre_backward()
      call net%layer%parameter('weight', w)
      call net%layer%parameter('bias', b)
      call net%layer%gradient('weight', g, beta)
      g = reshape(slope(step, [(i, i = 1, 15)], reshape(w, [15])), [3, 5])
      call net%layer%gradient('bias', gb, beta)
      gb = slope(step, [(i, i = 16, 20)], b)
      call net%layer%post_backward()
      call net%context%finish_backward()
      call net%adamw%step()
    end do
  end subroutine

  subroutine expect_weights(net, w, line)
    type(model_t), intent(in) :: net
    real(real64), intent(in) :: w(24)
    integer, intent(in) :: line
    real(real64), pointer, contiguous :: found(:,:), b(:), scale(:,:)

    call net%layer%unshard()
    call net%layer%parameter('weight', found)
    call net%layer%parameter('bias', b)
    call net%layer%parameter('scale', scale)
    call expect(all(abs([reshape(found, [15]), b, reshape(scale, [4])] - w) < 1d-12), line, 'weights are wrong')
    call net%layer%reshard()
  end subroutine

  !! --- extras

  subroutine fill(extras)
    type(ostraka_extras_t), intent(out) :: extras
    integer :: i

    call extras%create()
    call extras%set('time', 1d0)
    call extras%set('time', 12.5d0)
    call extras%set('epoch', 7)
    call extras%set('cells', 2_int64**40)
    call extras%set('run', 'water and steam  ')
    call extras%set('table', reshape([(real(i, real32), i = 1, 6)], [2, 3]))
    call extras%set('phase', [(1d0, 2d0), (3d0, 4d0)])
    call extras%set('mask', [1_int8, 0_int8])
  end subroutine

  subroutine expect_filled(extras)
    type(ostraka_extras_t), intent(in) :: extras
    character(:), allocatable :: text
    integer(int64), allocatable :: extents(:)
    real(real64) :: time
    real(real32) :: table(2, 3), list(6)
    complex(real64) :: phase(2)
    integer(int64) :: cells
    integer(int32) :: epoch, count, dtype
    integer(int8) :: mask(2)
    logical :: answer
    integer :: i

    call extras%get('time', time)
    call extras%get('epoch', epoch)
    call extras%get('cells', cells)
    call expect(time == 12.5d0 .and. epoch == 7 .and. cells == 2_int64**40, __LINE__)
    call extras%get('run', text)
    call expect(text == 'water and steam' .and. len(text) == 15, __LINE__)
    call extras%shape('table', extents)
    call expect(size(extents) == 2 .and. all(extents == [2, 3]), __LINE__)
    call extras%get('table', table)
    call extras%get('table', list)
    call expect(all(nint(list) == [(i, i = 1, 6)]) .and. all(nint(reshape(table, [6])) == nint(list)), __LINE__)
    call extras%get('phase', phase)
    call expect(all(phase == [(1d0, 2d0), (3d0, 4d0)]), __LINE__)
    call extras%get('mask', mask)
    call expect(all(mask == [1, 0]), __LINE__)
    call extras%num_values(count)
    call extras%name(2, text)
    call expect(count == 7 .and. text == 'epoch', __LINE__)
    call extras%dtype('run', dtype, answer)
    call expect(dtype == OSTRAKA_U8 .and. answer, __LINE__)
    call extras%dtype('table', dtype, answer)
    call expect(dtype == OSTRAKA_F32 .and. .not. answer, __LINE__)
    call extras%has('old', answer)
    call expect(.not. answer, __LINE__)
    call extras%has('time', answer)
    call expect(answer, __LINE__)
  end subroutine

  subroutine check_extras_alone()
    type(ostraka_extras_t) :: extras, none
    type(ostraka_buffer_t) :: no_buffer
    character(:), allocatable :: text
    integer(int64), allocatable :: extents(:)
    real(real64) :: time, times(3)
    integer(int32) :: ierr, epoch, count, dtype
    logical :: answer

    call fill(extras)
    call expect_filled(extras)
    epoch = -1
    time = -1
    call extras%get('old', time, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, "there are: 'time'")
    call extras%get('time', epoch, ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'is real(real64), the array or pointer is integer(int32)')
    call extras%get('run', time, ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'is text')
    call extras%get('time', times, ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'the array rank 1, shape (3)')
    call extras%get('time', text, ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'expected text')
    call expect(epoch == -1 .and. time < 0 .and. text == '', __LINE__)
    call extras%set('', 1, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'expected a name')
    times = 0
    call extras%set('x', times(::2), ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'not contiguous')
    call extras%name(8, text, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'found 7')
    call extras%add_buffer(['u'], no_buffer, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'buffer handle is null')
    call none%set('x', 1d0, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'extras handle is null')
    call none%set('x', 'y', ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call none%get('x', time, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call none%has('x', answer, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call none%shape('x', extents, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call none%dtype('x', dtype, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call none%num_values(count, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    none = extras
    call extras%destroy()
    call none%destroy(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'destroyed')
  end subroutine

#include "checkpoint_files.inc"
end program
