! SPDX-License-Identifier: Apache-2.0
!! What layouts refuse, alone: without mpiexec, MPI_Init and ostraka_initialize.
program layout_errors_test
  use, intrinsic :: iso_fortran_env, only: int64
  use checks
  use ostraka
  implicit none
  type(ostraka_layout_t) :: layout, refused
  type(ostraka_shape_t) :: shapes(2)
  integer(int64) :: offset, count
  integer(int32) :: ierr

  shapes = [ostraka_shape([4, 5]), ostraka_shape([7])]
  call layout%create(OSTRAKA_RAGGED, shapes, 3)  ! 9 elements per segment cut slices of 4
  call check_policies()
  call check_atoms()
  call check_owners_to_build_with()
  call check_owners_to_plan()
  call check_indices()
  call check_mesh()
  call check_cut_slices()
  call check_handles()
  call finish_alone()

contains

  subroutine invalid(line, fragment)
    integer, intent(in) :: line
    character(*), intent(in) :: fragment

    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, line, fragment)
  end subroutine

  subroutine check_policies()
    call refused%create(6, shapes, 2, ierr=ierr)
    call invalid(__LINE__, 'policy 6')
    call refused%create(OSTRAKA_TENSOR_ATOMIC, shapes, 2, ierr=ierr)
    call invalid(__LINE__, 'tensor_atomic')
    call refused%create(OSTRAKA_RAGGED, shapes, 2, tensor_alignment=8_int64, ierr=ierr)
    call invalid(__LINE__, 'no alignment, found 8')
    call refused%create(OSTRAKA_REFERENCE, shapes, 2, segment_multiple=4_int64, ierr=ierr)
    call invalid(__LINE__, '4 for segments')
    call refused%create(OSTRAKA_FLAT, shapes, 2, tensor_alignment=0_int64, ierr=ierr)
    call invalid(__LINE__, 'tensor alignment >= 1')
    call refused%create(OSTRAKA_AUTOMATIC, shapes, 0, ierr=ierr)
    call invalid(__LINE__, 'segments >= 1, found 0')
    call refused%size(count, ierr)  ! none of them left a layout
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'null')
  end subroutine

  subroutine check_atoms()
    type(ostraka_atom_t) :: row, block

    row = ostraka_atom_t(OSTRAKA_ATOM_ROW)
    block = ostraka_atom_t(OSTRAKA_ATOM_BLOCK, 32)
    call refused%create(OSTRAKA_PLANNED, shapes, 2, [row, row, row], ierr=ierr)
    call invalid(__LINE__, 'one or 2, found 3')
    call refused%create(OSTRAKA_REFERENCE, shapes, 2, [row, row, row], ierr=ierr)
    call invalid(__LINE__, 'one or 2, found 3')
    call refused%create(OSTRAKA_REFERENCE, shapes, 2, [row, block], ierr=ierr)
    call invalid(__LINE__, 'one atom for all tensors')
    call refused%create(OSTRAKA_REFERENCE, [ostraka_shape([64, 48])], 2, [block], ierr=ierr)
    call invalid(__LINE__, 'tensor 0 of shape (48, 64): expected 48 rows to be a multiple of the block of 32')
    call refused%create(OSTRAKA_RAGGED, shapes, 2, [ostraka_atom_t(OSTRAKA_ATOM_BLOCK, 0)], ierr=ierr)
    call invalid(__LINE__, 'at least 1 row, found 0')
    call refused%create(OSTRAKA_RAGGED, shapes, 2, [ostraka_atom_t(5)], ierr=ierr)
    call invalid(__LINE__, 'found 5')
    call refused%create(OSTRAKA_FLAT, shapes, 2, [row], ierr=ierr)
    call invalid(__LINE__, 'takes no atoms')
  end subroutine

  subroutine check_owners_to_build_with()
    call refused%create_tensor_atomic(shapes, [0, 2], 2, ierr)
    call invalid(__LINE__, 'tensor 1 of shape (7): expected an owner from 0 to 1, found 2')
    call refused%create_tensor_atomic(shapes, [-1, 0], 2, ierr)
    call invalid(__LINE__, 'found -1')
    call refused%create_tensor_atomic(shapes, [0], 2, ierr)
    call invalid(__LINE__, '1 owners for 2 tensors')
    call refused%create_tensor_atomic(shapes, [0, 1, 0], 2, ierr)
    call invalid(__LINE__, '3 owners for 2 tensors')
    call refused%create_tensor_atomic(shapes, [0, 0], 0, ierr)
    call invalid(__LINE__, 'segments >= 1')
  end subroutine

  subroutine check_owners_to_plan()
    type(ostraka_layout_t) :: other, nothing
    integer(int32), allocatable :: owners(:)

    call other%create(OSTRAKA_RAGGED, shapes, 2)
    call ostraka_plan_owners([layout, other], 5_int64, owners, ierr)
    call invalid(__LINE__, 'found 3 and 2')
    call expect(allocated(owners), __LINE__)
    call ostraka_plan_owners([layout], -1_int64, owners, ierr)
    call invalid(__LINE__, 'steps >= 0, found -1')
    call ostraka_plan_owners([layout, nothing], 5_int64, owners, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'null')
    call other%destroy()
  end subroutine

  !! Tensors from 1, segments from 0.
  subroutine check_indices()
    integer(int64), allocatable :: lower(:,:), upper(:,:)
    integer(int32) :: first, last, i

    do i = 0, 3, 3
      call layout%owners(i, first, last, ierr)
      call invalid(__LINE__, 'tensor index')
      call expect(first == 0 .and. last == -1, __LINE__)
      call layout%row_chunk(i, 0_int64, 8_int64, offset, count, ierr)
      call invalid(__LINE__, 'tensor index')
      call expect(count == 0, __LINE__)
      call layout%boxes(i, 0_int64, 8_int64, lower, upper, ierr)
      call invalid(__LINE__, 'tensor index')
      call expect(size(lower) == 0 .and. size(upper) == 0, __LINE__)
    end do
    do i = -1, 3, 4
      call layout%segment_range(i, offset, count, ierr)
      call invalid(__LINE__, 'a segment in [0, 3)')
      call expect(offset == 0 .and. count == 0, __LINE__)
    end do
  end subroutine

  subroutine check_mesh()
    type(ostraka_placement_t) :: shard

    shard = ostraka_shard()
    call layout%local_range([shard], [3], [3], offset, count, ierr)
    call invalid(__LINE__, '[0, 3), found 3')
    call expect(offset == 0 .and. count == 0, __LINE__)
    call layout%local_range([shard], [2], [0], offset, count, ierr)
    call invalid(__LINE__, 'built for 3 segments')
    call layout%local_range([shard, ostraka_replicate()], [3, 1], [0, 0], offset, count, ierr)
    call invalid(__LINE__, 'must be a suffix')
    call layout%local_range([shard, shard], [3], [0, 0], offset, count, ierr)
    call invalid(__LINE__, '2 placements for 1 axis sizes and 2 coordinates')
    call expect(offset == 0 .and. count == 0, __LINE__)
    call layout%local_range([shard], [3], [0, 0], offset, count, ierr)
    call invalid(__LINE__, '1 placements for 1 axis sizes and 2 coordinates')
  end subroutine

  subroutine check_cut_slices()
    type(ostraka_atom_t) :: row

    row = ostraka_atom_t(OSTRAKA_ATOM_ROW)
    call layout%row_chunk(1, 9_int64, 9_int64, offset, count, ierr)
    call invalid(__LINE__, 'boxes')
    call expect(count == 0, __LINE__)
    call layout%validate([row], ierr)
    call invalid(__LINE__, 'tensor 0 of shape (5, 4) at offset 0')
    call invalid(__LINE__, 'atom of 4 elements')
    call invalid(__LINE__, 'segment 1 to begin at element 9')
    call layout%validate([ostraka_atom_t()], ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call layout%validate([row, row, row], ierr)
    call invalid(__LINE__, 'found 3')
  end subroutine

  subroutine refuses(line)
    integer, intent(in) :: line

    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, line, 'was destroyed')
  end subroutine

  !! Every procedure with a copy of a handle whose layout was destroyed.
  subroutine check_handles()
    type(ostraka_layout_t) :: gone
    integer(int64), allocatable :: extents(:), lower(:,:), upper(:,:)
    integer(int32), allocatable :: owners(:)
    integer(int32) :: first, last
    character(:), allocatable :: text

    gone = layout
    call layout%destroy()
    call gone%policy(first, ierr)
    call refuses(__LINE__)
    call gone%size(count, ierr)
    call refuses(__LINE__)
    call gone%payload(count, ierr)
    call refuses(__LINE__)
    call gone%segment_size(count, ierr)
    call refuses(__LINE__)
    call gone%num_segments(first, ierr)
    call refuses(__LINE__)
    call gone%num_tensors(first, ierr)
    call refuses(__LINE__)
    call gone%tensor_shape(1, extents, ierr)
    call refuses(__LINE__)
    call gone%tensor_range(1, offset, count, ierr)
    call refuses(__LINE__)
    call gone%segment_range(0, offset, count, ierr)
    call refuses(__LINE__)
    call gone%owners(1, first, last, ierr)
    call refuses(__LINE__)
    call gone%local_range([ostraka_shard()], [3], [0], offset, count, ierr)
    call refuses(__LINE__)
    call gone%row_chunk(1, 0_int64, 8_int64, offset, count, ierr)
    call refuses(__LINE__)
    call gone%boxes(1, 0_int64, 8_int64, lower, upper, ierr)
    call refuses(__LINE__)
    call gone%validate([ostraka_atom_t()], ierr)
    call refuses(__LINE__)
    call gone%hash(count, ierr)
    call refuses(__LINE__)
    call gone%report(text, ierr)
    call refuses(__LINE__)
    call gone%report_json(text, ierr)
    call refuses(__LINE__)
    call expect(text == '', __LINE__)
    call ostraka_plan_owners([gone], 5_int64, owners, ierr)
    call refuses(__LINE__)
    call expect(size(owners) == 0, __LINE__)
    call gone%destroy(ierr)
    call refuses(__LINE__)
  end subroutine
end program
