! SPDX-License-Identifier: Apache-2.0
!! Internal: what a rank holds of every parameter, by name. Use the module `ostraka`.
module ostraka_chunks
  use, intrinsic :: iso_c_binding, only: c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use ostraka_arrays
  use ostraka_c_checkpoint
  use ostraka_ddp, only: ddp_handle, ostraka_ddp_t
  use ostraka_fsdp, only: context_handle, ostraka_fsdp_context_t
  use ostraka_support, only: conclude, from_c_string, reversed, to_c_index, to_c_string
  use ostraka_types
  implicit none
  private
  public :: ostraka_chunks_t, ostraka_row_box

  !! What this rank holds of every parameter 'module.parameter', frozen ones too, in Fortran order: for files of the
  !! program's own. Optimizer state has the chunks of its parameter, tied names have equal ones. Local arithmetic;
  !! unknown names are an error. Assignment copies the handle.
  type :: ostraka_chunks_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, private :: create_context, create_ddp
    !! Of a finalised context or ddp; they stay valid without it. Overwrites the handle.
    generic, public :: create => create_context, create_ddp
    procedure, public :: num_names
    procedure, public :: name => chunk_name
    procedure, public :: shape => chunk_shape
    procedure, public :: range => chunk_range
    procedure, public :: written
    procedure, public :: rows
    procedure, public :: boxes
    procedure, public :: destroy
  end type

contains

  subroutine create_context(self, context, ierr)
    class(ostraka_chunks_t), intent(out) :: self
    class(ostraka_fsdp_context_t), intent(in) :: context
    integer(int32), intent(out), optional :: ierr

    call conclude('chunks%create', c_chunks_create(context_handle(context), self%handle), ierr)
  end subroutine

  subroutine create_ddp(self, ddp, ierr)
    class(ostraka_chunks_t), intent(out) :: self
    class(ostraka_ddp_t), intent(in) :: ddp
    integer(int32), intent(out), optional :: ierr

    call conclude('chunks%create', c_chunks_create_ddp(ddp_handle(ddp), self%handle), ierr)
  end subroutine

  !! Number of names. Local.
  subroutine num_names(self, count, ierr)
    class(ostraka_chunks_t), intent(in) :: self
    integer(int32), intent(out) :: count
    integer(int32), intent(out), optional :: ierr

    count = 0
    call conclude('chunks%num_names', c_chunks_num_names(self%handle, count), ierr)
  end subroutine

  !! Name `index`, from 1, alphabetically.
  subroutine chunk_name(self, index, name, ierr)
    class(ostraka_chunks_t), intent(in) :: self
    integer(int32), intent(in) :: index
    character(:), allocatable, intent(out) :: name
    integer(int32), intent(out), optional :: ierr
    type(c_ptr) :: address
    integer(int32) :: status

    address = c_null_ptr
    status = c_chunks_name(self%handle, to_c_index(index), address)
    name = from_c_string(address)
    call conclude('chunks%name', status, ierr)
  end subroutine

  !! The extents of the whole tensor.
  subroutine chunk_shape(self, name, extents, ierr)
    class(ostraka_chunks_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), allocatable, intent(out) :: extents(:)
    integer(int32), intent(out), optional :: ierr
    integer(int64) :: c_extents(MAX_DIMS)
    integer(int32) :: ndim, status

    ndim = 0
    status = c_chunks_shape(self%handle, to_c_string(name), ndim, c_extents)
    extents = reversed(c_extents(:ndim))
    call conclude('chunks%shape', status, ierr)
  end subroutine

  !! The elements that this rank holds: the number of elements before them in the tensor, and their number. A rank
  !! without elements has none, behind those of lower positions.
  subroutine chunk_range(self, name, offset, count, ierr)
    class(ostraka_chunks_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), intent(out) :: offset, count
    integer(int32), intent(out), optional :: ierr

    offset = 0
    count = 0
    call conclude('chunks%range', c_chunks_range(self%handle, to_c_string(name), offset, count), ierr)
  end subroutine

  !! Those of them that this rank writes to a checkpoint: ranks that hold the same ones share them evenly.
  subroutine written(self, name, offset, count, ierr)
    class(ostraka_chunks_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), intent(out) :: offset, count
    integer(int32), intent(out), optional :: ierr

    offset = 0
    count = 0
    call conclude('chunks%written', c_chunks_written(self%handle, to_c_string(name), offset, count), ierr)
  end subroutine

  !! The slices of the last index that this rank holds, w(:, first_row:first_row + num_rows - 1); a scalar is one. An
  !! error naming the boxes where a slice is cut.
  subroutine rows(self, name, first_row, num_rows, ierr)
    class(ostraka_chunks_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), intent(out) :: first_row, num_rows
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: status

    first_row = 0
    num_rows = 0
    status = c_chunks_rows(self%handle, to_c_string(name), first_row, num_rows)
    first_row = first_row + 1
    call conclude('chunks%rows', status, ierr)
  end subroutine

  !! The elements that this rank holds as rectangular boxes: box b has the elements from lower(:, b) to upper(:, b),
  !! indices in Fortran order from 1.
  subroutine boxes(self, name, lower, upper, ierr)
    class(ostraka_chunks_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), allocatable, intent(out) :: lower(:,:), upper(:,:)
    integer(int32), intent(out), optional :: ierr
    integer(int64) :: extents(MAX_DIMS)
    integer(int64), allocatable :: offsets(:,:), sizes(:,:)
    integer(int32) :: ndim, found, capacity, b, status

    ndim = 0
    found = 0
    status = c_chunks_shape(self%handle, to_c_string(name), ndim, extents)
    capacity = 2 * max(ndim - 1, 0) + 1
    allocate(offsets(ndim, capacity), sizes(ndim, capacity))
    if (status == OSTRAKA_OK) &
      status = c_chunks_boxes(self%handle, to_c_string(name), capacity, offsets, sizes, found)
    allocate(lower(ndim, found), upper(ndim, found))
    do b = 1, found
      lower(:, b) = reversed(offsets(:, b)) + 1
      upper(:, b) = reversed(offsets(:, b) + sizes(:, b))
    end do
    call conclude('chunks%boxes', status, ierr)
  end subroutine

  !! Nulls the handle.
  subroutine destroy(self, ierr)
    class(ostraka_chunks_t), intent(inout) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('chunks%destroy', c_chunks_destroy(self%handle), ierr)
  end subroutine

  !! The box of the slices first_row ... first_row + num_rows - 1 of a tensor: its elements from `lower` to `upper`. An
  !! error when they leave it.
  subroutine ostraka_row_box(shape, first_row, num_rows, lower, upper, ierr)
    type(ostraka_shape_t), intent(in) :: shape
    integer(int64), intent(in) :: first_row, num_rows
    integer(int64), allocatable, intent(out) :: lower(:), upper(:)
    integer(int32), intent(out), optional :: ierr
    integer(int64), allocatable, target :: extents(:,:)
    type(c_shape_t), allocatable :: c_shapes(:)
    integer(int64) :: offsets(MAX_DIMS), sizes(MAX_DIMS)
    integer(int32) :: status

    offsets = 0
    sizes = 0
    call to_c_shapes([shape], extents, c_shapes)
    status = c_row_box(c_shapes(1), first_row - 1, num_rows, offsets, sizes)
    associate (n => merge(shape%ndim, 0_int32, status == OSTRAKA_OK))
      lower = reversed(offsets(:n)) + 1
      upper = reversed(offsets(:n) + sizes(:n))
    end associate
    call conclude('ostraka_row_box', status, ierr)
  end subroutine
end module
