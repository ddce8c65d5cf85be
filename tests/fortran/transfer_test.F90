! SPDX-License-Identifier: Apache-2.0
!! All reductions, redistributions that mix transitions, copies between layouts and meshes, names, and memory by kind.
program transfer_test
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_null_char
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  use checks
  use ostraka
  implicit none

  interface
    integer(c_int) function setenv(name, value, overwrite) bind(c)
      import
      character(kind=c_char), intent(in) :: name(*), value(*)
      integer(c_int), value :: overwrite
    end function
  end interface

  type(ostraka_mesh_t) :: mesh, plane  ! all ranks in a line; on two axes
  integer(int32) :: outer, inner, ierr
  real(real64), target :: t(2, 3, 5)  ! values encode the indices
  real(real64) :: all_of_t(30)
  real(real64), target :: v(4)
  integer :: i, j, k

  t = reshape([(((100 * i + 10 * j + k, i = 1, 2), j = 1, 3), k = 1, 5)], shape(t))
  all_of_t = reshape(t, [30])
  v = [1, 2, 1, 3]
  call start()
  inner = merge(2, 1, mod(num_ranks, 2) == 0)
  outer = num_ranks / inner
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call plane%create(MPI_COMM_WORLD%mpi_val, [outer, inner])
  call check_reductions()
  call check_mixtures()
  call check_into()
  call check_into_refuses()
  call check_ways_that_are_none()
  call check_names()
  call check_memory()
  call plane%destroy()
  call mesh%destroy()
  call finish()

contains

  !! The reduction over `ranks` ranks of values v, 2 v, ...
  pure function reduced(op, ranks, values) result(expected)
    integer(int32), intent(in) :: op
    integer, intent(in) :: ranks
    real(real64), intent(in) :: values(:)
    real(real64) :: expected(size(values)), all_of_them(size(values), ranks)
    integer :: rank

    do rank = 1, ranks
      all_of_them(:, rank) = rank * values
    end do
    select case (op)
    case (OSTRAKA_SUM); expected = sum(all_of_them, dim=2)
    case (OSTRAKA_MEAN); expected = sum(all_of_them, dim=2) / ranks
    case (OSTRAKA_MAX); expected = maxval(all_of_them, dim=2)
    case (OSTRAKA_MIN); expected = minval(all_of_them, dim=2)
    case (OSTRAKA_PROD); expected = product(all_of_them, dim=2)
    case default; expected = -1
    end select
  end function

  subroutine check_reductions()
    integer(int32), parameter :: ops(*) = [OSTRAKA_SUM, OSTRAKA_MEAN, OSTRAKA_MAX, OSTRAKA_MIN, OSTRAKA_PROD]
    type(ostraka_buffer_t) :: buffer, result
    real(real64), pointer :: list(:)
    integer(int32), pointer :: numbers(:)
    integer(int64) :: offset

    do i = 1, size(ops)
      call buffer%empty(mesh, [ostraka_partial(ops(i))], [ostraka_shape([4])], OSTRAKA_F64)
      call buffer%copy_from(1, (my_rank + 1) * v)
      call buffer%allreduce(1, result)
      call result%tensor_view(1, list)
      call expect(all(abs(list - reduced(ops(i), num_ranks, v)) < 1d-12 * list), __LINE__)
      call result%destroy()
      call buffer%reduce_scatter(1, result)
      call result%tensor_range(1, list, offset)
      call expect(all(abs(list - reduced(ops(i), num_ranks, v(offset + 1:offset + size(list)))) < 1d-12 * list), &
        __LINE__)
      call result%destroy()
      call buffer%destroy()
      if (ops(i) == OSTRAKA_MEAN) cycle
      call buffer%empty(mesh, [ostraka_partial(ops(i))], [ostraka_shape([4])], OSTRAKA_I32)
      call buffer%copy_from(1, (my_rank + 1) * int(v, int32))
      call buffer%redistribute([ostraka_replicate()], result)
      call result%tensor_range(1, numbers)
      call expect(all(numbers == nint(reduced(ops(i), num_ranks, v))), __LINE__)
      call result%destroy()
      call buffer%destroy()
    end do
    call buffer%empty(mesh, [ostraka_partial(OSTRAKA_MEAN)], [ostraka_shape([4])], OSTRAKA_I64, ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'Partial(mean) of i64')
  end subroutine

  !! One redistribution on two axes: what becomes of factor * v, in the layout of the result.
  subroutine mix(from, to, given, expected, line)
    type(ostraka_placement_t), intent(in) :: from(2), to(2)
    real(real64), intent(in) :: given, expected(:)
    integer, intent(in) :: line
    type(ostraka_buffer_t) :: buffer, result
    real(real64), pointer :: list(:)
    integer(int64) :: offset

    call buffer%empty(plane, from, [ostraka_shape([4])], OSTRAKA_F64)
    call buffer%copy_from(1, given * v)
    call buffer%redistribute(to, result)
    call result%tensor_range(1, list, offset)
    call expect(size(list) == 4 .or. to(2)%kind == OSTRAKA_KIND_SHARD, line)
    call expect(all(abs(list - expected(offset + 1:offset + size(list))) < 1d-12 * list), line)
    call result%destroy()
    call buffer%destroy()
  end subroutine

  subroutine check_mixtures()
    type(ostraka_placement_t) :: whole, part, sums, means, largest
    real(real64) :: place(2)

    whole = ostraka_replicate()
    part = ostraka_shard()
    sums = ostraka_partial()
    means = ostraka_partial(OSTRAKA_MEAN)
    largest = ostraka_partial(OSTRAKA_MAX)
    place = [my_rank / inner, mod(my_rank, inner)] + 1
    call mix([part, part], [whole, part], 1d0, v, __LINE__)
    call mix([whole, whole], [part, part], 1d0, v, __LINE__)
    call mix([sums, part], [whole, whole], place(1), reduced(OSTRAKA_SUM, outer, v), __LINE__)
    call mix([sums, whole], [whole, part], place(1), reduced(OSTRAKA_SUM, outer, v), __LINE__)
    call mix([sums, means], [part, part], product(place), &
      reduced(OSTRAKA_SUM, outer, reduced(OSTRAKA_MEAN, inner, v)), __LINE__)
    call mix([largest, largest], [whole, part], product(place), &
      reduced(OSTRAKA_MAX, outer, reduced(OSTRAKA_MAX, inner, v)), __LINE__)
    call mix([whole, part], [largest, whole], 1d0, v, __LINE__)
    call mix([sums, means], [sums, whole], product(place), place(1) * reduced(OSTRAKA_MEAN, inner, v), __LINE__)
  end subroutine

  !! Ways that do not exist are named by axis; the buffer stays usable.
  subroutine check_ways_that_are_none()
    type(ostraka_buffer_t) :: buffer, result
    real(real64), pointer :: list(:)

    call buffer%empty(plane, [ostraka_partial(), ostraka_partial(OSTRAKA_MAX)], [ostraka_shape([4])], OSTRAKA_F64)
    call buffer%copy_from(1, v)
    call buffer%redistribute([ostraka_replicate(), ostraka_replicate()], result, ierr=ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'reduce by sum and max, whose order matters')
    call buffer%redistribute([ostraka_partial(OSTRAKA_PROD), ostraka_partial(OSTRAKA_MAX)], result, ierr=ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'axis 0 would go from [Partial(sum)] to [Partial(prod)]')
    call buffer%redistribute([ostraka_partial(), ostraka_partial(5)], result, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'max, min or prod), found Partial(unknown 5)')
    call buffer%allreduce(2, result)
    call result%tensor_view(1, list)
    call expect(all(list == v), __LINE__)
    call result%destroy()
    call buffer%destroy()
  end subroutine

  !! Both tensors arrive whole; padding keeps its marks.
  subroutine copy_into(from, to)
    type(ostraka_buffer_t), intent(in) :: from, to
    real(real64), pointer :: list(:), part(:)
    integer(int64) :: offset
    integer :: elements

    call to%local(list)
    list = -1
    call from%redistribute_into(to, ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call to%tensor_range(1, part, offset)
    call expect(all(part == [(all_of_t(int(offset) + i), i = 1, size(part))]), __LINE__)
    elements = size(part)
    call to%tensor_range(2, part, offset)
    call expect(all(part == v(offset + 1:offset + size(part))), __LINE__)
    call expect(count(list == -1) == size(list) - elements - size(part), __LINE__)
  end subroutine

  subroutine fill(buffer, on, placements, layout)
    type(ostraka_buffer_t), intent(inout) :: buffer
    type(ostraka_mesh_t), intent(in) :: on
    type(ostraka_placement_t), intent(in) :: placements(:)
    type(ostraka_layout_t), intent(in) :: layout

    call buffer%distribute(on, placements, [ostraka_tensor(t), ostraka_tensor(v)], OSTRAKA_F64, layout)
  end subroutine

  subroutine check_into()
    type(ostraka_layout_t) :: rows, padded, ragged
    type(ostraka_buffer_t) :: sides(5)
    type(ostraka_shape_t) :: shapes(2)

    shapes = [ostraka_shape([2, 3, 5]), ostraka_shape([4])]
    call rows%create(OSTRAKA_REFERENCE, shapes, num_ranks)
    call padded%create(OSTRAKA_PLANNED, shapes, num_ranks, segment_multiple=16_int64)
    call ragged%create(OSTRAKA_RAGGED, shapes, num_ranks)
    call fill(sides(1), mesh, [ostraka_shard()], rows)
    call fill(sides(2), mesh, [ostraka_replicate()], padded)
    call fill(sides(3), plane, [ostraka_replicate(), ostraka_shard()], ragged)
    call fill(sides(4), plane, [ostraka_shard(), ostraka_shard()], padded)
    call fill(sides(5), mesh, [ostraka_shard()], ragged)
    do j = 1, size(sides)
      do k = 1, size(sides)
        if (j /= k) call copy_into(sides(j), sides(k))
      end do
    end do
    do j = 1, size(sides)
      call sides(j)%destroy()
    end do
    call rows%destroy()
    call padded%destroy()
    call ragged%destroy()
  end subroutine

  !! After each refusal the right call still works.
  subroutine check_into_refuses()
    type(ostraka_layout_t) :: rows
    type(ostraka_buffer_t) :: buffer, other, good, view, nothing
    type(ostraka_shape_t) :: shapes(2)

    shapes = [ostraka_shape([2, 3, 5]), ostraka_shape([4])]
    call rows%create(OSTRAKA_REFERENCE, shapes, num_ranks)
    call fill(buffer, mesh, [ostraka_shard()], rows)
    call fill(good, mesh, [ostraka_replicate()], rows)
    call other%create(mesh, [ostraka_shard()], rows, OSTRAKA_F32)
    call refused(buffer, other, good, OSTRAKA_TYPE_MISMATCH, &
      'ostraka_buffer_redistribute_into: transfer: out holds f32, expected f64', __LINE__)
    call other%empty(mesh, [ostraka_shard()], [ostraka_shape([2, 3, 5]), ostraka_shape([5])], OSTRAKA_F64)
    call refused(buffer, other, good, OSTRAKA_SHAPE_MISMATCH, 'tensor 1: expected shape (4) as before, found (5)', &
      __LINE__)
    call other%empty(mesh, [ostraka_shard()], shapes(:1), OSTRAKA_F64)
    call refused(buffer, other, good, OSTRAKA_SHAPE_MISMATCH, 'expected 2 tensors as before, found 1', __LINE__)
    call other%create(mesh, [ostraka_partial()], rows, OSTRAKA_F64)
    call refused(buffer, other, good, OSTRAKA_NOT_SUPPORTED, 'axis 0 is [Partial(sum)]; reduce it first', __LINE__)
    call buffer%view([ostraka_shard()], view)
    call buffer%redistribute_into(view, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'share memory')
    call view%destroy()
    call buffer%redistribute_into(nothing, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'the buffer handle is null')
    call nothing%redistribute_into(buffer, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'the buffer handle is null')
    call other%create(mesh, [ostraka_replicate()], rows, OSTRAKA_F64)
    call other%release_storage()
    call refused(buffer, other, good, OSTRAKA_INVALID_STATE, 'the storage of [Replicate] is released', __LINE__)
    call good%destroy()
    call buffer%destroy()
    call rows%destroy()
  end subroutine

  !! `other` is refused and destroyed, `good` still takes the tensors.
  subroutine refused(buffer, other, good, status, fragment, line)
    type(ostraka_buffer_t), intent(in) :: buffer, good
    type(ostraka_buffer_t), intent(inout) :: other
    integer(int32), intent(in) :: status
    character(*), intent(in) :: fragment
    integer, intent(in) :: line

    call buffer%redistribute_into(other, ierr)
    call expect_status(ierr, status, line, fragment)
    call other%destroy()
    call copy_into(buffer, good)
  end subroutine

  !! Names show where ranks are compared; trailing blanks do not count.
  subroutine check_names()
    type(ostraka_mesh_t) :: checked_mesh
    type(ostraka_buffer_t) :: buffer, view, result, nothing
    character(8) :: name
    integer :: attempt

    call nothing%set_name('name', ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call expect(setenv('OSTRAKA_CHECK' // c_null_char, '1' // c_null_char, 1_c_int) == 0, __LINE__)
    do attempt = 1, 2
      name = 'weights'
      if (attempt == 2 .and. my_rank == num_ranks - 1) name = 'biases'
      call checked_mesh%create(MPI_COMM_WORLD%mpi_val)
      call buffer%empty(checked_mesh, [ostraka_shard()], [ostraka_shape([4])], OSTRAKA_F64)
      call buffer%set_name('first')
      call buffer%set_name(name)
      call buffer%view([ostraka_shard()], view)  ! inherits it
      call view%allgather(1, result, ierr=ierr)
      if (attempt == 1 .or. num_ranks == 1) then
        call expect_status(ierr, OSTRAKA_OK, __LINE__)
        call result%destroy()
      else
        call expect_status(ierr, OSTRAKA_RANKS_DISAGREE, __LINE__, "of 'weights', rank ")
        call expect_status(ierr, OSTRAKA_RANKS_DISAGREE, __LINE__, "of 'biases'; all ranks")
      end if
      call view%destroy()
      call buffer%destroy()
      call checked_mesh%destroy()
    end do
    call expect(setenv('OSTRAKA_CHECK' // c_null_char, '0' // c_null_char, 1_c_int) == 0, __LINE__)
  end subroutine

  subroutine expect_memory(on, kind, in_use, peak, line)
    type(ostraka_mesh_t), intent(in) :: on
    integer(int32), intent(in) :: kind
    integer(int64), intent(in) :: in_use, peak
    integer, intent(in) :: line
    integer(int64) :: now, most

    call on%memory(kind, now, most, ierr)
    call expect_status(ierr, OSTRAKA_OK, line)
    call expect(now == in_use .and. most == peak, line)
  end subroutine

  subroutine check_memory()
    type(ostraka_mesh_t) :: own, nothing
    type(ostraka_buffer_t) :: first, second
    integer(int64) :: now, most

    call own%create(MPI_COMM_WORLD%mpi_val)
    call first%empty(own, [ostraka_replicate()], [ostraka_shape([9])], OSTRAKA_F64)  ! 72 bytes: two blocks of 64
    call second%empty(own, [ostraka_replicate()], [ostraka_shape([65])], OSTRAKA_U8)
    call expect_memory(own, OSTRAKA_MEMORY_OTHER, 256_int64, 256_int64, __LINE__)
    call second%destroy()
    call expect_memory(own, OSTRAKA_MEMORY_OTHER, 128_int64, 256_int64, __LINE__)
    call expect_memory(own, OSTRAKA_MEMORY_PARAMETERS, 0_int64, 0_int64, __LINE__)
    call expect_memory(own, OSTRAKA_MEMORY_GRADIENTS, 0_int64, 0_int64, __LINE__)
    call expect_memory(own, OSTRAKA_MEMORY_OPTIMIZER_STATE, 0_int64, 0_int64, __LINE__)
    call expect_memory(own, OSTRAKA_MEMORY_TRANSIENT, 0_int64, 0_int64, __LINE__)
    call own%memory(5, now, most, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'from 0 (other) to 4 (transient), found 5')
    call nothing%memory(OSTRAKA_MEMORY_OTHER, now, most, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'the mesh handle is null')
    call first%destroy()
    call expect_memory(own, OSTRAKA_MEMORY_OTHER, 0_int64, 256_int64, __LINE__)
    call own%destroy()
  end subroutine
end program
