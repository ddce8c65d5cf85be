! SPDX-License-Identifier: Apache-2.0
!! Internal: the functions of status.h, runtime.h, device.h, mesh.h and buffer.h.
!! `c_<rest>` stands for `ostraka_<rest>`; comments are in the headers.
!! Handles and addresses are type(c_ptr): by value where C takes the pointer, by reference where C takes its address.
module ostraka_c
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int32_t, c_int64_t, c_ptr
  use ostraka_types, only: c_shape_t, ostraka_placement_t
  implicit none
  public

  !! status.h, runtime.h
  interface
    type(c_ptr) function c_status_name(status) bind(c, name='ostraka_status_name')
      import
      integer(c_int32_t), value :: status
    end function
    type(c_ptr) function c_status_meaning(status) bind(c, name='ostraka_status_meaning')
      import
      integer(c_int32_t), value :: status
    end function
    type(c_ptr) function c_last_error() bind(c, name='ostraka_last_error')
      import
    end function
    subroutine c_error_clear() bind(c, name='ostraka_error_clear')
    end subroutine
    integer(c_int32_t) function c_initialize() bind(c, name='ostraka_initialize')
      import
    end function
    integer(c_int32_t) function c_finalize() bind(c, name='ostraka_finalize')
      import
    end function
    integer(c_int32_t) function c_is_initialized() bind(c, name='ostraka_is_initialized')
      import
    end function
    type(c_ptr) function c_version_string() bind(c, name='ostraka_version_string')
      import
    end function
  end interface

  !! device.h
  interface
    integer(c_int32_t) function c_has_device(device, has) bind(c, name='ostraka_has_device')
      import
      integer(c_int32_t), value :: device
      integer(c_int32_t), intent(out) :: has
    end function
    integer(c_int32_t) function c_cuda_device(index) bind(c, name='ostraka_cuda_device')
      import
      integer(c_int32_t), intent(out) :: index
    end function
    integer(c_int32_t) function c_select_cuda_device(index) bind(c, name='ostraka_select_cuda_device')
      import
      integer(c_int32_t), value :: index
    end function
    integer(c_int32_t) function c_set_compute_stream(stream) bind(c, name='ostraka_set_compute_stream')
      import
      type(c_ptr), value :: stream
    end function
    integer(c_int32_t) function c_native_compute_stream(stream) bind(c, name='ostraka_native_compute_stream')
      import
      type(c_ptr), intent(out) :: stream
    end function
    integer(c_int32_t) function c_is_device_memory(address, is_device) bind(c, name='ostraka_is_device_memory')
      import
      type(c_ptr), value :: address
      integer(c_int32_t), intent(out) :: is_device
    end function
    integer(c_int32_t) function c_copy_now(device, from, to, bytes) bind(c, name='ostraka_copy_now')
      import
      integer(c_int32_t), value :: device
      type(c_ptr), value :: from, to
      integer(c_int64_t), value :: bytes
    end function
  end interface

  !! mesh.h
  interface
    integer(c_int32_t) function c_mesh_create_f(comm, dims, sizes, names, mesh) bind(c, name='ostraka_mesh_create_f')
      import
      integer(c_int), value :: comm
      integer(c_int32_t), value :: dims
      integer(c_int32_t), intent(in), optional :: sizes(*)
      type(c_ptr), intent(in), optional :: names(*)
      type(c_ptr), intent(inout) :: mesh
    end function
    integer(c_int32_t) function c_mesh_create_on_f(comm, dims, sizes, names, device, mesh) &
        bind(c, name='ostraka_mesh_create_on_f')
      import
      integer(c_int), value :: comm
      integer(c_int32_t), value :: dims
      integer(c_int32_t), intent(in), optional :: sizes(*)
      type(c_ptr), intent(in), optional :: names(*)
      integer(c_int32_t), value :: device
      type(c_ptr), intent(inout) :: mesh
    end function
    integer(c_int32_t) function c_mesh_device(mesh, device) bind(c, name='ostraka_mesh_device')
      import
      type(c_ptr), value :: mesh
      integer(c_int32_t), intent(out) :: device
    end function
    integer(c_int32_t) function c_mesh_destroy(mesh) bind(c, name='ostraka_mesh_destroy')
      import
      type(c_ptr), intent(inout) :: mesh
    end function
    integer(c_int32_t) function c_mesh_dims(mesh, dims) bind(c, name='ostraka_mesh_dims')
      import
      type(c_ptr), value :: mesh
      integer(c_int32_t), intent(out) :: dims
    end function
    integer(c_int32_t) function c_mesh_rank(mesh, rank) bind(c, name='ostraka_mesh_rank')
      import
      type(c_ptr), value :: mesh
      integer(c_int32_t), intent(out) :: rank
    end function
    integer(c_int32_t) function c_mesh_size(mesh, size) bind(c, name='ostraka_mesh_size')
      import
      type(c_ptr), value :: mesh
      integer(c_int32_t), intent(out) :: size
    end function
    integer(c_int32_t) function c_mesh_axis(mesh, name, axis) bind(c, name='ostraka_mesh_axis')
      import
      type(c_ptr), value :: mesh
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), intent(out) :: axis
    end function
    integer(c_int32_t) function c_mesh_axis_size(mesh, axis, size) bind(c, name='ostraka_mesh_axis_size')
      import
      type(c_ptr), value :: mesh
      integer(c_int32_t), value :: axis
      integer(c_int32_t), intent(out) :: size
    end function
    integer(c_int32_t) function c_mesh_memory(mesh, kind, in_use, peak) bind(c, name='ostraka_mesh_memory')
      import
      type(c_ptr), value :: mesh
      integer(c_int32_t), value :: kind
      integer(c_int64_t), intent(inout) :: in_use, peak
    end function
    integer(c_int32_t) function c_mesh_coordinate(mesh, axis, coordinate) bind(c, name='ostraka_mesh_coordinate')
      import
      type(c_ptr), value :: mesh
      integer(c_int32_t), value :: axis
      integer(c_int32_t), intent(out) :: coordinate
    end function
  end interface

  !! buffer.h
  interface
    integer(c_int32_t) function c_buffer_create(mesh, placements, layout, dtype, buffer) &
      bind(c, name='ostraka_buffer_create')
      import
      type(c_ptr), value :: mesh, layout
      type(ostraka_placement_t), intent(in) :: placements(*)
      integer(c_int32_t), value :: dtype
      type(c_ptr), intent(inout) :: buffer
    end function
    integer(c_int32_t) function c_buffer_create_symmetric(mesh, placements, layout, dtype, buffer) &
      bind(c, name='ostraka_buffer_create_symmetric')
      import
      type(c_ptr), value :: mesh, layout
      type(ostraka_placement_t), intent(in) :: placements(*)
      integer(c_int32_t), value :: dtype
      type(c_ptr), intent(inout) :: buffer
    end function
    integer(c_int32_t) function c_buffer_empty(mesh, placements, num_tensors, shapes, dtype, buffer) &
      bind(c, name='ostraka_buffer_empty')
      import
      type(c_ptr), value :: mesh
      type(ostraka_placement_t), intent(in) :: placements(*)
      integer(c_int32_t), value :: num_tensors, dtype
      type(c_shape_t), intent(in) :: shapes(*)
      type(c_ptr), intent(inout) :: buffer
    end function
    integer(c_int32_t) function c_buffer_from_local( &
      mesh, placements, layout, dtype, data, count, clear_padding, buffer) &
      bind(c, name='ostraka_buffer_from_local')
      import
      type(c_ptr), value :: mesh, layout, data
      type(ostraka_placement_t), intent(in) :: placements(*)
      integer(c_int32_t), value :: dtype, clear_padding
      integer(c_int64_t), value :: count
      type(c_ptr), intent(inout) :: buffer
    end function
    integer(c_int32_t) function c_buffer_distribute( &
      mesh, placements, layout, num_tensors, shapes, dtype, tensors, buffer) &
      bind(c, name='ostraka_buffer_distribute')
      import
      type(c_ptr), value :: mesh, layout
      type(ostraka_placement_t), intent(in) :: placements(*)
      integer(c_int32_t), value :: num_tensors, dtype
      type(c_shape_t), intent(in) :: shapes(*)
      type(c_ptr), intent(in) :: tensors(*)
      type(c_ptr), intent(inout) :: buffer
    end function
    integer(c_int32_t) function c_buffer_copy_from(buffer, index, tensor, count) &
      bind(c, name='ostraka_buffer_copy_from')
      import
      type(c_ptr), value :: buffer, tensor
      integer(c_int32_t), value :: index
      integer(c_int64_t), value :: count
    end function
    integer(c_int32_t) function c_buffer_view(buffer, placements, view) bind(c, name='ostraka_buffer_view')
      import
      type(c_ptr), value :: buffer
      type(ostraka_placement_t), intent(in) :: placements(*)
      type(c_ptr), intent(inout) :: view
    end function
    integer(c_int32_t) function c_buffer_cast(buffer, dtype, out, result) bind(c, name='ostraka_buffer_cast')
      import
      type(c_ptr), value :: buffer, out
      integer(c_int32_t), value :: dtype
      type(c_ptr), intent(inout) :: result
    end function
    integer(c_int32_t) function c_buffer_allgather(buffer, axis, out, result) bind(c, name='ostraka_buffer_allgather')
      import
      type(c_ptr), value :: buffer, out
      integer(c_int32_t), value :: axis
      type(c_ptr), intent(inout) :: result
    end function
    integer(c_int32_t) function c_buffer_reduce_scatter(buffer, axis, out, result) &
      bind(c, name='ostraka_buffer_reduce_scatter')
      import
      type(c_ptr), value :: buffer, out
      integer(c_int32_t), value :: axis
      type(c_ptr), intent(inout) :: result
    end function
    integer(c_int32_t) function c_buffer_allreduce(buffer, axis, out, result) bind(c, name='ostraka_buffer_allreduce')
      import
      type(c_ptr), value :: buffer, out
      integer(c_int32_t), value :: axis
      type(c_ptr), intent(inout) :: result
    end function
    integer(c_int32_t) function c_buffer_redistribute(buffer, placements, out, result) &
      bind(c, name='ostraka_buffer_redistribute')
      import
      type(c_ptr), value :: buffer, out
      type(ostraka_placement_t), intent(in) :: placements(*)
      type(c_ptr), intent(inout) :: result
    end function
    integer(c_int32_t) function c_buffer_redistribute_into(buffer, out) bind(c, name='ostraka_buffer_redistribute_into')
      import
      type(c_ptr), value :: buffer, out
    end function
    integer(c_int32_t) function c_buffer_set_name(buffer, name) bind(c, name='ostraka_buffer_set_name')
      import
      type(c_ptr), value :: buffer
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int32_t) function c_buffer_local(buffer, data, count, begin) bind(c, name='ostraka_buffer_local')
      import
      type(c_ptr), value :: buffer
      type(c_ptr), intent(out) :: data
      integer(c_int64_t), intent(out) :: count, begin
    end function
    integer(c_int32_t) function c_buffer_tensor_view(buffer, index, data, num_rows, first_row) &
      bind(c, name='ostraka_buffer_tensor_view')
      import
      type(c_ptr), value :: buffer
      integer(c_int32_t), value :: index
      type(c_ptr), intent(out) :: data
      integer(c_int64_t), intent(out) :: num_rows, first_row
    end function
    integer(c_int32_t) function c_buffer_tensor_range(buffer, index, data, count, offset) &
      bind(c, name='ostraka_buffer_tensor_range')
      import
      type(c_ptr), value :: buffer
      integer(c_int32_t), value :: index
      type(c_ptr), intent(out) :: data
      integer(c_int64_t), intent(out) :: count, offset
    end function
    integer(c_int32_t) function c_buffer_mesh_dims(buffer, dims) bind(c, name='ostraka_buffer_mesh_dims')
      import
      type(c_ptr), value :: buffer
      integer(c_int32_t), intent(inout) :: dims
    end function
    integer(c_int32_t) function c_buffer_layout(buffer, layout) bind(c, name='ostraka_buffer_layout')
      import
      type(c_ptr), value :: buffer
      type(c_ptr), intent(inout) :: layout
    end function
    integer(c_int32_t) function c_buffer_num_tensors(buffer, num_tensors) bind(c, name='ostraka_buffer_num_tensors')
      import
      type(c_ptr), value :: buffer
      integer(c_int32_t), intent(out) :: num_tensors
    end function
    integer(c_int32_t) function c_buffer_tensor_shape(buffer, index, ndim, extents) &
      bind(c, name='ostraka_buffer_tensor_shape')
      import
      type(c_ptr), value :: buffer
      integer(c_int32_t), value :: index
      integer(c_int32_t), intent(out) :: ndim
      integer(c_int64_t), intent(out) :: extents(*)
    end function
    integer(c_int32_t) function c_buffer_dtype(buffer, dtype) bind(c, name='ostraka_buffer_dtype')
      import
      type(c_ptr), value :: buffer
      integer(c_int32_t), intent(out) :: dtype
    end function
    integer(c_int32_t) function c_buffer_release_storage(buffer) bind(c, name='ostraka_buffer_release_storage')
      import
      type(c_ptr), value :: buffer
    end function
    integer(c_int32_t) function c_buffer_reallocate_storage(buffer) bind(c, name='ostraka_buffer_reallocate_storage')
      import
      type(c_ptr), value :: buffer
    end function
    integer(c_int32_t) function c_buffer_is_allocated(buffer, is_allocated) &
      bind(c, name='ostraka_buffer_is_allocated')
      import
      type(c_ptr), value :: buffer
      integer(c_int32_t), intent(out) :: is_allocated
    end function
    integer(c_int32_t) function c_buffer_is_symmetric_memory(buffer, is_symmetric) &
      bind(c, name='ostraka_buffer_is_symmetric_memory')
      import
      type(c_ptr), value :: buffer
      integer(c_int32_t), intent(out) :: is_symmetric
    end function
    integer(c_int32_t) function c_buffer_rendezvous(buffer, axis) bind(c, name='ostraka_buffer_rendezvous')
      import
      type(c_ptr), value :: buffer
      integer(c_int32_t), value :: axis
    end function
    integer(c_int32_t) function c_buffer_destroy(buffer) bind(c, name='ostraka_buffer_destroy')
      import
      type(c_ptr), intent(inout) :: buffer
    end function
  end interface
end module
