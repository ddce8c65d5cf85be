! SPDX-License-Identifier: Apache-2.0
!! Internal: where tensors stand in one flat buffer. Use the module `ostraka`.
module ostraka_layout
  use, intrinsic :: iso_c_binding, only: c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use ostraka_arrays, only: ostraka_shape_t, to_c_shapes
  use ostraka_c
  use ostraka_support, only: conclude, from_c_string, reversed, to_c_index
  use ostraka_types, only: c_shape_t, MAX_DIMS, OSTRAKA_OK
  implicit none
  private
  public :: ostraka_layout_t
  public :: layout_handle

  !! Where tensors stand in one flat buffer and how it is cut into equal segments. Local, needs no MPI; all numbers are
  !! elements. Assignment copies the handle, not the layout.
  type :: ostraka_layout_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, public :: create_reference
    procedure, public :: create_planned
    procedure, public :: destroy
    procedure, public :: size => layout_size
    procedure, public :: payload
    procedure, public :: segment_size
    procedure, public :: num_tensors
    procedure, public :: tensor_shape
    procedure, public :: tensor_range
    procedure, public :: report
  end type

contains

  !! Columns (slices of the last index) stay whole; padded by the rule of the reference system. `segments` is the
  !! product of all mesh axes. Overwrites the handle.
  subroutine create_reference(self, shapes, segments, ierr)
    class(ostraka_layout_t), intent(out) :: self
    type(ostraka_shape_t), intent(in) :: shapes(:)
    integer(int32), intent(in) :: segments
    integer(int32), intent(out), optional :: ierr
    integer(int64), allocatable, target :: extents(:,:)
    type(c_shape_t), allocatable :: c_shapes(:)
    integer(int32) :: status

    call to_c_shapes(shapes, extents, c_shapes)
    status = c_layout_reference(size(shapes, kind=int32), c_shapes, segments, self%handle)
    call conclude('layout%create_reference', status, ierr)
  end subroutine

  !! Elements may be cut anywhere; least padding. Overwrites the handle.
  !! Tensors start at multiples of `tensor_alignment`, segments are multiples of `segment_multiple`; default 1.
  subroutine create_planned(self, shapes, segments, tensor_alignment, segment_multiple, ierr)
    class(ostraka_layout_t), intent(out) :: self
    type(ostraka_shape_t), intent(in) :: shapes(:)
    integer(int32), intent(in) :: segments
    integer(int64), intent(in), optional :: tensor_alignment, segment_multiple
    integer(int32), intent(out), optional :: ierr
    integer(int64), allocatable, target :: extents(:,:)
    type(c_shape_t), allocatable :: c_shapes(:)
    integer(int64) :: alignment, multiple
    integer(int32) :: status

    alignment = 1
    multiple = 1
    if (present(tensor_alignment)) alignment = tensor_alignment
    if (present(segment_multiple)) multiple = segment_multiple
    call to_c_shapes(shapes, extents, c_shapes)
    status = c_layout_planned(size(shapes, kind=int32), c_shapes, segments, alignment, multiple, self%handle)
    call conclude('layout%create_planned', status, ierr)
  end subroutine

  !! Destroys the layout and nulls the handle.
  subroutine destroy(self, ierr)
    class(ostraka_layout_t), intent(inout) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('layout%destroy', c_layout_destroy(self%handle), ierr)
  end subroutine

  !! Elements of the flat buffer, padding included.
  subroutine layout_size(self, size, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int64), intent(out) :: size
    integer(int32), intent(out), optional :: ierr

    call conclude('layout%size', c_layout_size(self%handle, size), ierr)
  end subroutine

  !! Elements of all tensors.
  subroutine payload(self, count, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int64), intent(out) :: count
    integer(int32), intent(out), optional :: ierr

    call conclude('layout%payload', c_layout_payload(self%handle, count), ierr)
  end subroutine

  !! Elements of one segment.
  subroutine segment_size(self, size, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int64), intent(out) :: size
    integer(int32), intent(out), optional :: ierr

    call conclude('layout%segment_size', c_layout_segment_size(self%handle, size), ierr)
  end subroutine

  !! Number of tensors.
  subroutine num_tensors(self, count, ierr)
    class(ostraka_layout_t), intent(in) :: self
    integer(int32), intent(out) :: count
    integer(int32), intent(out), optional :: ierr

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

  !! One line of text: payload, padding, segment, policy.
  subroutine report(self, text, ierr)
    class(ostraka_layout_t), intent(in) :: self
    character(:), allocatable, intent(out) :: text
    integer(int32), intent(out), optional :: ierr
    type(c_ptr) :: address
    integer(int32) :: status

    address = c_null_ptr
    status = c_layout_report(self%handle, address)
    if (status == OSTRAKA_OK) then
      text = from_c_string(address)
    else
      text = ''
    end if
    call conclude('layout%report', status, ierr)
  end subroutine

  !! The C handle, for the other modules of this library.
  pure type(c_ptr) function layout_handle(layout)
    class(ostraka_layout_t), intent(in) :: layout

    layout_handle = layout%handle
  end function
end module
