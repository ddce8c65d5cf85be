! SPDX-License-Identifier: Apache-2.0
!! The forms with type(c_ptr): the same memory as the Fortran pointers, errors that null the address.
program pointers_test
  use, intrinsic :: iso_c_binding, only: c_associated, c_f_pointer, c_loc, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  use checks
  use ostraka
  implicit none
  type(ostraka_mesh_t) :: mesh
  real(real64), target :: weights(3, 2) = reshape([1d0, 2d0, 3d0, 4d0, 5d0, 6d0], [3, 2])

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_buffer()
  call check_from_local()
  call check_flat_buffer()
  call check_module()
  call check_ddp()
  call mesh%destroy()
  call finish()

contains

  subroutine check_buffer()
    type(ostraka_buffer_t) :: buffer
    type(c_ptr) :: address
    real(real64), pointer :: list(:), rows(:,:)
    integer(int64) :: count, first, wanted
    integer(int32) :: ierr

    call buffer%empty(mesh, [ostraka_shard()], [ostraka_shape([3, 2])], OSTRAKA_F64)
    call buffer%copy_from(1, c_loc(weights), 6_int64)
    call buffer%tensor_view(1, rows, wanted)
    call buffer%tensor_view(1, address, count, first)
    call expect(count == size(rows, 2) .and. first == wanted, __LINE__)
    call expect(all(rows == weights(:, first:first + count - 1)), __LINE__)
    call expect(size(rows) == 0 .or. is_at(address, rows), __LINE__)
    call buffer%tensor_range(1, list, wanted)
    call buffer%tensor_range(1, address, count, first)
    call expect(count == size(list) .and. first == wanted, __LINE__)
    call expect(size(list) == 0 .or. is_at(address, list), __LINE__)
    call buffer%local(list, wanted)
    call buffer%local(address, count, first)
    call expect(count == size(list) .and. first == wanted .and. is_at(address, list), __LINE__)
    call buffer%copy_from(1, c_loc(weights), 5_int64, ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, '5')
    call buffer%tensor_range(2, address, count, ierr=ierr)
    call expect(ierr /= OSTRAKA_OK .and. count == 0 .and. .not. c_associated(address), __LINE__)
    call buffer%destroy()
    call buffer%local(address, count, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call expect(.not. c_associated(address), __LINE__)
  end subroutine

  !! Memory of the caller's by its address.
  subroutine check_from_local()
    type(ostraka_layout_t) :: layout
    type(ostraka_buffer_t) :: buffer, whole
    real(real64), allocatable, target :: memory(:)
    real(real64), pointer :: list(:)
    integer(int64) :: segment
    integer(int32) :: ierr

    call layout%create(OSTRAKA_PLANNED, [ostraka_shape([2 * num_ranks])], segments=num_ranks)
    call layout%segment_size(segment)
    allocate(memory(segment), source=0d0)
    memory(:2) = [2 * my_rank + 1, 2 * my_rank + 2]
    call buffer%from_local(mesh, [ostraka_shard()], layout, OSTRAKA_F64, c_loc(memory), segment + 1, ierr=ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__)
    call buffer%from_local(mesh, [ostraka_shard()], layout, OSTRAKA_F64, c_loc(memory), segment)
    call buffer%allgather(1, result=whole)
    call whole%tensor_range(1, list)
    call expect(sum(list) > num_ranks * (2 * num_ranks + 1) - 0.5d0, __LINE__)
    call whole%destroy()
    call buffer%destroy()
    call layout%destroy()
  end subroutine

  subroutine check_flat_buffer()
    type(ostraka_flat_buffer_t) :: buffer
    type(c_ptr) :: address
    real(real64), pointer :: view(:,:), shard(:), data(:)
    integer(int64) :: count
    integer(int32) :: ierr

    call buffer%create(mesh, 1, [ostraka_shape([3, 2])], OSTRAKA_F64)
    call buffer%view(1, view)
    call buffer%view(1, address, count)
    call expect(count == 6 .and. is_at(address, view), __LINE__)
    call buffer%local_shard(shard)
    call buffer%local_shard(address, count)
    call expect(count == size(shard) .and. is_at(address, shard), __LINE__)
    call buffer%data(data)
    call buffer%data(address, count)
    call expect(count == size(data) .and. is_at(address, data), __LINE__)
    call buffer%view(2, address, count, ierr)
    call expect(ierr /= OSTRAKA_OK .and. count == 0 .and. .not. c_associated(address), __LINE__)
    call buffer%destroy()
  end subroutine

  subroutine check_module()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    type(c_ptr) :: address
    real(real64), pointer :: w(:,:), g(:,:), own(:)
    real(real64) :: beta
    integer(int64) :: count, offset, wanted
    integer(int32) :: ierr

    call context%create(mesh)
    call context%add_module('layer', layer)
    call layer%add_parameter('w', [3, 2])
    call layer%build()
    call layer%set_parameter('w', OSTRAKA_F64, c_loc(weights), 6_int64)
    call context%finalize()
    call layer%pre_forward()
    call layer%parameter('w', w)
    call layer%parameter('w', OSTRAKA_F64, address, count)
    call expect(count == 6 .and. all(w >= weights .and. w <= weights) .and. is_at(address, w), __LINE__)
    call layer%parameter('w', OSTRAKA_F32, address, count, ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__)
    call expect(count == 0 .and. .not. c_associated(address), __LINE__)
    call layer%post_forward()
    call layer%pre_backward()
    call layer%gradient('w', OSTRAKA_F64, address, count, beta)
    call expect(count == 6 .and. abs(beta) <= 0, __LINE__)
    call c_f_pointer(address, g, [3, 2])
    g = weights
    call layer%post_backward()
    call context%finish_backward()
    call layer%main_gradient('w', own, wanted)
    call layer%main_gradient('w', OSTRAKA_F64, address, count, offset)
    call expect(count == size(own) .and. offset == wanted, __LINE__)
    call expect(size(own) == 0 .or. is_at(address, own), __LINE__)
    call expect(all(abs(own - [(offset + count, count = 1, size(own))]) < 1d-12), __LINE__)
    call layer%set_parameter('w', OSTRAKA_F64, c_loc(weights), 7_int64, ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__)
    call context%destroy()
  end subroutine

  subroutine check_ddp()
    type(ostraka_ddp_t) :: ddp
    type(c_ptr) :: address
    real(real64), pointer :: w(:,:), g(:,:), own(:)
    real(real64) :: beta
    integer(int64) :: count, offset
    integer(int32) :: ierr

    call ddp%create(mesh)
    call ddp%add_parameter('layer.w', [3, 2])
    call ddp%finalize()
    call ddp%set_parameter('layer.w', OSTRAKA_F64, c_loc(weights), 6_int64)
    call ddp%parameter('layer.w', w)
    call ddp%parameter('layer.w', OSTRAKA_F64, address, count)
    call expect(count == 6 .and. all(w >= weights .and. w <= weights) .and. is_at(address, w), __LINE__)
    call ddp%parameter('layer.v', OSTRAKA_F64, address, count, ierr)
    call expect(ierr /= OSTRAKA_OK .and. count == 0 .and. .not. c_associated(address), __LINE__)
    call ddp%gradient('layer.w', OSTRAKA_F64, address, count, beta)
    call expect(count == 6 .and. abs(beta) <= 0, __LINE__)
    call c_f_pointer(address, g, [3, 2])
    g = weights
    call ddp%gradient_ready('layer.w')
    call ddp%finish_grad_sync()
    call ddp%main_gradient('layer.w', OSTRAKA_F64, address, count, offset)
    call c_f_pointer(address, own, [count])
    call expect(offset == 0 .and. count == 6, __LINE__)
    call expect(all(abs(own - reshape(weights, [6])) < 1d-12), __LINE__)
    call ddp%destroy()
  end subroutine

  !! The array begins at the address.
  logical function is_at(address, array)
    type(c_ptr), intent(in) :: address
    real(real64), intent(in), target :: array(..)

    is_at = c_associated(address, c_loc(array))
  end function
end program
