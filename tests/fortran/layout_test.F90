! SPDX-License-Identifier: Apache-2.0
!! Layouts, alone: without mpiexec, MPI_Init and ostraka_initialize. Shapes are those of spec 1.4.6, 1.5, 1.6 and 4 in
!! Fortran order.
program layout_test
  use, intrinsic :: iso_fortran_env, only: int64
  use checks
  use ostraka
  implicit none
  integer, parameter :: none(0) = 0

  call check_queries()
  call check_policies()
  call check_tensor_atomic()
  call check_planned_owners()
  call check_automatic()
  call check_row_chunks()
  call check_boxes_by_hand()
  call check_boxes_as_sections()
  call check_ranges_on_a_mesh()
  call check_owners()
  call check_hashes()
  call check_reports()
  call finish_alone()

contains

  subroutine check_queries()
    type(ostraka_layout_t) :: layout
    type(ostraka_shape_t) :: shapes(3)
    integer(int64), allocatable :: extents(:)
    integer(int64) :: offset, count, total, one
    integer(int32) :: number

    shapes = [ostraka_shape([2, 3, 5]), ostraka_shape(none), ostraka_shape([7_int64])]
    call layout%create(OSTRAKA_PLANNED, shapes, segments=2, tensor_alignment=4_int64, segment_multiple=8_int64)
    call layout%num_tensors(number)
    call expect(number == 3, __LINE__)
    call layout%tensor_shape(1, extents)
    call expect(size(extents) == 3, __LINE__)
    call expect(all(extents == [2, 3, 5]), __LINE__)
    call layout%tensor_shape(2, extents)
    call expect(size(extents) == 0, __LINE__)
    call layout%payload(count)
    call expect(count == 38, __LINE__)
    call layout%size(total)
    call layout%segment_size(one)
    call expect(total == 2 * one .and. mod(one, 8_int64) == 0 .and. total >= 38, __LINE__)
    call layout%tensor_range(3, offset, count)
    call expect(count == 7 .and. mod(offset, 4_int64) == 0, __LINE__)
    call layout%destroy()
    call layout%destroy()  ! a null handle
  end subroutine

  !! Three tensors (or as many as there are offsets), and where tensors and segments begin; the last cut is the size.
  subroutine expect_layout(layout, policy, offsets, cuts, line)
    type(ostraka_layout_t), intent(in) :: layout
    integer(int32), intent(in) :: policy
    integer(int64), intent(in) :: offsets(:), cuts(:)
    integer, intent(in) :: line
    integer(int64) :: offset, count, largest, total
    integer(int32) :: number, i

    call layout%policy(number)
    call expect(number == policy, line, 'policy')
    call layout%num_tensors(number)
    call expect(number == size(offsets), line, 'number of tensors')
    do i = 1, size(offsets)
      call layout%tensor_range(i, offset, count)
      call expect(offset == offsets(i), line, 'offset')
    end do
    call layout%num_segments(number)
    call expect(number == size(cuts) - 1, line, 'number of segments')
    do i = 0, size(cuts) - 2  ! segments are ranks
      call layout%segment_range(i, offset, count)
      call expect(offset == cuts(i + 1) .and. offset + count == cuts(i + 2), line, 'segment')
    end do
    call layout%size(total)
    call expect(total == cuts(size(cuts)), line, 'size')
    call layout%segment_size(largest)
    call expect(largest == maxval(cuts(2:) - cuts(:size(cuts) - 1)), line, 'largest segment')
  end subroutine

  subroutine expect_policy(policy, shapes, offsets, cuts, line, atoms)
    integer(int32), intent(in) :: policy
    type(ostraka_shape_t), intent(in) :: shapes(:)
    integer, intent(in) :: offsets(:), cuts(:), line
    type(ostraka_atom_t), intent(in), optional :: atoms(:)
    type(ostraka_layout_t) :: layout

    call layout%create(policy, shapes, size(cuts) - 1, atoms)
    call expect_layout(layout, policy, int(offsets, int64), int(cuts, int64), line)
    if (present(atoms)) call layout%validate(atoms)
    call layout%destroy()
  end subroutine

  subroutine check_policies()
    type(ostraka_shape_t) :: a(3), b(3), c(3), d(2), e(2), f(2)
    type(ostraka_atom_t) :: row(1), pairs(1), whole
    type(ostraka_layout_t) :: layout
    integer(int64), parameter :: billion = 1000000000_int64
    integer(int64) :: offset, count

    row = ostraka_atom_t(OSTRAKA_ATOM_ROW)
    pairs = ostraka_atom_t(OSTRAKA_ATOM_BLOCK, 2)
    whole = ostraka_atom_t(OSTRAKA_ATOM_TENSOR)
    a = [ostraka_shape([3, 5]), ostraka_shape([3, 4]), ostraka_shape([7])]
    b = [ostraka_shape([4, 5]), ostraka_shape([6, 2]), ostraka_shape([3])]
    c = [ostraka_shape([3, 7]), ostraka_shape([5, 2]), ostraka_shape([7])]
    d = [ostraka_shape([16, 4]), ostraka_shape([4])]
    e = [ostraka_shape([6, 4]), ostraka_shape([4, 8])]
    f = [ostraka_shape([4, 3]), ostraka_shape([9])]
    call expect_policy(OSTRAKA_REFERENCE, a, [0, 15, 27], [0, 9, 18, 27, 36], __LINE__)
    call expect_policy(OSTRAKA_REFERENCE, b, [0, 24, 20], [0, 24, 48], __LINE__, row)
    call expect_policy(OSTRAKA_REFERENCE, e, [0, 24], [0, 48, 96], __LINE__, pairs)
    call expect_policy(OSTRAKA_REFERENCE, e, [0, 24], [0, 48, 96], __LINE__, [pairs, pairs])
    call expect_policy(OSTRAKA_REFERENCE, [ostraka_shape([64, 64])], [0], [0, 2048, 4096, 6144], __LINE__, &
      [ostraka_atom_t(OSTRAKA_ATOM_BLOCK, 32)])
    call expect_policy(OSTRAKA_RAGGED, a, [0, 15, 27], [0, 9, 18, 27, 34], __LINE__, row)
    call expect_policy(OSTRAKA_RAGGED, b, [0, 20, 32], [0, 16, 35], __LINE__, row)
    call expect_policy(OSTRAKA_RAGGED, c, [0, 21, 31], [0, 12, 21, 33, 38], __LINE__, row)
    call expect_policy(OSTRAKA_RAGGED, d, [0, 64], [0, 16, 32, 48, 68], __LINE__, row)
    call expect_policy(OSTRAKA_RAGGED, e, [0, 24], [0, 32, 56], __LINE__, pairs)
    call expect_policy(OSTRAKA_RAGGED, f, [0, 12], [0, 12, 21], __LINE__, [row, whole])
    ! the last dimension of C is the first one here: runs of 5 elements
    call expect_policy(OSTRAKA_RAGGED, [ostraka_shape([5, 4, 1])], [0], [0, 10, 20], __LINE__, &
      [ostraka_atom_t(OSTRAKA_ATOM_LAST_DIMS, 1)])
    call expect_policy(OSTRAKA_PLANNED, [ostraka_shape([3, 5]), ostraka_shape([7])], [0, 15], [0, 11, 22], __LINE__)

    ! 16 bytes of bf16 per tensor and segment; more than 32 bits
    call layout%create(OSTRAKA_FLAT, [ostraka_shape([128]), ostraka_shape([2560])], 3, tensor_alignment=8_int64, &
      segment_multiple=8_int64)
    call layout%segment_range(2, offset, count)
    call expect(offset == 1792 .and. count == 896, __LINE__)
    call layout%destroy()
    call layout%create(OSTRAKA_FLAT, [ostraka_shape([3 * billion])], 2)
    call layout%segment_range(1, offset, count)
    call expect(offset == 3 * billion / 2 .and. count == 3 * billion / 2, __LINE__)
    call layout%destroy()
  end subroutine

  subroutine expect_tensor_atomic(shapes, owners, offsets, cuts, line)
    type(ostraka_shape_t), intent(in) :: shapes(:)
    integer, intent(in) :: owners(:), offsets(:), cuts(:), line
    type(ostraka_layout_t) :: layout
    integer(int32) :: i, first, last

    call layout%create_tensor_atomic(shapes, owners, size(cuts) - 1)
    call expect_layout(layout, OSTRAKA_TENSOR_ATOMIC, int(offsets, int64), int(cuts, int64), line)
    do i = 1, size(owners)
      call layout%owners(i, first, last)
      call expect(first == owners(i) .and. last == owners(i), line, 'owner')
    end do
    call layout%validate([ostraka_atom_t(OSTRAKA_ATOM_TENSOR)])
    call layout%destroy()
  end subroutine

  subroutine check_tensor_atomic()
    type(ostraka_shape_t) :: four(4), three(3), pairs(3), nothing(0)

    four = [ostraka_shape([4, 4]), ostraka_shape([3]), ostraka_shape([6, 2]), ostraka_shape([3, 7])]
    three = [ostraka_shape([3, 5]), ostraka_shape([3, 4]), ostraka_shape([7])]
    pairs = [ostraka_shape([4, 4]), ostraka_shape([6, 2]), ostraka_shape([2, 1])]
    call expect_tensor_atomic(four, [1, 3, 0, 3], [12, 28, 0, 31], [0, 12, 28, 28, 52, 52], __LINE__)
    call expect_tensor_atomic(pairs, [0, 1, 1], [0, 16, 28], [0, 16, 30], __LINE__)
    call expect_tensor_atomic(three, [0, 1, 3], [0, 15, 27], [0, 15, 27, 27, 34], __LINE__)
    call expect_tensor_atomic(three, [0, 1, 1], [0, 15, 27], [0, 15, 34, 34, 34], __LINE__)
    call expect_tensor_atomic(nothing, none, none, [0, 0, 0], __LINE__)
  end subroutine

  !! 8 x 8 costs 2624 in 5 steps, seven 4 x 4 cost 2352 and eight 2688; 8 x 1 goes to the cheaper rank.
  subroutine check_planned_owners()
    type(ostraka_layout_t) :: layouts(10)
    integer(int32), allocatable :: owners(:)
    integer :: i, middles

    call layouts(1)%create(OSTRAKA_REFERENCE, [ostraka_shape([3, 6]), ostraka_shape([2, 4]), ostraka_shape([2, 2])], 3)
    call ostraka_plan_owners(layouts(:1), 5_int64, owners)
    call expect(size(owners) == 3, __LINE__)
    call expect(all(owners == [0, 1, 2]), __LINE__)
    call layouts(1)%destroy()
    do middles = 7, 8
      call layouts(1)%create(OSTRAKA_RAGGED, [ostraka_shape([8, 8])], 2)
      do i = 1, middles
        call layouts(i + 1)%create(OSTRAKA_RAGGED, [ostraka_shape([4, 4])], 2)
      end do
      call layouts(middles + 2)%create(OSTRAKA_RAGGED, [ostraka_shape([1, 8])], 2)
      call ostraka_plan_owners(layouts(:middles + 2), 5_int64, owners)
      call expect(size(owners) == middles + 2, __LINE__)
      call expect(all(owners == [0, (1, i = 1, middles), 8 - middles]), __LINE__)
      do i = 1, middles + 2
        call layouts(i)%destroy()
      end do
    end do
    call ostraka_plan_owners(layouts(:0), 5_int64, owners)
    call expect(size(owners) == 0, __LINE__)
  end subroutine

  !! 3 % padding of 100 elements is planned, 4 % is not.
  subroutine check_automatic()
    type(ostraka_layout_t) :: layout
    integer(int32) :: policy

    call layout%create(OSTRAKA_AUTOMATIC, [ostraka_shape([100])], 1, segment_multiple=103_int64)
    call layout%policy(policy)
    call expect(policy == OSTRAKA_PLANNED, __LINE__)
    call layout%destroy()
    call layout%create(OSTRAKA_AUTOMATIC, [ostraka_shape([100])], 1, segment_multiple=104_int64)
    call layout%policy(policy)
    call expect(policy == OSTRAKA_RAGGED, __LINE__)
    call layout%destroy()
  end subroutine

  !! `chunks`: first row from 0 as in spec 4, and number of rows, per tensor.
  subroutine expect_chunks(shapes, segments, rank, chunks, line)
    type(ostraka_shape_t), intent(in) :: shapes(:)
    integer, intent(in) :: segments, rank, chunks(2, size(shapes)), line
    type(ostraka_layout_t) :: layout
    integer(int64) :: offset, count, first_row, num_rows
    integer :: i

    call layout%create(OSTRAKA_REFERENCE, shapes, segments)
    call layout%segment_range(rank, offset, count)
    do i = 1, size(shapes)
      call layout%row_chunk(i, offset, count, first_row, num_rows)
      call expect(first_row == chunks(1, i) + 1 .and. num_rows == chunks(2, i), line)
    end do
    call layout%destroy()
  end subroutine

  subroutine check_row_chunks()
    type(ostraka_shape_t) :: a(2), b(3), c(3), d(3), e(3)

    a = [ostraka_shape([8, 16]), ostraka_shape([16])]
    b = [ostraka_shape([3, 5]), ostraka_shape([3, 4]), ostraka_shape([7])]
    c = [ostraka_shape([4, 4]), ostraka_shape([2, 2]), ostraka_shape([6, 2])]
    d = [ostraka_shape([4, 5]), ostraka_shape([6, 2]), ostraka_shape([3])]
    e = [ostraka_shape([3, 6]), ostraka_shape([2, 4]), ostraka_shape([2, 2])]
    call expect_chunks(a, 2, 0, reshape([0, 9, 0, 0], [2, 2]), __LINE__)
    call expect_chunks(a, 2, 1, reshape([9, 7, 0, 16], [2, 2]), __LINE__)
    call expect_chunks(b, 4, 0, reshape([0, 3, 0, 0, 0, 0], [2, 3]), __LINE__)
    call expect_chunks(b, 4, 1, reshape([3, 2, 0, 1, 0, 0], [2, 3]), __LINE__)
    call expect_chunks(b, 4, 2, reshape([5, 0, 1, 3, 0, 0], [2, 3]), __LINE__)
    call expect_chunks(b, 4, 3, reshape([5, 0, 4, 0, 0, 7], [2, 3]), __LINE__)
    call expect_chunks(c, 2, 0, reshape([0, 4, 0, 2, 0, 0], [2, 3]), __LINE__)
    call expect_chunks(c, 2, 1, reshape([4, 0, 2, 0, 0, 2], [2, 3]), __LINE__)
    call expect_chunks(d, 2, 1, reshape([5, 0, 0, 2, 3, 0], [2, 3]), __LINE__)
    call expect_chunks(e, 3, 1, reshape([4, 2, 0, 3, 0, 0], [2, 3]), __LINE__)
  end subroutine

  !! Elements 5 to 45 of w(4, 3, 4), which starts behind a vector of 3.
  subroutine check_boxes_by_hand()
    type(ostraka_layout_t) :: layout
    integer(int64), allocatable :: lower(:,:), upper(:,:)

    call layout%create(OSTRAKA_RAGGED, [ostraka_shape([3]), ostraka_shape([4, 3, 4])], 2)
    call layout%boxes(2, 8_int64, 41_int64, lower, upper)
    call expect(all(shape(lower) == [3, 5]) .and. all(shape(upper) == [3, 5]), __LINE__)
    call expect(all(lower == reshape([2, 2, 1, 1, 3, 1, 1, 1, 2, 1, 1, 4, 1, 3, 4], [3, 5])), __LINE__)
    call expect(all(upper == reshape([4, 2, 1, 4, 3, 1, 4, 3, 3, 4, 2, 4, 2, 3, 4], [3, 5])), __LINE__)
    call layout%boxes(2, 0_int64, 3_int64, lower, upper)  ! the vector only
    call expect(all(shape(lower) == [3, 0]) .and. all(shape(upper) == [3, 0]), __LINE__)
    call layout%boxes(1, 1_int64, 50_int64, lower, upper)
    call expect(all(shape(lower) == [1, 1]), __LINE__)
    call expect(lower(1, 1) == 2 .and. upper(1, 1) == 3, __LINE__)
    call layout%destroy()
    call layout%create(OSTRAKA_RAGGED, [ostraka_shape(none)], 1)
    call layout%boxes(1, 0_int64, 1_int64, lower, upper)  ! a scalar
    call expect(all(shape(lower) == [0, 1]) .and. all(shape(upper) == [0, 1]), __LINE__)
    call layout%destroy()
  end subroutine

  !! The sections w(lower:upper) of all ranks are all elements of w, each once and in the order of the flat buffer.
  subroutine check_boxes_as_sections()
    integer, parameter :: n1 = 4, n2 = 3, n3 = 5, everything = n1 * n2 * n3
    type(ostraka_layout_t) :: layout
    integer(int64), allocatable :: lower(:,:), upper(:,:)
    integer(int64) :: offset, count, start, length
    integer :: w(n1, n2, n3), found(everything), i, j, k, b, next, before, segments, rank

    do concurrent (i = 1:n1, j = 1:n2, k = 1:n3)
      w(i, j, k) = 100 * i + 10 * j + k
    end do
    do segments = 1, 13
      call layout%create(OSTRAKA_FLAT, [ostraka_shape([7]), ostraka_shape(shape(w))], segments)
      call layout%tensor_range(2, start, length)
      next = 0
      do rank = 0, segments - 1
        call layout%segment_range(rank, offset, count)
        call layout%boxes(2, offset, count, lower, upper)
        before = next
        do b = 1, size(lower, 2)
          associate (section => w(lower(1, b):upper(1, b), lower(2, b):upper(2, b), lower(3, b):upper(3, b)))
            call expect(size(section) > 0 .and. next + size(section) <= everything, __LINE__)
            found(next + 1:next + size(section)) = reshape(section, [size(section)])
            next = next + size(section)
          end associate
        end do
        call expect(next - before == max(min(offset + count, start + length) - max(offset, start), 0_int64), __LINE__)
      end do
      call expect(next == everything, __LINE__)
      call expect(all(found == reshape(w, [everything])), __LINE__)
      call layout%destroy()
    end do
  end subroutine

  !! The innermost axis is the most significant digit (spec 1.2).
  subroutine check_ranges_on_a_mesh()
    type(ostraka_layout_t) :: layout
    integer(int64) :: offset, count
    integer(int32) :: outer, inner

    call layout%create(OSTRAKA_REFERENCE, [ostraka_shape([3, 7]), ostraka_shape([5, 2]), ostraka_shape([7])], 4)
    do outer = 0, 1
      do inner = 0, 1
        call layout%local_range([ostraka_shard(), ostraka_shard()], [2, 2], [outer, inner], offset, count)
        call expect(offset == 30 * inner + 15 * outer .and. count == 15, __LINE__)
        call layout%local_range([ostraka_replicate(), ostraka_shard()], [2, 2], [outer, inner], offset, count)
        call expect(offset == 30 * inner .and. count == 30, __LINE__)
        call layout%local_range([ostraka_partial(OSTRAKA_SUM), ostraka_replicate()], [2, 2], [outer, inner], offset, &
          count)
        call expect(offset == 0 .and. count == 60, __LINE__)
      end do
    end do
    call layout%destroy()
  end subroutine

  subroutine check_owners()
    type(ostraka_layout_t) :: layout
    integer(int32) :: first, last, i

    call layout%create(OSTRAKA_REFERENCE, [ostraka_shape([3, 6]), ostraka_shape([2, 4]), ostraka_shape([2, 2])], 3)
    do i = 1, 3
      call layout%owners(i, first, last)
      call expect(first == i - 1 .and. last == min(i, 2), __LINE__)
    end do
    call layout%destroy()
    call layout%create(OSTRAKA_RAGGED, [ostraka_shape([5]), ostraka_shape([4, 0])], 2)
    call layout%owners(2, first, last)
    call expect(first == 0 .and. last == -1, __LINE__)
    call layout%destroy()
  end subroutine

  integer(int64) function hash_of(policy, shapes, segments)
    integer(int32), intent(in) :: policy, segments
    type(ostraka_shape_t), intent(in) :: shapes(:)
    type(ostraka_layout_t) :: layout

    call layout%create(policy, shapes, segments)
    call layout%hash(hash_of)
    call layout%destroy()
  end function

  subroutine check_hashes()
    type(ostraka_shape_t) :: shapes(1)
    integer(int64) :: hash

    shapes = ostraka_shape([3, 5])
    hash = hash_of(OSTRAKA_RAGGED, shapes, 3)
    call expect(hash_of(OSTRAKA_RAGGED, shapes, 3) == hash, __LINE__)
    call expect(hash_of(OSTRAKA_RAGGED, shapes, 2) /= hash, __LINE__)
    call expect(hash_of(OSTRAKA_PLANNED, shapes, 3) /= hash, __LINE__)
    call expect(hash_of(OSTRAKA_RAGGED, [ostraka_shape([5, 3])], 3) /= hash, __LINE__)
  end subroutine

  subroutine check_reports()
    character(*), parameter :: members(*) = [character(24) :: '{"policy":"ragged",', '"reason":"', '"payload":34,', &
      '"padding":0,', '"segments":4,', '"largest_segment":9,', '"mean_segment":8.5,', '"overhead":0.0588', &
      '"owners":[[0,1],[1,2],', '[3,3]]}']
    type(ostraka_layout_t) :: layout
    character(:), allocatable :: text
    integer :: i

    call layout%create(OSTRAKA_RAGGED, [ostraka_shape([3, 5]), ostraka_shape([3, 4]), ostraka_shape([7])], 4, &
      [ostraka_atom_t(OSTRAKA_ATOM_ROW)])
    call layout%report(text)
    call expect(index(text, 'ragged: 3 tensors, payload 34, padding 0 (0.0 %), 4 segments of at most 9') == 1, __LINE__)
    call layout%report_json(text)
    do i = 1, size(members)
      call expect(index(text, trim(members(i))) > 0, __LINE__, trim(members(i)) // ' is not in ' // text)
    end do
    call layout%destroy()
  end subroutine
end program
