! SPDX-License-Identifier: Apache-2.0
!! Steps that fail on one rank, inference with unequal work, micro-batches.
program steps_test
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64
  use checks
  use model, only: compare, ramp
  use ostraka
  implicit none

  type(ostraka_mesh_t) :: mesh

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_failing_rank()
  call check_inference()
  call check_options()
  call check_compute_type()
  call mesh%destroy()
  call finish()

contains

  subroutine two_layers(context, layer)
    type(ostraka_fsdp_context_t), intent(out) :: context
    type(ostraka_fsdp_module_t), intent(out) :: layer(2)
    integer :: i

    call context%create(mesh)
    do i = 1, 2
      call context%add_module(merge('first ', 'second', i == 1), layer(i))
      call layer(i)%add_parameter('weight', [4, 3])
      call layer(i)%build()
      call layer(i)%set_parameter('weight', i * reshape(ramp(12), [4, 3]))
    end do
    call context%finalize()
  end subroutine

  subroutine forward(layer)
    type(ostraka_fsdp_module_t), intent(in) :: layer(:)
    real(real64), pointer :: w(:,:)
    integer :: i

    do i = 1, size(layer)
      call layer(i)%pre_forward()
      call layer(i)%parameter('weight', w)
      call expect(all(w == i * reshape(ramp(12), [4, 3])), __LINE__)
      call layer(i)%post_forward()
    end do
  end subroutine

  subroutine backward(layer)
    type(ostraka_fsdp_module_t), intent(in) :: layer(:)
    real(real64), pointer :: g(:,:)
    real(real64) :: beta
    integer :: i

    do i = size(layer), 1, -1
      call layer(i)%pre_backward()
      call layer(i)%gradient('weight', g, beta)
      g = i
      call layer(i)%post_backward()
    end do
  end subroutine

  subroutine step_works(context, layer)
    type(ostraka_fsdp_context_t), intent(in) :: context
    type(ostraka_fsdp_module_t), intent(in) :: layer(:)
    real(real64), pointer :: list(:)
    integer(int64) :: offset
    integer(int32) :: ierr
    integer :: i

    call forward(layer)
    call backward(layer)
    call context%finish_backward(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    do i = 1, size(layer)
      call layer(i)%main_gradient('weight', list, offset)
      call compare(list, offset, spread(real(i, real64), 1, 12), __LINE__)
    end do
    call context%zero_grad()
  end subroutine

  !! The last rank gives up: in the forward pass, then between the passes, then inside the backward pass. All ranks get
  !! the same status and text, and the next step works.
  subroutine check_failing_rank()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer(2)
    character(*), parameter :: text = 'the density is negative'
    character(200) :: here, there
    logical :: fails
    integer(int32) :: ierr
    integer :: place

    call two_layers(context, layer)
    fails = my_rank == num_ranks - 1
    do place = 1, 3
      if (fails .and. place == 1) then
        call layer(1)%pre_forward()
      else
        call forward(layer)
      end if
      if (fails) then
        if (place == 3) call layer(2)%pre_backward()
        call context%fail_step(text, ierr)
        call expect_status(ierr, OSTRAKA_OK, __LINE__)
      else
        call backward(layer)
      end if
      call context%finish_backward(ierr)
      call expect_status(ierr, OSTRAKA_USER_FAILURE, __LINE__, text)
      here = ostraka_last_error()
      there = here
      call mpi_bcast(there, len(there), MPI_CHARACTER, 0, MPI_COMM_WORLD)
      call expect(here == there, __LINE__)
      call step_works(context, layer)
    end do

    call forward(layer)  ! all fail: the first rank's first cause is reported
    call context%fail_step(text // ' on rank ' // achar(iachar('0') + my_rank))
    call context%fail_step('a second cause')
    call context%finish_backward(ierr)
    call expect_status(ierr, OSTRAKA_USER_FAILURE, __LINE__, text // ' on rank 0')
    call step_works(context, layer)
    call context%destroy()
  end subroutine

  !! Between begin and end every rank evaluates as often as it likes.
  subroutine check_inference()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer(2)
    integer(int32) :: ierr
    integer :: i

    call two_layers(context, layer)
    call step_works(context, layer)
    call context%begin_inference()
    do i = 1, merge(10, 7, my_rank == 0)
      call forward(layer)
    end do
    call layer(1)%pre_backward(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call context%end_inference()
    call step_works(context, layer)
    call context%destroy()
  end subroutine

  !! The optional arguments of create, and micro-batches.
  subroutine check_options()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    real(real64), pointer :: w(:), list(:), g(:)
    real(real64) :: beta, summed(3)
    integer(int64) :: offset
    integer :: batch

    call context%create(mesh, recipe=OSTRAKA_NO_SHARD, reduction=OSTRAKA_SUM, gradient_slots=3, broadcast=.true., &
      main_dtype=OSTRAKA_F64, gradient_slot_bytes=0_int64)
    call context%add_module('layer', layer)
    call layer%add_parameter('weight', [3])
    call layer%build()
    call layer%set_parameter('weight', real([1, 2, 3], real64) * (my_rank + 1))  ! rank 0's win
    call context%finalize()
    do batch = 1, 3
      call context%set_last_microbatch(batch == 3)
      call layer%pre_forward()
      call layer%parameter('weight', w)
      call expect(all(w == [1, 2, 3]), __LINE__)
      call layer%post_forward()
      call layer%pre_backward()
      call layer%gradient('weight', g, beta)
      if (beta == 0) g = 0
      g = g + batch * [1, 10, 100]
      call layer%post_backward()
      call context%finish_backward()
    end do
    call layer%main_gradient('weight', list, offset)
    summed = 6 * num_ranks * [1, 10, 100]
    call expect(all(list == summed(offset + 1:offset + size(list))), __LINE__)
    call context%destroy()
  end subroutine

  !! Weights stored in 32 bits and handed out in 64; gradients are taken in 32.
  subroutine check_compute_type()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    real(real64), pointer :: w(:)
    real(real32), pointer :: g(:), list(:)
    real(real32) :: beta
    integer(int64) :: offset

    call context%create(mesh, compute_dtype=OSTRAKA_F64)
    call context%add_module('layer', layer)
    call layer%add_parameter('weight', [3], dtype=OSTRAKA_F32)
    call layer%build()
    call layer%set_parameter('weight', [0.5_real32, 1.5_real32, 2.5_real32])
    call context%finalize()
    call layer%pre_forward()
    call layer%parameter('weight', w)
    call expect(all(w == [0.5_real64, 1.5_real64, 2.5_real64]), __LINE__)
    call layer%post_forward()
    call layer%pre_backward()
    call layer%gradient('weight', g, beta)
    g = 7
    call layer%post_backward()
    call context%finish_backward()
    call layer%main_gradient('weight', list, offset)
    call expect(all(list == 7), __LINE__)
    call context%destroy()
  end subroutine
end program
