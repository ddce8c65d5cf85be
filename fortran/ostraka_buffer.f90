! SPDX-License-Identifier: Apache-2.0
!! Internal: the distributed buffer. Use the module `ostraka`.
module ostraka_buffer
  use, intrinsic :: iso_c_binding, only: c_intptr_t, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int16, int32, int64, int8, real32, real64
  use ostraka_arrays
  use ostraka_c
  use ostraka_layout, only: adopt_layout, layout_handle, ostraka_layout_t
  use ostraka_mesh, only: check_placements, check_placements_of, mesh_handle, ostraka_mesh_t
  use ostraka_pointers, only: point_to
  use ostraka_support, only: conclude, decimal, shape_text, to_c_axis, to_c_index, to_c_string
  use ostraka_types
  implicit none
  private
  public :: ostraka_buffer_t
  public :: buffer_handle

  !! A group of tensors in one local storage, with one placement per mesh axis. Tensors and axes count from 1.
  !! Results are new handles to destroy; they may share storage with their source, which lives as long as one handle
  !! refers to it. Assignment copies the handle, not the buffer.
  type :: ostraka_buffer_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, public :: create
    procedure, public :: create_symmetric
    procedure, public :: empty
    procedure, public :: distribute
    procedure, private :: from_local_r64, from_local_r32, from_local_i64, from_local_i32, from_local_i16, from_local_i8
    procedure, private :: from_local_c64, from_local_c32
    procedure, private :: from_local_ptr
    !! Wraps a contiguous array with the attribute target, which has the exact size of the local range and outlives
    !! every handle on it; no copy. Padding that is not zero is refused, or cleared with clear_padding=.true.
    !! `(mesh, placements, layout, dtype, address, count)`: memory at a type(c_ptr), on the mesh's device.
    generic, public :: from_local => from_local_r64, from_local_r32, from_local_i64, from_local_i32, from_local_i16, &
      from_local_i8, from_local_c64, from_local_c32, from_local_ptr
    procedure, private :: copy_from_r64, copy_from_r32, copy_from_i64, copy_from_i32, copy_from_i16, copy_from_i8
    procedure, private :: copy_from_c64, copy_from_c32
    procedure, private :: copy_from_ptr
    !! Copies this rank's part of the whole tensor `index`: a contiguous array of its shape, or a list of its elements.
    !! A complex array is for a tensor of pairs, whose first extent is 2.
    !! `(index, address, count)`: from `count` elements of the buffer's type at a type(c_ptr).
    generic, public :: copy_from => copy_from_r64, copy_from_r32, copy_from_i64, copy_from_i32, copy_from_i16, &
      copy_from_i8, copy_from_c64, copy_from_c32, copy_from_ptr
    procedure, public :: view
    procedure, public :: cast
    procedure, public :: allgather
    procedure, public :: reduce_scatter
    procedure, public :: allreduce
    procedure, public :: redistribute
    procedure, public :: redistribute_into
    procedure, public :: set_name
    procedure, private :: local_r64, local_r32, local_i64, local_i32, local_i16, local_i8, local_c64, local_c32
    procedure, private :: local_ptr
    !! The local range, and the number of elements before it in the layout. A complex pointer is for a buffer of tensors
    !! of pairs; then both are numbers of complex elements.
    !! `(address, count)`: as type(c_ptr), of any type; that of the GPU on a mesh of GPUs.
    generic, public :: local => local_r64, local_r32, local_i64, local_i32, local_i16, local_i8, local_c64, local_c32, &
      local_ptr
    procedure, private :: range_r64, range_r32, range_i64, range_i32, range_i16, range_i8, range_c64, range_c32
    procedure, private :: range_ptr
    !! This rank's elements of tensor `index`, and the number of elements before them in the tensor. Always works, but
    !! for a complex pointer: that is for a tensor of pairs, none of which is cut.
    !! `(index, address, count)`: as type(c_ptr), of any type; that of the GPU on a mesh of GPUs.
    generic, public :: tensor_range => range_r64, range_r32, range_i64, range_i32, range_i16, range_i8, range_c64, &
      range_c32, range_ptr
    procedure, private :: view_r64_0, view_r64_1, view_r64_2, view_r64_3, view_r64_4
    procedure, private :: view_r32_0, view_r32_1, view_r32_2, view_r32_3, view_r32_4
    procedure, private :: view_c64_0, view_c64_1, view_c64_2, view_c64_3, view_c64_4
    procedure, private :: view_c32_0, view_c32_1, view_c32_2, view_c32_3, view_c32_4
    procedure, private :: view_ptr
    !! This rank's part of tensor `index` in its own shape, cut along the last index; `first_row` is the index in the
    !! whole tensor (from 1) of the part's first. An error where the cut goes through such a slice. A scalar of another
    !! rank gives a null pointer. A complex pointer is for a tensor of pairs and has one dimension less.
    !! `(index, address, num_rows)`: as type(c_ptr), of any type and number of dimensions.
    generic, public :: tensor_view => view_r64_0, view_r64_1, view_r64_2, view_r64_3, view_r64_4, view_r32_0, &
      view_r32_1, view_r32_2, view_r32_3, view_r32_4, view_c64_0, view_c64_1, view_c64_2, view_c64_3, view_c64_4, &
      view_c32_0, view_c32_1, view_c32_2, view_c32_3, view_c32_4, view_ptr
    procedure, public :: layout => buffer_layout
    procedure, public :: num_tensors
    procedure, public :: tensor_shape
    procedure, public :: dtype => buffer_dtype
    procedure, public :: release_storage
    procedure, public :: reallocate_storage
    procedure, public :: is_allocated
    procedure, public :: is_symmetric_memory
    procedure, public :: rendezvous
    procedure, public :: destroy
  end type

contains

  include 'ostraka_buffer_redistribution.inc'
  include 'ostraka_buffer_arrays.inc'
  include 'ostraka_buffer_pointers.inc'
  include 'ostraka_buffer_complex.inc'

  !! Allocates the local range, zero-filled, for a layout, whose number of segments is a multiple of the shards.
  !! Overwrites the handle.
  subroutine create(self, mesh, placements, layout, dtype, ierr)
    class(ostraka_buffer_t), intent(out) :: self
    class(ostraka_mesh_t), intent(in) :: mesh
    type(ostraka_placement_t), intent(in) :: placements(:)
    class(ostraka_layout_t), intent(in) :: layout
    integer(int32), intent(in) :: dtype
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: status
    character(:), allocatable :: text

    call check_placements_of(mesh, placements, status, text)
    if (status == OSTRAKA_OK) &
      status = c_buffer_create(mesh_handle(mesh), placements, layout_handle(layout), dtype, self%handle)
    call conclude('buffer%create', status, ierr, text)
  end subroutine

  !! The same in memory that %rendezvous registers, where there is such memory; else as %create. Created and destroyed in
  !! the same order by all ranks.
  subroutine create_symmetric(self, mesh, placements, layout, dtype, ierr)
    class(ostraka_buffer_t), intent(out) :: self
    class(ostraka_mesh_t), intent(in) :: mesh
    type(ostraka_placement_t), intent(in) :: placements(:)
    class(ostraka_layout_t), intent(in) :: layout
    integer(int32), intent(in) :: dtype
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: status
    character(:), allocatable :: text

    call check_placements_of(mesh, placements, status, text)
    if (status == OSTRAKA_OK) &
      status = c_buffer_create_symmetric(mesh_handle(mesh), placements, layout_handle(layout), dtype, self%handle)
    call conclude('buffer%create_symmetric', status, ierr, text)
  end subroutine

  !! The same with a reference layout of the given shapes.
  subroutine empty(self, mesh, placements, shapes, dtype, ierr)
    class(ostraka_buffer_t), intent(out) :: self
    class(ostraka_mesh_t), intent(in) :: mesh
    type(ostraka_placement_t), intent(in) :: placements(:)
    type(ostraka_shape_t), intent(in) :: shapes(:)
    integer(int32), intent(in) :: dtype
    integer(int32), intent(out), optional :: ierr
    integer(int64), allocatable, target :: extents(:,:)
    type(c_shape_t), allocatable :: c_shapes(:)
    integer(int32) :: status
    character(:), allocatable :: text

    call check_placements_of(mesh, placements, status, text)
    call to_c_shapes(shapes, extents, c_shapes)
    if (status == OSTRAKA_OK) &
      status = c_buffer_empty(mesh_handle(mesh), placements, size(shapes, kind=int32), c_shapes, dtype, self%handle)
    call conclude('buffer%empty', status, ierr, text)
  end subroutine

  !! Every rank passes all tensors whole, [ostraka_tensor(a), ostraka_tensor(b), ...]; each keeps its own part. No
  !! communication. Default: a reference layout. Overwrites the handle.
  subroutine distribute(self, mesh, placements, tensors, dtype, layout, ierr)
    class(ostraka_buffer_t), intent(out) :: self
    class(ostraka_mesh_t), intent(in) :: mesh
    type(ostraka_placement_t), intent(in) :: placements(:)
    type(ostraka_tensor_t), intent(in) :: tensors(:)
    integer(int32), intent(in) :: dtype
    class(ostraka_layout_t), intent(in), optional :: layout
    integer(int32), intent(out), optional :: ierr
    integer(int64), allocatable, target :: extents(:,:)
    type(c_shape_t), allocatable :: c_shapes(:)
    type(c_ptr) :: c_layout
    integer(int32) :: status
    integer :: i
    character(:), allocatable :: text, what

    call check_placements_of(mesh, placements, status, text)
    do i = 1, size(tensors)
      what = tensor_text(int(i, int32))
      call check_contiguous(what, tensors(i), status, text)
      call check_type(what, dtype, tensors(i)%dtype, status, text, tensors(i)%pairs)
    end do
    call to_c_shapes(tensors%shape, extents, c_shapes)
    c_layout = c_null_ptr
    if (present(layout)) c_layout = layout_handle(layout)
    if (status == OSTRAKA_OK) &
      status = c_buffer_distribute(mesh_handle(mesh), placements, c_layout, size(tensors, kind=int32), c_shapes, &
      dtype, tensors%address, self%handle)
    call conclude('buffer%distribute', status, ierr, text)
  end subroutine

  !! The buffer's layout, to be destroyed by the caller; it outlives the buffer. Overwrites the handle. Local.
  subroutine buffer_layout(self, layout, ierr)
    class(ostraka_buffer_t), intent(in) :: self
    type(ostraka_layout_t), intent(out) :: layout
    integer(int32), intent(out), optional :: ierr
    type(c_ptr) :: handle
    integer(int32) :: status

    handle = c_null_ptr
    status = c_buffer_layout(self%handle, handle)
    call adopt_layout(layout, handle)
    call conclude('buffer%layout', status, ierr)
  end subroutine

  !! Number of tensors.
  subroutine num_tensors(self, count, ierr)
    class(ostraka_buffer_t), intent(in) :: self
    integer(int32), intent(out) :: count
    integer(int32), intent(out), optional :: ierr

    call conclude('buffer%num_tensors', c_buffer_num_tensors(self%handle, count), ierr)
  end subroutine

  !! The extents of the whole tensor `index` in Fortran order; none for a scalar.
  subroutine tensor_shape(self, index, extents, ierr)
    class(ostraka_buffer_t), intent(in) :: self
    integer(int32), intent(in) :: index
    integer(int64), allocatable, intent(out) :: extents(:)
    integer(int32), intent(out), optional :: ierr
    type(ostraka_shape_t) :: shape
    integer(int32) :: status

    status = OSTRAKA_OK
    call find_shape(self, index, shape, status)
    allocate(extents, source=shape%extents(:shape%ndim))
    call conclude('buffer%tensor_shape', status, ierr)
  end subroutine

  !! The element type.
  subroutine buffer_dtype(self, dtype, ierr)
    class(ostraka_buffer_t), intent(in) :: self
    integer(int32), intent(out) :: dtype
    integer(int32), intent(out), optional :: ierr

    call conclude('buffer%dtype', c_buffer_dtype(self%handle, dtype), ierr)
  end subroutine

  !! Gives the storage back. All handles on it stay valid, pointers do not.
  subroutine release_storage(self, ierr)
    class(ostraka_buffer_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('buffer%release_storage', c_buffer_release_storage(self%handle), ierr)
  end subroutine

  !! Takes the storage again: contents undefined, padding zero.
  subroutine reallocate_storage(self, ierr)
    class(ostraka_buffer_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('buffer%reallocate_storage', c_buffer_reallocate_storage(self%handle), ierr)
  end subroutine

  !! Whether the storage is there.
  subroutine is_allocated(self, flag, ierr)
    class(ostraka_buffer_t), intent(in) :: self
    logical, intent(out) :: flag
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: number, status

    number = 0
    status = c_buffer_is_allocated(self%handle, number)
    flag = number /= 0
    call conclude('buffer%is_allocated', status, ierr)
  end subroutine

  !! Whether the storage is memory that %rendezvous registers: on GPUs with NCCL from 2.30.7 on, made by
  !! %create_symmetric.
  subroutine is_symmetric_memory(self, flag, ierr)
    class(ostraka_buffer_t), intent(in) :: self
    logical, intent(out) :: flag
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: number, status

    number = 0
    status = c_buffer_is_symmetric_memory(self%handle, number)
    flag = number /= 0
    call conclude('buffer%is_symmetric_memory', status, ierr)
  end subroutine

  !! Registers this rank's storage with the mesh's communicators of `axis`, whose operations on it then may go straight
  !! between the memories of GPUs, until it is gone on all ranks or the mesh ends. Where there is no such thing nothing
  !! happens. Released storage keeps its memory and its registration. Collective over the axis.
  subroutine rendezvous(self, axis, ierr)
    class(ostraka_buffer_t), intent(in) :: self
    integer(int32), intent(in) :: axis
    integer(int32), intent(out), optional :: ierr

    call conclude('buffer%rendezvous', c_buffer_rendezvous(self%handle, to_c_axis(axis)), ierr)
  end subroutine

  !! Destroys the handle and nulls it; the storage goes with its last handle.
  subroutine destroy(self, ierr)
    class(ostraka_buffer_t), intent(inout) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('buffer%destroy', c_buffer_destroy(self%handle), ierr)
  end subroutine

  type(c_ptr) function handle_or_null(buffer)
    type(ostraka_buffer_t), intent(in), optional :: buffer

    handle_or_null = c_null_ptr
    if (present(buffer)) handle_or_null = buffer%handle
  end function

  !! Whether the buffer's elements have the kind of the caller's array or pointer; `pairs`: that is complex.
  subroutine check_kind(self, what, expected, status, text, pairs)
    class(ostraka_buffer_t), intent(in) :: self
    character(*), intent(in) :: what
    integer(int32), intent(in) :: expected
    integer(int32), intent(out) :: status
    character(:), allocatable, intent(inout) :: text
    logical, intent(in), optional :: pairs
    integer(int32) :: dtype

    dtype = -1
    status = c_buffer_dtype(self%handle, dtype)
    call check_type(what, dtype, expected, status, text, pairs)
  end subroutine

  !! The shape of a whole tensor, unless an error was found before.
  subroutine find_shape(self, index, shape, status)
    class(ostraka_buffer_t), intent(in) :: self
    integer(int32), intent(in) :: index
    type(ostraka_shape_t), intent(out) :: shape
    integer(int32), intent(inout) :: status
    integer(int64) :: extents(MAX_DIMS)
    integer(int32) :: ndim

    if (status /= OSTRAKA_OK) return
    status = c_buffer_tensor_shape(self%handle, to_c_index(index), ndim, extents)
    if (status == OSTRAKA_OK) shape = from_c_shape(ndim, extents)
  end subroutine

  pure type(c_ptr) function buffer_handle(buffer)
    class(ostraka_buffer_t), intent(in) :: buffer

    buffer_handle = buffer%handle
  end function
end module
