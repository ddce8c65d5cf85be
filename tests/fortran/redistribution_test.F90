! SPDX-License-Identifier: Apache-2.0
!! Collective operations, views, casts and storage of buffers.
program redistribution_test
  use, intrinsic :: iso_fortran_env, only: int16, int64, real32, real64
  use checks
  use ostraka
  implicit none

  type(ostraka_mesh_t) :: mesh
  real(real64) :: t(2, 3, 5)  ! values encode the indices
  integer :: i, j, k

  t = reshape([(((100 * i + 10 * j + k, i = 1, 2), j = 1, 3), k = 1, 5)], shape(t))
  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_collectives()
  call check_view_and_cast()
  call check_storage()
  call check_plane()
  call mesh%destroy()
  call finish()

contains

  subroutine check_collectives()
    type(ostraka_buffer_t) :: part, whole, sums, other
    real(real64), pointer :: values(:,:,:), list(:)
    real(real64) :: total, mean
    type(ostraka_shape_t) :: shapes(1)
    integer :: first, count

    call share(5, first, count)
    shapes = [ostraka_shape([2, 3, 5])]
    total = num_ranks * (num_ranks + 1) / 2d0
    mean = total / num_ranks

    call part%empty(mesh, [ostraka_shard()], shapes, OSTRAKA_F64)
    call part%copy_from(1, t)
    call part%allgather(1, whole)
    call whole%tensor_view(1, values)
    call expect(all(values == t), __LINE__)
    values = 0
    call part%allgather(1, other, out=whole)  ! into memory that is there
    call expect(all(values == t), __LINE__)
    call other%destroy()
    values = 0
    call part%redistribute([ostraka_replicate()], other, out=whole)
    call expect(all(values == t), __LINE__)
    call other%destroy()
    call whole%redistribute([ostraka_shard()], other)
    call other%tensor_range(1, list)
    call expect(all(list == reshape(t(:, :, first + 1:first + count), [6 * count])), __LINE__)
    call other%destroy()
    call whole%destroy()

    call sums%empty(mesh, [ostraka_partial()], shapes, OSTRAKA_F64)
    call sums%copy_from(1, (my_rank + 1) * t)
    call sums%allreduce(1, whole)
    call whole%tensor_view(1, values)
    call expect(all(values == total * t), __LINE__)
    call whole%destroy()
    call sums%copy_from(1, (my_rank + 1) * t)
    call sums%reduce_scatter(1, other, out=part)
    call part%tensor_range(1, list)
    call expect(all(list == total * reshape(t(:, :, first + 1:first + count), [6 * count])), __LINE__)
    call other%destroy()
    call sums%destroy()

    call sums%empty(mesh, [ostraka_partial(OSTRAKA_MEAN)], shapes, OSTRAKA_F64)
    call sums%copy_from(1, (my_rank + 1) * t)
    call sums%redistribute([ostraka_shard()], other)
    call other%tensor_range(1, list)
    call expect(all(abs(list - mean * reshape(t(:, :, first + 1:first + count), [6 * count])) < 1d-9), __LINE__)
    call other%destroy()
    call sums%destroy()
    call part%destroy()
  end subroutine

  subroutine check_view_and_cast()
    type(ostraka_buffer_t) :: whole, part, narrow, result
    real(real64), pointer :: values(:,:,:), rows(:,:,:)
    real(real32), pointer :: singles(:,:,:)
    integer(int16), pointer :: halves(:)
    integer :: first, count

    call share(5, first, count)
    call whole%empty(mesh, [ostraka_replicate()], [ostraka_shape([2, 3, 5])], OSTRAKA_F64)
    call whole%copy_from(1, t)
    call whole%view([ostraka_shard()], part)  ! the same storage
    call part%tensor_view(1, rows)
    call whole%tensor_view(1, values)
    rows = 1
    call expect(all(values(:, :, first + 1:first + count) == 1), __LINE__)
    call expect(count == 5 .or. any(values == t), __LINE__)
    call part%destroy()

    call whole%copy_from(1, t)
    call whole%cast(OSTRAKA_F32, narrow)
    call narrow%tensor_view(1, singles)
    call expect(all(singles == real(t, real32)), __LINE__)
    singles = 0
    call whole%cast(OSTRAKA_F32, result, out=narrow)
    call expect(all(singles == real(t, real32)), __LINE__)
    call result%destroy()
    call narrow%destroy()
    call whole%cast(OSTRAKA_BF16, narrow)
    call narrow%local(halves)
    call expect(all(halves(:30) == ostraka_real32_to_bf16(real(reshape(t, [30]), real32))), __LINE__)
    call narrow%destroy()
    call whole%cast(OSTRAKA_F64, result)  ! the same type: the same storage
    call values_are_shared(whole, result)
    call result%destroy()
    call whole%destroy()
  end subroutine

  subroutine values_are_shared(a, b)
    type(ostraka_buffer_t), intent(in) :: a, b
    real(real64), pointer :: in_a(:), in_b(:)

    call a%local(in_a)
    call b%local(in_b)
    call expect(associated(in_a, in_b), __LINE__)
  end subroutine

  subroutine check_storage()
    type(ostraka_buffer_t) :: buffer, copy
    real(real64), pointer :: list(:)
    logical :: is_there
    integer(int32) :: ierr

    call buffer%empty(mesh, [ostraka_replicate()], [ostraka_shape([3])], OSTRAKA_F64)
    copy = buffer  ! another name for the same buffer
    call buffer%is_allocated(is_there)
    call expect(is_there, __LINE__)
    call buffer%release_storage()
    call copy%is_allocated(is_there)
    call expect(.not. is_there, __LINE__)
    call buffer%local(list, ierr=ierr)
    call expect(ierr /= OSTRAKA_OK .and. .not. associated(list), __LINE__)
    call buffer%reallocate_storage()
    call buffer%copy_from(1, [1d0, 2d0, 3d0])
    call copy%local(list)  ! and padding
    call expect(all(list(:3) == [1, 2, 3]), __LINE__)
    call buffer%destroy()
    call buffer%destroy(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call copy%local(list, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
  end subroutine

  !! Two axes: whole on the outer one, sharded on the inner one.
  subroutine check_plane()
    type(ostraka_mesh_t) :: plane
    type(ostraka_buffer_t) :: part, whole
    real(real64), pointer :: values(:,:,:)
    integer :: inner

    inner = merge(2, 1, mod(num_ranks, 2) == 0)
    call plane%create(MPI_COMM_WORLD%mpi_val, [num_ranks / inner, inner])
    call part%empty(plane, [ostraka_replicate(), ostraka_shard()], [ostraka_shape([2, 3, 5])], OSTRAKA_F64)
    call part%copy_from(1, t)
    call part%allgather(2, whole)
    call whole%tensor_view(1, values)
    call expect(all(values == t), __LINE__)
    call whole%destroy()
    call part%redistribute([ostraka_replicate(), ostraka_replicate()], whole)
    call whole%tensor_view(1, values)
    call expect(all(values == t), __LINE__)
    call whole%destroy()
    call part%destroy()
    call plane%destroy()
  end subroutine
end program
