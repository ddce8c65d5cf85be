! SPDX-License-Identifier: Apache-2.0
!! Complex arrays as tensors of pairs: what goes in as complex numbers comes out as complex numbers.
program complex_test
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use checks
  use ostraka
  implicit none

  complex(real64), parameter :: i_unit = (0, 1)
  type(ostraka_atom_t), parameter :: PAIRS(1) = [ostraka_atom_t(OSTRAKA_ATOM_LAST_DIMS, 1)]
  type(ostraka_mesh_t) :: mesh
  type(ostraka_layout_t) :: layout  ! of z, v and one, without cut pairs
  complex(real64), target :: z(3, 5), v(7), one(1)  ! values encode the indices
  complex(real64) :: all_of_z(15)
  integer(int32) :: ierr
  integer :: i, j

  z = reshape([((cmplx(10 * i + j, -i, real64), i = 1, 3), j = 1, 5)], shape(z))
  v = [(cmplx(i, 100 + i, real64), i = 1, 7)]
  one = (3, 4)
  all_of_z = reshape(z, [15])
  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call layout%create(OSTRAKA_PLANNED, [ostraka_shape([2, 3, 5]), ostraka_shape([2, 7]), ostraka_shape([2, 1])], &
    num_ranks, PAIRS)
  call check_descriptions()
  call check_distribute()
  call check_real32()
  call check_reductions()
  call check_views()
  call check_copies()
  call check_local()
  call check_from_local()
  call layout%destroy()
  call mesh%destroy()
  call finish()

contains

  !! A tensor of the real type whose first extent is 2.
  subroutine check_descriptions()
    type(ostraka_tensor_t) :: tensor
    complex(real32), target :: c(2, 1, 3, 4), s
    complex(real64), target :: deepest(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)

    s = 0
    c = 0
    deepest = 0
    tensor = ostraka_tensor(z)
    call expect(tensor%dtype == OSTRAKA_F64 .and. tensor%shape%ndim == 3, __LINE__)
    call expect(all(tensor%shape%extents(:3) == [2, 3, 5]) .and. tensor%contiguous, __LINE__)
    tensor = ostraka_tensor(c)
    call expect(tensor%dtype == OSTRAKA_F32 .and. tensor%shape%ndim == 5, __LINE__)
    call expect(all(tensor%shape%extents(:5) == [2, 2, 1, 3, 4]), __LINE__)
    tensor = ostraka_tensor(s)
    call expect(tensor%shape%ndim == 1 .and. tensor%shape%extents(1) == 2, __LINE__)
    tensor = ostraka_tensor(z(::2, :))
    call expect(.not. tensor%contiguous, __LINE__)
    tensor = ostraka_tensor(deepest)
    call expect(tensor%shape%ndim == 16, __LINE__)
  end subroutine

  !! This rank's numbers are those of z and v.
  subroutine expect_shards(buffer, factor, line)
    type(ostraka_buffer_t), intent(in) :: buffer
    complex(real64), intent(in) :: factor
    integer, intent(in) :: line
    complex(real64), pointer :: list(:)
    integer(int64) :: offset

    call buffer%tensor_range(1, list, offset)
    call expect(all(abs(list - factor * all_of_z(offset + 1:offset + size(list))) < 1d-12), line)
    call buffer%tensor_range(2, list, offset)
    call expect(all(abs(list - factor * v(offset + 1:offset + size(list))) < 1d-12), line)
  end subroutine

  subroutine expect_whole(buffer, factor, line)
    type(ostraka_buffer_t), intent(in) :: buffer
    complex(real64), intent(in) :: factor
    integer, intent(in) :: line
    complex(real64), pointer :: matrix(:,:), list(:)

    call buffer%tensor_view(1, matrix)
    call expect(all(shape(matrix) == [3, 5]), line)
    call expect(all(abs(matrix - factor * z) < 1d-12), line)
    call buffer%tensor_view(2, list)
    call expect(size(list) == 7, line)
    call expect_shards(buffer, factor, line)
  end subroutine

  subroutine check_distribute()
    type(ostraka_buffer_t) :: buffer, whole
    real(real64), pointer :: numbers(:,:,:)
    complex(real64), pointer :: list(:)
    integer(int64), allocatable :: extents(:)
    integer :: elements(3)
    integer(int32) :: dtype, index

    call buffer%distribute(mesh, [ostraka_shard()], [ostraka_tensor(z), ostraka_tensor(v), ostraka_tensor(one)], &
      OSTRAKA_F64, layout)
    call buffer%dtype(dtype)
    call expect(dtype == OSTRAKA_F64, __LINE__)
    call buffer%tensor_shape(1, extents)
    call expect(all(extents == [2, 3, 5]), __LINE__)
    call expect_shards(buffer, (1d0, 0d0), __LINE__)
    do index = 1, 3
      call buffer%tensor_range(index, list)
      elements(index) = size(list)
    end do
    call mpi_allreduce(MPI_IN_PLACE, elements, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call expect(all(elements == [15, 7, 1]), __LINE__)
    call buffer%allgather(1, whole)
    call expect_whole(whole, (1d0, 0d0), __LINE__)
    call whole%tensor_view(1, numbers)  ! what the library sees
    call expect(all(numbers(1, :, :) == real(z)) .and. all(numbers(2, :, :) == aimag(z)), __LINE__)
    call whole%destroy()
    call buffer%destroy()
    call buffer%distribute(mesh, [ostraka_shard()], [ostraka_tensor(z), ostraka_tensor(v)], OSTRAKA_F64)  ! by rows
    call expect_shards(buffer, (1d0, 0d0), __LINE__)
    call buffer%destroy()
  end subroutine

  subroutine check_real32()
    type(ostraka_buffer_t) :: buffer, whole
    complex(real32), target :: narrow(3, 5), list(7)
    complex(real32), pointer :: matrix(:,:), part(:)
    integer(int64) :: offset

    narrow = cmplx(z, kind=real32)
    list = cmplx(v, kind=real32)
    call buffer%distribute(mesh, [ostraka_shard()], [ostraka_tensor(narrow), ostraka_tensor(list)], OSTRAKA_F32)
    call buffer%tensor_range(2, part, offset)
    call expect(all(part == list(offset + 1:offset + size(part))), __LINE__)
    call buffer%allgather(1, whole)
    call whole%tensor_view(1, matrix)
    call expect(all(matrix == narrow), __LINE__)
    call whole%copy_from(1, 2 * narrow)
    call expect(all(matrix == 2 * narrow), __LINE__)
    call whole%local(part)
    call expect(all(part(:15) == reshape(2 * narrow, [15])), __LINE__)
    call whole%destroy()
    call buffer%destroy()
  end subroutine

  !! Every rank contributes its own multiple, turned by i.
  subroutine check_reductions()
    type(ostraka_buffer_t) :: buffer, result
    integer(int32), parameter :: ops(2) = [OSTRAKA_SUM, OSTRAKA_MEAN]
    complex(real64) :: factors(2)
    integer :: op

    factors = i_unit * [num_ranks * (num_ranks + 1) / 2d0, (num_ranks + 1) / 2d0]
    do op = 1, 2
      call buffer%create(mesh, [ostraka_partial(ops(op))], layout, OSTRAKA_F64)
      call buffer%copy_from(1, (my_rank + 1) * i_unit * z)
      call buffer%copy_from(2, (my_rank + 1) * i_unit * v)
      call buffer%allreduce(1, result)
      call expect_whole(result, factors(op), __LINE__)
      call result%destroy()
      call buffer%reduce_scatter(1, result)
      call expect_shards(result, factors(op), __LINE__)
      call result%destroy()
      call buffer%destroy()
    end do
  end subroutine

  !! Ranks 0 to 4 in both kinds; shards have whole columns, and their first index.
  subroutine check_views()
    type(ostraka_buffer_t) :: buffer, part
    type(ostraka_shape_t) :: shapes(5)
    complex(real64), pointer :: w0, w1(:), w2(:,:), w3(:,:,:), w4(:,:,:,:)
    complex(real32), pointer :: n0, n1(:), n2(:,:), n3(:,:,:), n4(:,:,:,:)
    integer(int64) :: first_row
    integer :: first, count

    shapes = [ostraka_shape([2]), ostraka_shape([2, 3]), ostraka_shape([2, 3, 5]), ostraka_shape([2, 2, 1, 3]), &
      ostraka_shape([2, 1, 2, 1, 2])]
    call buffer%empty(mesh, [ostraka_replicate()], shapes, OSTRAKA_F64)
    call buffer%copy_from(1, (5d0, 6d0))
    call buffer%copy_from(3, z)
    call buffer%tensor_view(1, w0, first_row)
    call expect(w0 == (5, 6) .and. first_row == 1, __LINE__)
    call buffer%tensor_view(2, w1)
    call buffer%tensor_view(3, w2)
    call buffer%tensor_view(4, w3)
    call buffer%tensor_view(5, w4)
    call expect(size(w1) == 3 .and. all(shape(w2) == [3, 5]), __LINE__)
    call expect(all(shape(w3) == [2, 1, 3]) .and. all(shape(w4) == [1, 2, 1, 2]), __LINE__)
    call expect(all(w2 == z), __LINE__)
    call buffer%destroy()
    call buffer%empty(mesh, [ostraka_replicate()], shapes, OSTRAKA_F32)
    call buffer%tensor_view(1, n0)
    call buffer%tensor_view(2, n1)
    call buffer%tensor_view(3, n2)
    call buffer%tensor_view(4, n3)
    call buffer%tensor_view(5, n4)
    n0 = (1, 2)
    call buffer%tensor_view(1, n0)
    call expect(n0 == (1, 2) .and. size(n1) == 3 .and. all(shape(n2) == [3, 5]), __LINE__)
    call expect(all(shape(n3) == [2, 1, 3]) .and. all(shape(n4) == [1, 2, 1, 2]), __LINE__)
    call buffer%destroy()

    call share(5, first, count)
    call part%empty(mesh, [ostraka_shard()], [ostraka_shape([2, 3, 5])], OSTRAKA_F64)
    call part%copy_from(1, z)
    call part%tensor_view(1, w2, first_row)
    call expect(all(shape(w2) == [3, count]), __LINE__)
    if (count > 0) call expect(first_row == first + 1, __LINE__)
    call expect(all(w2 == z(:, first + 1:first + count)), __LINE__)
    call part%destroy()
  end subroutine

  !! Complex arrays of the shape, lists of numbers, and real arrays with the parts in front.
  subroutine check_copies()
    type(ostraka_buffer_t) :: buffer
    complex(real64), pointer :: matrix(:,:)
    real(real64), target :: parts(2, 3, 5)

    call buffer%empty(mesh, [ostraka_replicate()], [ostraka_shape([2, 3, 5])], OSTRAKA_F64)
    call buffer%tensor_view(1, matrix)
    call buffer%copy_from(1, z)
    call expect(all(matrix == z), __LINE__)
    call buffer%copy_from(1, -all_of_z)
    call expect(all(matrix == -z), __LINE__)
    parts(1, :, :) = real(z)
    parts(2, :, :) = -aimag(z)
    call buffer%copy_from(1, parts)
    call expect(all(matrix == conjg(z)), __LINE__)
    call buffer%destroy()
  end subroutine

  subroutine check_local()
    type(ostraka_buffer_t) :: buffer
    complex(real64), pointer :: list(:), part(:)
    real(real64), pointer :: numbers(:)
    integer(int64) :: begin, real_begin

    call buffer%create(mesh, [ostraka_shard()], layout, OSTRAKA_F64)
    call buffer%copy_from(1, z)
    call buffer%local(list, begin)
    call buffer%local(numbers, real_begin)
    call expect(2 * size(list) == size(numbers) .and. 2 * begin == real_begin, __LINE__)
    call expect(all(numbers(1::2) == real(list)) .and. all(numbers(2::2) == aimag(list)), __LINE__)
    list = (7, 8)
    call buffer%tensor_range(1, part)
    call expect(all(part == (7, 8)), __LINE__)
    call buffer%destroy()
  end subroutine

  !! Complex memory of the caller.
  subroutine check_from_local()
    type(ostraka_buffer_t) :: buffer
    complex(real64), target, allocatable :: memory(:)
    complex(real32), target, allocatable :: narrow(:)
    complex(real64), pointer :: list(:)
    integer(int64) :: segment

    call layout%segment_size(segment)
    allocate(memory(segment / 2), source=(9d0, 9d0))
    allocate(narrow(segment / 2), source=(0.0, 0.0))
    call buffer%from_local(mesh, [ostraka_shard()], layout, OSTRAKA_F64, memory, clear_padding=.true.)
    call buffer%copy_from(1, z)
    call buffer%copy_from(2, v)
    call expect_shards(buffer, (1d0, 0d0), __LINE__)
    call buffer%local(list)
    call expect(associated(list, memory), __LINE__)
    call buffer%destroy()
    call buffer%from_local(mesh, [ostraka_shard()], layout, OSTRAKA_F32, narrow)
    call buffer%destroy()
    call buffer%from_local(mesh, [ostraka_shard()], layout, OSTRAKA_F64, narrow, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'the array or pointer is complex(real32)')
    call buffer%from_local(mesh, [ostraka_shard()], layout, OSTRAKA_F64, memory(2:), ierr=ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__)
  end subroutine
end program
