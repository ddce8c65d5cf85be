! SPDX-License-Identifier: Apache-2.0
!! Internal: where tensors stand in one flat buffer. Use the module `ostraka`.
module ostraka_layout
  use, intrinsic :: iso_c_binding, only: c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use ostraka_arrays, only: ostraka_shape_t, to_c_shapes
  use ostraka_c_layout
  use ostraka_support, only: conclude, decimal, from_c_string, reversed, to_c_index
  use ostraka_types, only: c_shape_t, MAX_DIMS, ostraka_atom_t, OSTRAKA_INVALID_ARGUMENT, OSTRAKA_OK, &
    ostraka_placement_t
  implicit none
  private
  public :: ostraka_layout_t, ostraka_plan_owners
  public :: adopt_layout, layout_handle

  !! Where tensors stand in one flat buffer and how it is cut into segments, one per rank. Local, needs neither MPI nor
  !! ostraka_initialize; all numbers are elements. Tensors count from 1; segments are ranks and count from 0, as do
  !! offsets. Assignment copies the handle, not the layout.
  type :: ostraka_layout_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, public :: create
    procedure, public :: create_tensor_atomic
    procedure, public :: destroy
    procedure, public :: policy => layout_policy
    procedure, public :: size => layout_size
    procedure, public :: payload
    procedure, public :: segment_size
    procedure, public :: num_segments
    procedure, public :: num_tensors
    procedure, public :: tensor_shape
    procedure, public :: tensor_range
    procedure, public :: segment_range
    procedure, public :: owners => layout_owners
    procedure, public :: local_range
    procedure, public :: row_chunk
    procedure, public :: boxes
    procedure, public :: validate
    procedure, public :: hash
    procedure, public :: report
    procedure, public :: report_json
  end type

contains

  !! Builds a layout by a policy (any but OSTRAKA_TENSOR_ATOMIC). `segments` is the product of all mesh axes. `atoms`,
  !! what no cut may split, are one for all tensors or one per tensor: ostraka_atom_t(OSTRAKA_ATOM_ROW) is a slice of the
  !! last index; default: elements, for OSTRAKA_REFERENCE rows. Tensors start at multiples of `tensor_alignment`, segments
  !! are multiples of `segment_multiple` (default 1). Overwrites the handle.
  subroutine create(self, policy, shapes, segments, atoms, tensor_alignment, segment_multiple, ierr)
    class(ostraka_layout_t), intent(out) :: self
    integer(int32), intent(in) :: policy, segments
    type(ostraka_shape_t), intent(in) :: shapes(:)
    type(ostraka_atom_t), intent(in), optional :: atoms(:)
    integer(int64), intent(in), optional :: tensor_alignment, segment_multiple
    integer(int32), intent(out), optional :: ierr
    integer(int64), allocatable, target :: extents(:,:)
    type(c_shape_t), allocatable :: c_shapes(:)
    type(ostraka_atom_t), allocatable :: c_atoms(:)
    integer(int64) :: alignment, multiple
    integer(int32) :: status

    alignment = 1
    multiple = 1
    if (present(tensor_alignment)) alignment = tensor_alignment
    if (present(segment_multiple)) multiple = segment_multiple
    if (present(atoms)) then
      allocate(c_atoms, source=atoms)
    else
      allocate(c_atoms(0))
    end if
    call to_c_shapes(shapes, extents, c_shapes)
    status = c_layout_build(policy, size(shapes, kind=int32), c_shapes, size(c_atoms, kind=int32), c_atoms, segments, &
                            alignment, multiple, self%handle)
    call conclude('layout%create', status, ierr)
  end subroutine

  !! Builds a layout in which rank owners(i) (from 0) holds tensor i whole. Overwrites the handle.
  subroutine create_tensor_atomic(self, shapes, owners, segments, ierr)
    class(ostraka_layout_t), intent(out) :: self
    type(ostraka_shape_t), intent(in) :: shapes(:)
    integer(int32), intent(in) :: owners(:), segments
    integer(int32), intent(out), optional :: ierr
    integer(int64), allocatable, target :: extents(:,:)
    type(c_shape_t), allocatable :: c_shapes(:)
    integer(int32) :: status

    if (size(owners) /= size(shapes)) then
      call conclude('layout%create_tensor_atomic', OSTRAKA_INVALID_ARGUMENT, ierr, &
        counted(size(owners), 'owners') // ' for ' // counted(size(shapes), 'tensors'))
      return
    end if
    call to_c_shapes(shapes, extents, c_shapes)
    status = c_layout_tensor_atomic(size(shapes, kind=int32), c_shapes, owners, segments, self%handle)
    call conclude('layout%create_tensor_atomic', status, ierr)
  end subroutine

  !! Chooses owners (ranks from 0) of the tensors of all `layouts`, one layout after the other, that balance the cost of
  !! an optimizer which works on whole matrices in `steps` iterations.
  subroutine ostraka_plan_owners(layouts, steps, owners, ierr)
    type(ostraka_layout_t), intent(in) :: layouts(:)
    integer(int64), intent(in) :: steps
    integer(int32), allocatable, intent(out) :: owners(:)
    integer(int32), intent(out), optional :: ierr
    type(c_ptr) :: handles(size(layouts))
    integer(int32) :: i, count, total, status

    total = 0
    status = OSTRAKA_OK
    do i = 1, size(layouts)
      handles(i) = layouts(i)%handle
      count = 0
      if (status == OSTRAKA_OK) status = c_layout_num_tensors(handles(i), count)
      total = total + count
    end do
    allocate(owners(total), source=0_int32)
    if (status == OSTRAKA_OK) status = c_layout_plan_owners(size(layouts, kind=int32), handles, steps, owners)
    call conclude('ostraka_plan_owners', status, ierr)
  end subroutine

  !! Destroys the layout and nulls the handle.
  subroutine destroy(self, ierr)
    class(ostraka_layout_t), intent(inout) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('layout%destroy', c_layout_destroy(self%handle), ierr)
  end subroutine

  !! The policy that was chosen: for OSTRAKA_AUTOMATIC, OSTRAKA_PLANNED or OSTRAKA_RAGGED.
  subroutine layout_policy(self, policy, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int32), intent(out) :: policy
    integer(int32), intent(out), optional :: ierr

    policy = -1
    call conclude('layout%policy', c_layout_policy(self%handle, policy), ierr)
  end subroutine

  !! Elements of the flat buffer, padding included.
  subroutine layout_size(self, size, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int64), intent(out) :: size
    integer(int32), intent(out), optional :: ierr

    size = 0
    call conclude('layout%size', c_layout_size(self%handle, size), ierr)
  end subroutine

  !! Elements of all tensors.
  subroutine payload(self, count, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int64), intent(out) :: count
    integer(int32), intent(out), optional :: ierr

    count = 0
    call conclude('layout%payload', c_layout_payload(self%handle, count), ierr)
  end subroutine

  !! Elements of the largest segment.
  subroutine segment_size(self, size, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int64), intent(out) :: size
    integer(int32), intent(out), optional :: ierr

    size = 0
    call conclude('layout%segment_size', c_layout_segment_size(self%handle, size), ierr)
  end subroutine

  !! Number of segments.
  subroutine num_segments(self, count, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int32), intent(out) :: count
    integer(int32), intent(out), optional :: ierr

    count = 0
    call conclude('layout%num_segments', c_layout_num_segments(self%handle, count), ierr)
  end subroutine

  !! Number of tensors.
  subroutine num_tensors(self, count, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int32), intent(out) :: count
    integer(int32), intent(out), optional :: ierr

    count = 0
    call conclude('layout%num_tensors', c_layout_num_tensors(self%handle, count), ierr)
  end subroutine

  !! The extents of tensor `index` (from 1) in Fortran order; none for a scalar.
  subroutine tensor_shape(self, index, extents, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int32), intent(in) :: index
    integer(int64), allocatable, intent(out) :: extents(:)
    integer(int32), intent(out), optional :: ierr
    integer(int64) :: c_extents(MAX_DIMS)
    integer(int32) :: ndim, status

    ndim = 0
    status = c_layout_tensor_shape(self%handle, to_c_index(index), ndim, c_extents)
    allocate(extents, source=reversed(c_extents(:ndim)))
    call conclude('layout%tensor_shape', status, ierr)
  end subroutine

  !! Where tensor `index` (from 1) stands: elements before it in the buffer, and its number of elements.
  subroutine tensor_range(self, index, offset, count, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int32), intent(in) :: index
    integer(int64), intent(out) :: offset, count
    integer(int32), intent(out), optional :: ierr
    integer(int64) :: finish
    integer(int32) :: status

    offset = 0
    finish = 0
    status = c_layout_tensor_range(self%handle, to_c_index(index), offset, finish)
    count = finish - offset
    call conclude('layout%tensor_range', status, ierr)
  end subroutine

  !! Where segment `segment` (a rank, from 0) stands: elements before it in the buffer, and its number of elements.
  subroutine segment_range(self, segment, offset, count, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int32), intent(in) :: segment
    integer(int64), intent(out) :: offset, count
    integer(int32), intent(out), optional :: ierr
    integer(int64) :: finish
    integer(int32) :: status

    offset = 0
    finish = 0
    status = c_layout_segment_range(self%handle, segment, offset, finish)
    count = finish - offset
    call conclude('layout%segment_range', status, ierr)
  end subroutine

  !! First and last rank (from 0) that hold elements of tensor `index` (from 1); 0 and -1 for an empty tensor.
  subroutine layout_owners(self, index, first, last, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int32), intent(in) :: index
    integer(int32), intent(out) :: first, last
    integer(int32), intent(out), optional :: ierr

    first = 0
    last = -1
    call conclude('layout%owners', c_layout_owners(self%handle, to_c_index(index), first, last), ierr)
  end subroutine

  !! What the rank at `coordinates` (from 0) of a mesh of these axis sizes holds: elements before it, and their number.
  subroutine local_range(self, placements, sizes, coordinates, offset, count, ierr)
    class(ostraka_layout_t), intent(in) :: self
    type(ostraka_placement_t), intent(in) :: placements(:)
    integer(int32), intent(in) :: sizes(:), coordinates(:)
    integer(int64), intent(out) :: offset, count
    integer(int32), intent(out), optional :: ierr
    integer(int64) :: finish
    integer(int32) :: status

    offset = 0
    count = 0
    finish = 0
    if (size(sizes) /= size(placements) .or. size(coordinates) /= size(placements)) then
      call conclude('layout%local_range', OSTRAKA_INVALID_ARGUMENT, ierr, counted(size(placements), 'placements') // &
        ' for ' // counted(size(sizes), 'axis sizes') // ' and ' // counted(size(coordinates), 'coordinates'))
      return
    end if
    status = c_layout_local_range(self%handle, size(placements, kind=int32), placements, sizes, coordinates, offset, &
                                  finish)
    count = finish - offset
    call conclude('layout%local_range', status, ierr)
  end subroutine

  !! The slices of the last index of tensor `index` (from 1) inside `count` elements of the buffer from `offset` on: the
  !! first one (from 1) and their number. An error naming boxes where a slice is cut.
  subroutine row_chunk(self, index, offset, count, first_row, num_rows, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int32), intent(in) :: index
    integer(int64), intent(in) :: offset, count
    integer(int64), intent(out) :: first_row, num_rows
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: status

    first_row = 0
    num_rows = 0
    status = c_layout_row_chunk(self%handle, to_c_index(index), offset, offset + count, first_row, num_rows)
    first_row = first_row + 1
    call conclude('layout%row_chunk', status, ierr)
  end subroutine

  !! The elements of tensor `index` (from 1) inside `count` elements of the buffer from `offset` on, as array sections:
  !! box b is w(lower(1, b):upper(1, b), lower(2, b):upper(2, b), ...).
  subroutine boxes(self, index, offset, count, lower, upper, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int32), intent(in) :: index
    integer(int64), intent(in) :: offset, count
    integer(int64), allocatable, intent(out) :: lower(:,:), upper(:,:)
    integer(int32), intent(out), optional :: ierr
    integer(int64) :: extents(MAX_DIMS)
    integer(int64), allocatable :: offsets(:,:), sizes(:,:)
    integer(int32) :: ndim, found, capacity, b, status

    ndim = 0
    found = 0
    status = c_layout_tensor_shape(self%handle, to_c_index(index), ndim, extents)
    capacity = 2 * max(ndim - 1, 0) + 1
    allocate(offsets(ndim, capacity), sizes(ndim, capacity))
    if (status == OSTRAKA_OK) then
      status = c_layout_boxes(self%handle, to_c_index(index), offset, offset + count, capacity, offsets, sizes, found)
    end if
    allocate(lower(ndim, found), upper(ndim, found))
    do b = 1, found
      lower(:, b) = reversed(offsets(:, b)) + 1
      upper(:, b) = reversed(offsets(:, b) + sizes(:, b))
    end do
    call conclude('layout%boxes', status, ierr)
  end subroutine

  !! An error naming tensor, atom, offset and segment when a cut splits an atom.
  subroutine validate(self, atoms, ierr)
    class(ostraka_layout_t), intent(in) :: self
    type(ostraka_atom_t), intent(in) :: atoms(:)
    integer(int32), intent(out), optional :: ierr

    call conclude('layout%validate', c_layout_validate(self%handle, size(atoms, kind=int32), atoms), ierr)
  end subroutine

  !! Equal for equal layouts; compare it between ranks.
  subroutine hash(self, value, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int64), intent(out) :: value
    integer(int32), intent(out), optional :: ierr

    value = 0
    call conclude('layout%hash', c_layout_hash(self%handle, value), ierr)
  end subroutine

  !! One line of text: policy and why it was chosen, payload, padding, segments.
  subroutine report(self, text, ierr)
    class(ostraka_layout_t), intent(in) :: self
    character(:), allocatable, intent(out) :: text
    integer(int32), intent(out), optional :: ierr
    type(c_ptr) :: address
    integer(int32) :: status

    address = c_null_ptr
    status = c_layout_report(self%handle, address)
    text = from_c_string(address)
    call conclude('layout%report', status, ierr)
  end subroutine

  !! The same and the owners as one JSON object.
  subroutine report_json(self, text, ierr)
    class(ostraka_layout_t), intent(in) :: self
    character(:), allocatable, intent(out) :: text
    integer(int32), intent(out), optional :: ierr
    type(c_ptr) :: address
    integer(int32) :: status

    address = c_null_ptr
    status = c_layout_report_json(self%handle, address)
    text = from_c_string(address)
    call conclude('layout%report_json', status, ierr)
  end subroutine

  !! '3 owners'
  pure function counted(number, things) result(text)
    integer, intent(in) :: number
    character(*), intent(in) :: things
    character(:), allocatable :: text

    text = decimal(int(number, int64)) // ' ' // things
  end function

  !! Takes a handle that C made, for the other modules of this library.
  subroutine adopt_layout(layout, handle)
    class(ostraka_layout_t), intent(out) :: layout
    type(c_ptr), intent(in) :: handle

    layout%handle = handle
  end subroutine

  !! The C handle, for the other modules of this library.
  pure type(c_ptr) function layout_handle(layout)
    class(ostraka_layout_t), intent(in) :: layout

    layout_handle = layout%handle
  end function
end module
