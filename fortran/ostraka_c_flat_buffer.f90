! SPDX-License-Identifier: Apache-2.0
!! Internal: the functions of flat_buffer.h.
module ostraka_c_flat_buffer
  use, intrinsic :: iso_c_binding, only: c_int32_t, c_int64_t, c_ptr
  use ostraka_types, only: c_shape_t
  implicit none
  public
  private :: c_int32_t, c_int64_t, c_ptr, c_shape_t

  interface
    integer(c_int32_t) function c_flat_buffer_create( &
      mesh, axis, num_tensors, shapes, dtype, buffer) &
      bind(c, name='ostraka_flat_buffer_create')
      import :: c_int32_t, c_ptr, c_shape_t
      type(c_ptr), value :: mesh
      integer(c_int32_t), value :: axis
      integer(c_int32_t), value :: num_tensors
      type(c_shape_t), intent(in) :: shapes(*)
      integer(c_int32_t), value :: dtype
      type(c_ptr), intent(inout) :: buffer
    end function
    integer(c_int32_t) function c_flat_buffer_num_tensors(buffer, num_tensors) &
      bind(c, name='ostraka_flat_buffer_num_tensors')
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: buffer
      integer(c_int32_t), intent(inout) :: num_tensors
    end function
    integer(c_int32_t) function c_flat_buffer_dtype(buffer, dtype) bind(c, name='ostraka_flat_buffer_dtype')
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: buffer
      integer(c_int32_t), intent(inout) :: dtype
    end function
    integer(c_int32_t) function c_flat_buffer_tensor_shape(buffer, index, ndim, extents) &
      bind(c, name='ostraka_flat_buffer_tensor_shape')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: buffer
      integer(c_int32_t), value :: index
      integer(c_int32_t), intent(inout) :: ndim
      integer(c_int64_t), intent(inout) :: extents(*)
    end function
    integer(c_int32_t) function c_flat_buffer_view(buffer, index, data, count) &
      bind(c, name='ostraka_flat_buffer_view')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: buffer
      integer(c_int32_t), value :: index
      type(c_ptr), intent(inout) :: data
      integer(c_int64_t), intent(inout) :: count
    end function
    integer(c_int32_t) function c_flat_buffer_local_shard(buffer, data, count) &
      bind(c, name='ostraka_flat_buffer_local_shard')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: buffer
      type(c_ptr), intent(inout) :: data
      integer(c_int64_t), intent(inout) :: count
    end function
    integer(c_int32_t) function c_flat_buffer_data(buffer, data, count) bind(c, name='ostraka_flat_buffer_data')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: buffer
      type(c_ptr), intent(inout) :: data
      integer(c_int64_t), intent(inout) :: count
    end function
    integer(c_int32_t) function c_flat_buffer_reduce_scatter(buffer) bind(c, name='ostraka_flat_buffer_reduce_scatter')
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: buffer
    end function
    integer(c_int32_t) function c_flat_buffer_all_gather(buffer) bind(c, name='ostraka_flat_buffer_all_gather')
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: buffer
    end function
    integer(c_int32_t) function c_flat_buffer_destroy(buffer) bind(c, name='ostraka_flat_buffer_destroy')
      import :: c_int32_t, c_ptr
      type(c_ptr), intent(inout) :: buffer
    end function
  end interface
end module
