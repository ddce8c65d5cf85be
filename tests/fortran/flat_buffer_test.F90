! SPDX-License-Identifier: Apache-2.0
!! The simple buffer: a matrix of 6, a scalar, an empty tensor and 3-D and 4-D tensors, one after the other.
program flat_buffer_test
  use, intrinsic :: iso_fortran_env, only: int16, int32, int64, int8, real32, real64
  use checks
  use ostraka
  implicit none

  integer, parameter :: TOTAL = 6 + 1 + 0 + 12 + 4 + 2
  type(ostraka_mesh_t) :: mesh
  type(ostraka_shape_t) :: shapes(6)
  integer(int32) :: ierr
  integer :: i, each

  shapes = [ostraka_shape([2, 3]), ostraka_shape([integer ::]), ostraka_shape([0, 2]), ostraka_shape([1, 3, 4]), &
    ostraka_shape([1, 2, 1, 2]), ostraka_shape([2])]
  call start()
  each = (TOTAL + num_ranks - 1) / num_ranks
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_real64()
  call check_real32()
  call check_bf16()
  call check_integers()
  call check_axes()
  call check_errors()
  call mesh%destroy()
  call finish()

contains

  !! Fortran's own order: element i of the buffer is i, tensors show it in their shapes.
  subroutine check_real64()
    type(ostraka_flat_buffer_t) :: buffer
    real(real64), pointer :: all_of_it(:), own(:), scalar, v(:), m(:,:), c(:,:,:), h(:,:,:,:)
    integer(int64), allocatable :: extents(:)
    integer(int32) :: number
    real(real64) :: factor

    call buffer%create(mesh, 1, shapes, OSTRAKA_F64)
    call buffer%num_tensors(number)
    call expect(number == 6, __LINE__)
    call buffer%dtype(number)
    call expect(number == OSTRAKA_F64, __LINE__)
    call buffer%tensor_shape(4, extents)
    call expect(size(extents) == 3, __LINE__)
    call expect(all(extents == [1, 3, 4]), __LINE__)
    call buffer%tensor_shape(2, extents)
    call expect(size(extents) == 0, __LINE__)
    call buffer%data(all_of_it)
    call expect(size(all_of_it) == each * num_ranks .and. all(all_of_it == 0), __LINE__)
    all_of_it(:TOTAL) = [(i, i = 1, TOTAL)]

    call buffer%view(1, m)
    call expect(all(shape(m) == [2, 3]), __LINE__)
    call expect(all(m == reshape([(i, i = 1, 6)], [2, 3])), __LINE__)
    call buffer%view(2, scalar)
    call expect(associated(scalar, all_of_it(7)), __LINE__)
    call buffer%view(3, m)
    call expect(all(shape(m) == [0, 2]), __LINE__)
    call buffer%view(4, c)
    call expect(all(shape(c) == [1, 3, 4]), __LINE__)
    call expect(all(c == reshape([(i, i = 8, 19)], [1, 3, 4])), __LINE__)
    call buffer%view(5, h)
    call expect(all(shape(h) == [1, 2, 1, 2]), __LINE__)
    call expect(h(1, 2, 1, 1) == 21 .and. h(1, 1, 1, 2) == 22, __LINE__)
    call buffer%view(6, v)
    call expect(all(v == [24, 25]), __LINE__)

    all_of_it = (my_rank + 1) * all_of_it
    call buffer%local_shard(own)
    call expect(size(own) == each, __LINE__)
    call expect(associated(own, all_of_it(my_rank * each + 1:(my_rank + 1) * each)), __LINE__)
    call buffer%reduce_scatter(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    factor = num_ranks * (num_ranks + 1) / 2d0
    call expect(all(own == factor * [(merge(i, 0, i <= TOTAL), i = my_rank * each + 1, (my_rank + 1) * each)]), &
      __LINE__)
    call buffer%all_gather(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call expect(all(all_of_it(:TOTAL) == factor * [(i, i = 1, TOTAL)]), __LINE__)
    call expect(all(all_of_it(TOTAL + 1:) == 0), __LINE__)
    call buffer%destroy(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call buffer%destroy(ierr)  ! a null handle
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
  end subroutine

  subroutine check_real32()
    type(ostraka_flat_buffer_t) :: buffer
    real(real32), pointer :: all_of_it(:), own(:), scalar, v(:), m(:,:), c(:,:,:), h(:,:,:,:)

    call buffer%create(mesh, 1, shapes, OSTRAKA_F32)
    call buffer%local_shard(own)
    own = [(my_rank * each + i, i = 1, each)]
    call buffer%all_gather()
    call buffer%data(all_of_it)
    call expect(all(all_of_it == [(i, i = 1, each * num_ranks)]), __LINE__)
    call buffer%view(1, m)
    call buffer%view(2, scalar)
    call buffer%view(4, c)
    call buffer%view(5, h)
    call buffer%view(6, v)
    call expect(all(m == reshape([(i, i = 1, 6)], [2, 3])) .and. scalar == 7, __LINE__)
    call expect(all(c == reshape([(i, i = 8, 19)], [1, 3, 4])), __LINE__)
    call expect(all(h == reshape([20, 21, 22, 23], [1, 2, 1, 2])) .and. all(v == [24, 25]), __LINE__)
    call buffer%destroy()
  end subroutine

  !! The type by default; sums of 1 and a little are rounded once.
  subroutine check_bf16()
    type(ostraka_flat_buffer_t) :: buffer
    integer(int16), pointer :: own(:), all_of_it(:), scalar, v(:), m(:,:), c(:,:,:), h(:,:,:,:)
    integer(int32) :: number
    real(real32) :: contribution

    call buffer%create(mesh, 1, shapes)
    call buffer%dtype(number)
    call expect(number == OSTRAKA_BF16, __LINE__)
    call buffer%data(all_of_it)
    all_of_it(:TOTAL) = ostraka_real32_to_bf16([(real(i, real32), i = 1, TOTAL)])
    call buffer%view(1, m)
    call buffer%view(2, scalar)
    call buffer%view(4, c)
    call buffer%view(5, h)
    call buffer%view(6, v)
    call expect(all(ostraka_bf16_to_real32(m) == reshape([(i, i = 1, 6)], [2, 3])), __LINE__)
    call expect(ostraka_bf16_to_real32(scalar) == 7, __LINE__)
    call expect(all(ostraka_bf16_to_real32(c) == reshape([(i, i = 8, 19)], [1, 3, 4])), __LINE__)
    call expect(all(ostraka_bf16_to_real32(h) == reshape([20, 21, 22, 23], [1, 2, 1, 2])), __LINE__)
    call expect(all(ostraka_bf16_to_real32(v) == [24, 25]), __LINE__)

    contribution = merge(1.0, 2.0**(-8), my_rank == 0)
    all_of_it(:TOTAL) = ostraka_real32_to_bf16(contribution)
    call buffer%reduce_scatter()
    call buffer%all_gather()
    call expect(all(all_of_it(:TOTAL) == ostraka_real32_to_bf16(1 + (num_ranks - 1) * 2.0**(-8))), __LINE__)
    call buffer%local_shard(own)
    call expect(size(own) == each, __LINE__)
    call buffer%destroy()
    call buffer%create(mesh, 1, shapes, OSTRAKA_F16)  ! raw bits, too
    call buffer%view(1, m)
    call expect(all(m == 0), __LINE__)
    call buffer%destroy()
  end subroutine

  subroutine check_integers()
    type(ostraka_flat_buffer_t) :: buffer
    integer(int64), pointer :: long(:), own_long(:)
    integer(int32), pointer :: normal(:), own_normal(:)
    integer(int8), pointer :: short(:), own_short(:)

    call buffer%create(mesh, 1, shapes, OSTRAKA_I64)
    call buffer%data(long)
    long = 2_int64**40
    call buffer%reduce_scatter()
    call buffer%local_shard(own_long)
    call expect(all(own_long == num_ranks * 2_int64**40), __LINE__)
    call buffer%destroy()
    call buffer%create(mesh, 1, shapes, OSTRAKA_I32)
    call buffer%data(normal)
    normal = 3
    call buffer%reduce_scatter()
    call buffer%local_shard(own_normal)
    call expect(all(own_normal == 3 * num_ranks), __LINE__)
    call buffer%destroy()
    call buffer%create(mesh, 1, shapes, OSTRAKA_U8)
    call buffer%data(short)
    short = 5
    call buffer%reduce_scatter()
    call buffer%local_shard(own_short)
    call expect(all(own_short == 5 * num_ranks), __LINE__)
    call buffer%destroy()
  end subroutine

  !! Axes count from 1: the sums are those of the asked axis.
  subroutine check_axes()
    type(ostraka_mesh_t) :: plane
    type(ostraka_flat_buffer_t) :: buffer
    real(real64), pointer :: own(:), all_of_it(:)
    integer :: sizes(2), axis, first

    sizes(2) = merge(2, 1, mod(num_ranks, 2) == 0)
    sizes(1) = num_ranks / sizes(2)
    call plane%create(MPI_COMM_WORLD%mpi_val, sizes)
    do axis = 1, 2
      call buffer%create(plane, axis, [ostraka_shape([12])], OSTRAKA_F64)
      call buffer%data(all_of_it)
      call expect(size(all_of_it) == 12, __LINE__)
      all_of_it = my_rank
      call buffer%reduce_scatter()
      call buffer%local_shard(own)
      call expect(size(own) == 12 / sizes(axis), __LINE__)
      first = merge(mod(my_rank, sizes(2)), my_rank - mod(my_rank, sizes(2)), axis == 1)  ! of the line, and its stride
      call expect(all(own == sum([(first + i * merge(sizes(2), 1, axis == 1), i = 0, sizes(axis) - 1)])), __LINE__)
      call buffer%destroy()
    end do
    call plane%destroy()
  end subroutine

  !! After all refusals the buffer still works.
  subroutine check_errors()
    type(ostraka_flat_buffer_t) :: buffer, nothing, copy
    type(ostraka_mesh_t) :: no_mesh
    real(real64), pointer :: wide(:,:), list(:)
    real(real32), pointer :: matrix(:,:), narrow(:), scalar
    integer(int16), pointer :: bits(:)
    integer(int64), allocatable :: extents(:)
    integer(int32) :: number

    call buffer%create(no_mesh, 1, shapes, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'the mesh handle is null')
    call buffer%create(mesh, 2, shapes, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'ostraka_flat_buffer_create: mesh: expected an axis')
    call buffer%create(mesh, 1, [ostraka_shape([2, -3])], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'expected extents >= 0, found -3')
    call buffer%create(mesh, 1, shapes, 99, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '99')
    call nothing%num_tensors(number, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'the flat buffer handle is null')
    call nothing%dtype(number, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call nothing%tensor_shape(1, extents, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call nothing%view(1, matrix, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call nothing%data(list, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call nothing%local_shard(list, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call nothing%reduce_scatter(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call nothing%all_gather(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)

    call buffer%create(mesh, 1, shapes, OSTRAKA_F32)
    call buffer%view(7, matrix, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'expected a tensor in [0, 6), found 6')
    call expect(.not. associated(matrix), __LINE__)
    call buffer%view(0, matrix, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'found -1')
    call buffer%tensor_shape(7, extents, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'found 6')
    call buffer%view(1, wide, ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, &
      'tensor 1 is real(real32), the array or pointer is real(real64)')
    call expect(.not. associated(wide), __LINE__)
    call buffer%view(1, narrow, ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, &
      'flat_buffer%view: tensor 1 has rank 2, shape (2, 3), the pointer rank 1')
    call expect(.not. associated(narrow), __LINE__)
    call buffer%view(4, scalar, ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'the pointer rank 0')
    call expect(.not. associated(scalar), __LINE__)
    call buffer%data(list, ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'flat_buffer%data: the buffer is real(real32)')
    call expect(.not. associated(list), __LINE__)
    call buffer%local_shard(bits, ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'the array or pointer is integer(int16)')
    call expect(.not. associated(bits), __LINE__)

    call buffer%local_shard(narrow)
    narrow = my_rank + 1
    call buffer%all_gather()
    call buffer%data(narrow)
    call expect(all(narrow == [((i - 1) / each + 1, i = 1, each * num_ranks)]), __LINE__)
    copy = buffer
    call buffer%destroy()
    call copy%all_gather(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'destroyed')
    call copy%destroy(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'destroyed')
  end subroutine
end program
