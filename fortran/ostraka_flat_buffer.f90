! SPDX-License-Identifier: Apache-2.0
!! Internal: the simple buffer. Use the module `ostraka`.
module ostraka_flat_buffer
  use, intrinsic :: iso_c_binding, only: c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int16, int32, int64, int8, real32, real64
  use ostraka_arrays
  use ostraka_c_flat_buffer
  use ostraka_mesh, only: mesh_handle, ostraka_mesh_t
  use ostraka_pointers, only: point_to
  use ostraka_support, only: conclude, to_c_axis, to_c_index
  use ostraka_types
  implicit none
  private
  public :: ostraka_flat_buffer_t

  !! Tensors packed one after the other, the end padded with zeros so that every rank's shard has the same number of
  !! elements. Every rank holds the whole; its shard is a permanent part of it. Pointers are valid until `destroy`.
  !! Tensors and axes count from 1. Assignment copies the handle, not the buffer.
  type :: ostraka_flat_buffer_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, public :: create
    procedure, public :: num_tensors
    procedure, public :: tensor_shape
    procedure, public :: dtype => flat_dtype
    procedure, private :: view_r64_0, view_r64_1, view_r64_2, view_r64_3, view_r64_4
    procedure, private :: view_r32_0, view_r32_1, view_r32_2, view_r32_3, view_r32_4
    procedure, private :: view_i16_0, view_i16_1, view_i16_2, view_i16_3, view_i16_4
    procedure, private :: view_ptr
    !! The whole tensor `index` in its own shape: real64, real32, or the bits of a 16-bit type.
    !! `(index, address, count)`: as type(c_ptr), of any type and number of dimensions.
    generic, public :: view => view_r64_0, view_r64_1, view_r64_2, view_r64_3, view_r64_4, view_r32_0, view_r32_1, &
      view_r32_2, view_r32_3, view_r32_4, view_i16_0, view_i16_1, view_i16_2, view_i16_3, view_i16_4, view_ptr
    procedure, private :: shard_r64, shard_r32, shard_i64, shard_i32, shard_i16, shard_i8
    procedure, private :: shard_ptr
    !! This rank's shard: an equal part of the buffer for each rank of the axis.
    !! `(address, count)`: as type(c_ptr), of any type.
    generic, public :: local_shard => shard_r64, shard_r32, shard_i64, shard_i32, shard_i16, shard_i8, shard_ptr
    procedure, private :: data_r64, data_r32, data_i64, data_i32, data_i16, data_i8
    procedure, private :: data_ptr
    !! The whole buffer, padding included.
    !! `(address, count)`: as type(c_ptr), of any type.
    generic, public :: data => data_r64, data_r32, data_i64, data_i32, data_i16, data_i8, data_ptr
    procedure, public :: reduce_scatter
    procedure, public :: all_gather
    procedure, public :: destroy
  end type

contains

  include 'ostraka_flat_buffer_arrays.inc'
  include 'ostraka_flat_buffer_pointers.inc'

  !! Packs tensors of these shapes, zero-filled, for the ranks along `axis` of the mesh; equal on all of them. Default
  !! type: OSTRAKA_BF16. Local. Overwrites the handle.
  subroutine create(self, mesh, axis, shapes, dtype, ierr)
    class(ostraka_flat_buffer_t), intent(out) :: self
    class(ostraka_mesh_t), intent(in) :: mesh
    integer(int32), intent(in) :: axis
    type(ostraka_shape_t), intent(in) :: shapes(:)
    integer(int32), intent(in), optional :: dtype
    integer(int32), intent(out), optional :: ierr
    integer(int64), allocatable, target :: extents(:,:)
    type(c_shape_t), allocatable :: c_shapes(:)
    integer(int32) :: c_dtype, status

    c_dtype = OSTRAKA_BF16
    if (present(dtype)) c_dtype = dtype
    call to_c_shapes(shapes, extents, c_shapes)
    status = c_flat_buffer_create(mesh_handle(mesh), to_c_axis(axis), size(shapes, kind=int32), c_shapes, c_dtype, &
                                  self%handle)
    call conclude('flat_buffer%create', status, ierr)
  end subroutine

  !! Number of tensors.
  subroutine num_tensors(self, count, ierr)
    class(ostraka_flat_buffer_t), intent(in) :: self
    integer(int32), intent(out) :: count
    integer(int32), intent(out), optional :: ierr

    count = 0
    call conclude('flat_buffer%num_tensors', c_flat_buffer_num_tensors(self%handle, count), ierr)
  end subroutine

  !! The extents of tensor `index` in Fortran order; none for a scalar.
  subroutine tensor_shape(self, index, extents, ierr)
    class(ostraka_flat_buffer_t), intent(in) :: self
    integer(int32), intent(in) :: index
    integer(int64), allocatable, intent(out) :: extents(:)
    integer(int32), intent(out), optional :: ierr
    type(ostraka_shape_t) :: shape
    integer(int32) :: status

    status = OSTRAKA_OK
    call find_shape(self, index, shape, status)
    allocate(extents, source=shape%extents(:shape%ndim))
    call conclude('flat_buffer%tensor_shape', status, ierr)
  end subroutine

  !! The element type.
  subroutine flat_dtype(self, dtype, ierr)
    class(ostraka_flat_buffer_t), intent(in) :: self
    integer(int32), intent(out) :: dtype
    integer(int32), intent(out), optional :: ierr

    dtype = -1
    call conclude('flat_buffer%dtype', c_flat_buffer_dtype(self%handle, dtype), ierr)
  end subroutine

  !! Sums the whole buffer over the ranks; the local shard receives its part. 16-bit types are summed in real32 and
  !! rounded once. Collective over the axis.
  subroutine reduce_scatter(self, ierr)
    class(ostraka_flat_buffer_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('flat_buffer%reduce_scatter', c_flat_buffer_reduce_scatter(self%handle), ierr)
  end subroutine

  !! Brings the local shards of all ranks into the whole buffer. Collective over the axis.
  subroutine all_gather(self, ierr)
    class(ostraka_flat_buffer_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('flat_buffer%all_gather', c_flat_buffer_all_gather(self%handle), ierr)
  end subroutine

  !! Destroys the buffer and nulls the handle.
  subroutine destroy(self, ierr)
    class(ostraka_flat_buffer_t), intent(inout) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('flat_buffer%destroy', c_flat_buffer_destroy(self%handle), ierr)
  end subroutine
end module
