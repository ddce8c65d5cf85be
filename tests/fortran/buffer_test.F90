! SPDX-License-Identifier: Apache-2.0
!! Buffers and what is in them; a Fortran array is cut along its last index.
program buffer_test
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int32_t, c_int64_t, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int16, int32, int64, int8, real32, real64
  use checks
  use ostraka
  implicit none

  interface  ! by hand, what a C program calls
    integer(c_int32_t) function shape_in_c(buffer, index, ndim, extents) bind(c, name='ostraka_buffer_tensor_shape')
      import
      type(c_ptr), value :: buffer
      integer(c_int32_t), value :: index
      integer(c_int32_t), intent(out) :: ndim
      integer(c_int64_t), intent(out) :: extents(8)
    end function
    integer(c_int32_t) function view_in_c(buffer, index, data, num_rows, first_row) &
      bind(c, name='ostraka_buffer_tensor_view')
      import
      type(c_ptr), value :: buffer
      integer(c_int32_t), value :: index
      type(c_ptr), intent(out) :: data
      integer(c_int64_t), intent(out) :: num_rows, first_row
    end function
  end interface

  type(ostraka_mesh_t) :: mesh
  real(real64), target :: t(2, 3, 5)  ! values encode the indices
  integer :: i, j, k

  t = reshape([(((100 * i + 10 * j + k, i = 1, 2), j = 1, 3), k = 1, 5)], shape(t))
  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_last_index()
  call check_cut_rows()
  call check_ranks_of_views()
  call check_distribute()
  call check_types()
  call check_from_local()
  call mesh%destroy()
  call finish()

contains

  subroutine check_last_index()
    type(ostraka_buffer_t) :: buffer
    type(ostraka_layout_t) :: layout
    real(real64), pointer :: rows(:,:,:), list(:), c_rows(:)
    integer(int64), allocatable :: extents(:)
    integer(int64) :: first_row, offset, c_extents(8), num_rows, row
    integer(int32) :: number, ndim
    type(c_ptr) :: handle, address
    integer :: first, count

    call share(5, first, count)
    call buffer%empty(mesh, [ostraka_shard()], [ostraka_shape([2, 3, 5])], OSTRAKA_F64)
    call buffer%copy_from(1, t)
    call buffer%num_tensors(number)
    call expect(number == 1, __LINE__)
    call buffer%layout(layout)
    call layout%tensor_shape(1, extents)
    call expect(all(extents == [2, 3, 5]), __LINE__)
    call layout%destroy()
    call buffer%tensor_shape(1, extents)
    call expect(size(extents) == 3, __LINE__)
    call expect(all(extents == [2, 3, 5]), __LINE__)
    call buffer%dtype(number)
    call expect(number == OSTRAKA_F64, __LINE__)

    call buffer%tensor_view(1, rows, first_row)
    call expect(all(shape(rows) == [2, 3, count]), __LINE__)
    if (count > 0) call expect(first_row == first + 1, __LINE__)
    call expect(all(rows == t(:, :, first + 1:first + count)), __LINE__)
    call buffer%tensor_range(1, list, offset)
    call expect(size(list) == 6 * count, __LINE__)
    if (count > 0) call expect(offset == 6 * first, __LINE__)
    call expect(all(list == reshape(t(:, :, first + 1:first + count), [6 * count])), __LINE__)

    ! C sees the same bytes as double t[5][3][2]; the handle is the first component of ostraka_buffer_t
    handle = transfer(buffer, c_null_ptr)
    call expect(shape_in_c(handle, 0, ndim, c_extents) == OSTRAKA_OK, __LINE__)
    call expect(ndim == 3 .and. all(c_extents(:3) == [5, 3, 2]), __LINE__)
    call expect(view_in_c(handle, 0, address, num_rows, row) == OSTRAKA_OK, __LINE__)
    call expect(num_rows == count, __LINE__)
    if (count > 0) then
      call expect(row == first, __LINE__)
      call c_f_pointer(address, c_rows, [6 * num_rows])
      do k = 0, int(num_rows) - 1
        do j = 0, 2
          do i = 0, 1
            call expect(c_rows(1 + (k * 3 + j) * 2 + i) == 100 * (i + 1) + 10 * (j + 1) + first + k + 1, __LINE__)
          end do
        end do
      end do
    end if

    rows = -rows  ! what is written through the pointer is there
    call buffer%tensor_range(1, list)
    call expect(all(list == -reshape(t(:, :, first + 1:first + count), [6 * count])), __LINE__)
    call buffer%copy_from(1, reshape(t, [30]))  ! as a list of elements
    call expect(all(rows == t(:, :, first + 1:first + count)), __LINE__)
    call buffer%destroy()
  end subroutine

  !! In a planned layout a cut may go through a column.
  subroutine check_cut_rows()
    type(ostraka_layout_t) :: layout
    type(ostraka_buffer_t) :: buffer
    real(real64), pointer :: rows(:,:,:), list(:)
    integer(int64) :: offset
    integer(int32) :: ierr
    integer :: first, count

    call layout%create(OSTRAKA_PLANNED, [ostraka_shape([2, 3, 5])], segments=num_ranks)
    call buffer%create(mesh, [ostraka_shard()], layout, OSTRAKA_F64)
    call layout%destroy()  ! the buffer keeps what it needs
    call buffer%copy_from(1, t)
    call share(30, first, count)
    call buffer%tensor_range(1, list, offset)
    call expect(size(list) == count .and. offset == first, __LINE__)
    do i = 1, count
      j = first + i - 1
      call expect(list(i) == t(1 + mod(j, 2), 1 + mod(j / 2, 3), 1 + j / 6), __LINE__)
    end do
    call buffer%tensor_view(1, rows, ierr=ierr)
    if (mod(first, 6) == 0 .and. mod(count, 6) == 0) then
      call expect(ierr == OSTRAKA_OK, __LINE__)
    else
      call expect(ierr /= OSTRAKA_OK .and. .not. associated(rows), __LINE__)
      call expect(index(ostraka_last_error(), 'tensor_range') > 0, __LINE__)
    end if
    call buffer%destroy()
  end subroutine

  !! Views of rank 0 to 4 in both kinds; empty parts are zero-sized, not null.
  subroutine check_ranks_of_views()
    type(ostraka_buffer_t) :: wide, narrow
    type(ostraka_shape_t) :: shapes(5)
    real(real64), pointer :: w0, w1(:), w2(:,:), w3(:,:,:), w4(:,:,:,:)
    real(real32), pointer :: n0, n1(:), n2(:,:), n3(:,:,:), n4(:,:,:,:)
    integer :: owners, anywhere

    shapes = [ostraka_shape([integer ::]), ostraka_shape([2]), ostraka_shape([3, 2]), ostraka_shape([2, 1, 3]), &
      ostraka_shape([1, 2, 1, 2])]
    call wide%empty(mesh, [ostraka_shard()], shapes, OSTRAKA_F64)
    call narrow%empty(mesh, [ostraka_shard()], shapes, OSTRAKA_F32)
    call wide%copy_from(1, 4.5d0)
    call narrow%copy_from(1, 4.5)
    call wide%tensor_view(1, w0)
    call narrow%tensor_view(1, n0)
    owners = 0
    if (associated(w0)) then
      owners = 1
      call expect(w0 == 4.5d0 .and. n0 == 4.5, __LINE__)
    end if
    call expect(associated(w0) .eqv. associated(n0), __LINE__)
    call mpi_allreduce(owners, anywhere, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call expect(anywhere == 1, __LINE__)
    call wide%tensor_view(2, w1)
    call wide%tensor_view(3, w2)
    call wide%tensor_view(4, w3)
    call wide%tensor_view(5, w4)
    call narrow%tensor_view(2, n1)
    call narrow%tensor_view(3, n2)
    call narrow%tensor_view(4, n3)
    call narrow%tensor_view(5, n4)
    call expect(associated(w1) .or. size(w1) == 0, __LINE__)
    call expect(size(w2, 1) == 3 .and. all([size(w3, 1), size(w3, 2)] == [2, 1]), __LINE__)
    call expect(all([size(w4, 1), size(w4, 2), size(w4, 3)] == [1, 2, 1]), __LINE__)
    call expect(size(w1) == size(n1) .and. all(shape(w2) == shape(n2)), __LINE__)
    call expect(all(shape(w3) == shape(n3)) .and. all(shape(w4) == shape(n4)), __LINE__)
    anywhere = size(w1) + size(w2) + size(w3) + size(w4)
    call mpi_allreduce(MPI_IN_PLACE, anywhere, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call expect(anywhere == 2 + 6 + 6 + 4, __LINE__)
    call expect(all(w4 == 0) .and. all(n2 == 0), __LINE__)
    call wide%destroy()
    call narrow%destroy()
  end subroutine

  subroutine check_distribute()
    type(ostraka_buffer_t) :: buffer
    type(ostraka_layout_t) :: layout
    type(ostraka_tensor_t) :: tensors(3)
    real(real64), target :: v(4), s
    real(real64), pointer :: scalar, list(:), whole(:,:,:)

    v = [1, 2, 3, 4]
    s = 0.25d0
    tensors = [ostraka_tensor(v), ostraka_tensor(t), ostraka_tensor(s)]
    call buffer%distribute(mesh, [ostraka_replicate()], tensors, OSTRAKA_F64)
    call buffer%tensor_range(1, list)
    call expect(all(list == v), __LINE__)
    call buffer%tensor_view(2, whole)
    call expect(all(shape(whole) == shape(t)), __LINE__)
    call expect(all(whole == t), __LINE__)
    call buffer%tensor_view(3, scalar)
    call expect(scalar == s, __LINE__)
    call buffer%destroy()

    call layout%create(OSTRAKA_PLANNED, tensors%shape, segments=num_ranks, segment_multiple=64_int64)
    call buffer%distribute(mesh, [ostraka_shard()], tensors, OSTRAKA_F64, layout)
    call buffer%local(list)
    call expect(size(list) == 64, __LINE__)
    call buffer%destroy()
    call layout%destroy()
  end subroutine

  !! What is local may end with padding.
  subroutine check_types()
    type(ostraka_buffer_t) :: buffer
    real(real32), pointer :: p32(:)
    integer(int64), pointer :: p64(:)
    integer(int32), pointer :: pint(:)
    integer(int16), pointer :: p16(:)
    integer(int8), pointer :: p8(:)
    type(ostraka_shape_t) :: six(1)
    integer(int64) :: begin

    six = [ostraka_shape([2, 3])]
    call buffer%empty(mesh, [ostraka_replicate()], six, OSTRAKA_F32)
    call buffer%copy_from(1, reshape(real([1, 2, 3, 4, 5, 6], real32), [2, 3]))
    call buffer%local(p32, begin)
    call expect(begin == 0 .and. all(p32(:6) == [1, 2, 3, 4, 5, 6]), __LINE__)
    call buffer%tensor_range(1, p32)
    call expect(all(p32 == [1, 2, 3, 4, 5, 6]), __LINE__)
    call buffer%destroy()
    call buffer%empty(mesh, [ostraka_replicate()], six, OSTRAKA_I64)
    call buffer%copy_from(1, 2_int64**40 + [1, 2, 3, 4, 5, 6])
    call buffer%local(p64)
    call expect(all(p64(:6) == 2_int64**40 + [1, 2, 3, 4, 5, 6]), __LINE__)
    call buffer%tensor_range(1, p64)
    call expect(size(p64) == 6, __LINE__)
    call buffer%destroy()
    call buffer%empty(mesh, [ostraka_replicate()], six, OSTRAKA_I32)
    call buffer%copy_from(1, [1, 2, 3, 4, 5, 6])
    call buffer%local(pint)
    call expect(all(pint(:6) == [1, 2, 3, 4, 5, 6]), __LINE__)
    call buffer%tensor_range(1, pint)
    call expect(size(pint) == 6, __LINE__)
    call buffer%destroy()
    call buffer%empty(mesh, [ostraka_replicate()], six, OSTRAKA_BF16)
    call buffer%copy_from(1, ostraka_real32_to_bf16(real([1, 2, 3, 4, 5, 6], real32)))
    call buffer%local(p16)
    call expect(all(ostraka_bf16_to_real32(p16(:6)) == [1, 2, 3, 4, 5, 6]), __LINE__)
    call buffer%destroy()
    call buffer%empty(mesh, [ostraka_replicate()], six, OSTRAKA_F16)
    call buffer%copy_from(1, int([1, 2, 3, 4, 5, 6], int16))
    call buffer%tensor_range(1, p16)
    call expect(all(p16 == [1, 2, 3, 4, 5, 6]), __LINE__)
    call buffer%destroy()
    call buffer%empty(mesh, [ostraka_replicate()], six, OSTRAKA_U8)
    call buffer%copy_from(1, int([1, 2, 3, 4, 5, -1], int8))
    call buffer%local(p8)
    call expect(all(p8(:6) == [1, 2, 3, 4, 5, -1]), __LINE__)
    call buffer%tensor_range(1, p8)
    call expect(size(p8) == 6, __LINE__)
    call buffer%destroy()
  end subroutine

  !! The caller's own memory, padding included.
  subroutine check_from_local()
    type(ostraka_buffer_t) :: buffer
    type(ostraka_layout_t) :: layout
    real(real64), target, allocatable :: memory(:)
    integer(int64), target, allocatable :: numbers(:)
    real(real64), pointer :: list(:)
    integer(int64) :: segment
    integer(int32) :: ierr
    integer :: first, count

    call layout%create(OSTRAKA_PLANNED, [ostraka_shape([5])], segments=num_ranks, segment_multiple=4_int64)
    call layout%segment_size(segment)
    allocate(memory(segment), source=7d0)
    allocate(numbers(segment), source=0_int64)
    call buffer%from_local(mesh, [ostraka_shard()], layout, OSTRAKA_F64, memory, ierr=ierr)
    first = int(min(my_rank * segment, 5_int64))
    count = int(min(segment, 5_int64 - first))
    if (count == segment) then
      call expect_status(ierr, OSTRAKA_OK, __LINE__)
      call buffer%destroy()
    else  ! padding that is not zero
      call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    end if
    call buffer%from_local(mesh, [ostraka_shard()], layout, OSTRAKA_F64, memory, clear_padding=.true.)
    call expect(all(memory(:count) == 7) .and. all(memory(count + 1:) == 0), __LINE__)
    call buffer%copy_from(1, [1d0, 2d0, 3d0, 4d0, 5d0])
    call expect(all(memory(:count) == [(first + i, i = 1, count)]), __LINE__)
    call buffer%local(list)
    call expect(associated(list, memory), __LINE__)
    call buffer%destroy()
    call buffer%from_local(mesh, [ostraka_shard()], layout, OSTRAKA_I64, numbers)
    call buffer%destroy()
    call buffer%from_local(mesh, [ostraka_shard()], layout, OSTRAKA_F64, memory(:segment - 1), ierr=ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__)
    call buffer%from_local(mesh, [ostraka_shard()], layout, OSTRAKA_F32, memory, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'real(real32)')
    call layout%destroy()
  end subroutine
end program
