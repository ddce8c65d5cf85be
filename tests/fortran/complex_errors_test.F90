! SPDX-License-Identifier: Apache-2.0
!! Complex numbers where they do not fit: cut pairs, pairs at odd places, tensors without pairs, other kinds and ranks.
program complex_errors_test
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use checks
  use ostraka
  implicit none

  type(ostraka_mesh_t) :: mesh
  complex(real64), target :: z(3, 5), v(7)
  integer(int32) :: ierr
  integer :: i, j

  z = reshape([((cmplx(10 * i + j, -i, real64), i = 1, 3), j = 1, 5)], shape(z))
  v = [(cmplx(i, 100 + i, real64), i = 1, 7)]
  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_cut_pairs()
  call check_errors()
  call mesh%destroy()
  call finish()

contains

  !! The last tensor of a layout that cuts anywhere, (2, length): a cut through a pair is refused by name on the ranks
  !! that have it.
  subroutine expect_cuts(policy, shapes)
    integer(int32), intent(in) :: policy
    type(ostraka_shape_t), intent(in) :: shapes(:)
    type(ostraka_layout_t) :: elements
    type(ostraka_buffer_t) :: buffer
    complex(real64), pointer :: list(:)
    real(real64), pointer :: numbers(:)
    integer(int64) :: offset, real_offset
    integer(int32) :: index

    index = size(shapes)
    call elements%create(policy, shapes, num_ranks)
    call buffer%create(mesh, [ostraka_shard()], elements, OSTRAKA_F64)
    call buffer%copy_from(index, [(cmplx(2 * i - 2, 2 * i - 1, real64), i = 1, int(shapes(index)%extents(2)))])
    call buffer%tensor_range(index, numbers, real_offset)  ! always works
    call expect(all(numbers == [(real_offset + i - 1, i = 1, size(numbers))]), __LINE__)
    call buffer%tensor_range(index, list, offset, ierr)
    if (size(numbers) == 0 .or. (mod(real_offset, 2_int64) == 0 .and. mod(size(numbers), 2) == 0)) then
      call expect_status(ierr, OSTRAKA_OK, __LINE__)
      call expect(2 * size(list) == size(numbers) .and. all(real(list) == numbers(1::2)), __LINE__)
      if (size(list) > 0) call expect(2 * offset == real_offset, __LINE__)
    else
      call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'buffer%tensor_range: tensor ')
      call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, ' cut a pair; the atom OSTRAKA_ATOM_LAST_DIMS of 1')
      call expect(.not. associated(list), __LINE__)
      call buffer%local(list, ierr=ierr)
      call expect(ierr /= OSTRAKA_OK .and. .not. associated(list), __LINE__)
      if (index == 1) call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, &
        'buffer%local: the local range: the real numbers [')
    end if
    call buffer%destroy()
    call elements%destroy()
  end subroutine

  !! Pairs that are whole but stand at odd places: the second tensor begins at element 3 of the layout.
  subroutine expect_odd_places(on, placement, segments)
    type(ostraka_mesh_t), intent(in) :: on
    type(ostraka_placement_t), intent(in) :: placement
    integer(int32), intent(in) :: segments
    type(ostraka_layout_t) :: odd
    type(ostraka_buffer_t) :: buffer
    complex(real64), pointer :: list(:)

    call odd%create(OSTRAKA_PLANNED, [ostraka_shape([2, 1]), ostraka_shape([2, 5])], segments, &
      tensor_alignment=3_int64, segment_multiple=2_int64)
    call buffer%create(on, [placement], odd, OSTRAKA_F64)
    call buffer%local(list, ierr=ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, &
      'tensor 2 begins inside a pair of the local range; tensor_alignment=2')
    call expect(.not. associated(list), __LINE__)
    if (placement%kind == OSTRAKA_KIND_REPLICATE) then
      call buffer%tensor_range(2, list)
      call expect(size(list) == 5, __LINE__)
    end if
    call buffer%destroy()
    call odd%destroy()
  end subroutine

  subroutine check_cut_pairs()
    type(ostraka_mesh_t) :: alone
    type(ostraka_buffer_t) :: buffer
    complex(real64), pointer :: scalar

    call expect_cuts(OSTRAKA_PLANNED, [ostraka_shape([2, 5])])
    call expect_cuts(OSTRAKA_PLANNED, [ostraka_shape([2, 7])])
    call expect_cuts(OSTRAKA_PLANNED, [ostraka_shape([2, 16])])
    call expect_cuts(OSTRAKA_RAGGED, [ostraka_shape([1]), ostraka_shape([2, 7])])  ! on 4 ranks [3, 7) cuts two pairs
    ! a single number of shape (2) is cut between two ranks; OSTRAKA_ATOM_TENSOR keeps it whole
    call buffer%empty(mesh, [ostraka_shard()], [ostraka_shape([2])], OSTRAKA_F64)
    call buffer%tensor_view(1, scalar, ierr=ierr)
    if (num_ranks == 1 .or. my_rank > 1) then
      call expect_status(ierr, OSTRAKA_OK, __LINE__)
      call expect(associated(scalar) .eqv. num_ranks == 1, __LINE__)
    else
      call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'OSTRAKA_ATOM_TENSOR a single one')
      call expect(.not. associated(scalar), __LINE__)
    end if
    call buffer%destroy()
    call alone%create(MPI_COMM_SELF%mpi_val)
    call expect_odd_places(alone, ostraka_replicate(), 1_int32)
    call expect_odd_places(mesh, ostraka_shard(), int(num_ranks, int32))
    call alone%destroy()
  end subroutine

  !! Tensors without pairs, other kinds, ranks, shapes and sections; then the right calls still work.
  subroutine check_errors()
    type(ostraka_buffer_t) :: buffer, plain, nothing
    complex(real64), pointer :: list(:), matrix(:,:), cube(:,:,:), scalar
    complex(real32), pointer :: narrow(:), narrow_matrix(:,:)

    call buffer%distribute(mesh, [ostraka_replicate()], [ostraka_tensor(z), ostraka_tensor(v)], OSTRAKA_F64)
    call plain%empty(mesh, [ostraka_replicate()], [ostraka_shape([3, 2]), ostraka_shape([integer ::])], OSTRAKA_F64)

    call plain%tensor_range(1, list, ierr=ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'tensor 1 has rank 2, shape (3, 2), complex numbers')
    call plain%tensor_range(2, list, ierr=ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'need a first extent of 2')
    call plain%tensor_view(1, list, ierr=ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'need a first extent of 2')
    call plain%local(list, ierr=ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'tensor 1 has rank 2, shape (3, 2)')
    call plain%copy_from(1, [(1d0, 0d0), (2d0, 0d0), (3d0, 0d0)], ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'the complex array as pairs rank 2, shape (2, 3)')
    call expect(.not. associated(list), __LINE__)

    call buffer%tensor_range(1, narrow, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, &
      'tensor 1 is real(real64), the array or pointer is complex(real32)')
    call buffer%tensor_view(1, narrow_matrix, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'complex(real32)')
    call buffer%local(narrow, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'the buffer is real(real64)')
    call buffer%copy_from(1, cmplx(z, kind=real32), ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'complex(real32)')
    call expect(.not. associated(narrow) .and. .not. associated(narrow_matrix), __LINE__)

    call buffer%tensor_view(1, list, ierr=ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, &
      'buffer%tensor_view: tensor 1 has rank 3, shape (2, 3, 5), a complex pointer needs rank 2; found rank 1')
    call buffer%tensor_view(1, cube, ierr=ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'found rank 3')
    call buffer%tensor_view(2, scalar, ierr=ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'found rank 0')
    call expect(.not. associated(list) .and. .not. associated(cube) .and. .not. associated(scalar), __LINE__)
    call buffer%copy_from(1, z(:, :4), ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'as pairs rank 3, shape (2, 3, 4)')
    call buffer%copy_from(1, reshape(z, [14]), ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'as pairs rank 2, shape (2, 14)')
    call buffer%copy_from(1, z(::2, :), ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'not contiguous')
    call buffer%tensor_range(3, list, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'found 2')
    call nothing%tensor_range(1, list, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call nothing%local(list, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call nothing%tensor_view(1, matrix, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call nothing%distribute(mesh, [ostraka_replicate()], [ostraka_tensor(z)], OSTRAKA_F32, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'the array or pointer is complex(real64)')

    call buffer%tensor_view(1, matrix)
    call expect(all(matrix == z), __LINE__)
    call buffer%tensor_view(2, list)
    call expect(all(list == v), __LINE__)
    call plain%destroy()
    call buffer%destroy()
  end subroutine
end program
