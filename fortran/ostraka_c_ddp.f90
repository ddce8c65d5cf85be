! SPDX-License-Identifier: Apache-2.0
!! Internal: the functions of ddp.h.
!! `c_<rest>` stands for `ostraka_<rest>`; comments are in the header.
!! Handles and addresses are type(c_ptr): by value where C takes the pointer, by reference where C takes its address.
module ostraka_c_ddp
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int32_t, c_int64_t, c_ptr
  use ostraka_types, only: c_ddp_config_t, c_shape_t, ostraka_memory_report_t
  implicit none
  public

  interface
    integer(c_int32_t) function c_ddp_config_init_versioned(config, struct_size, version) &
      bind(c, name='ostraka_ddp_config_init_versioned')
      import
      type(c_ddp_config_t), intent(out) :: config
      integer(c_int64_t), value :: struct_size
      integer(c_int32_t), value :: version
    end function
    integer(c_int32_t) function c_ddp_create(mesh, config, expert_mesh, ddp) bind(c, name='ostraka_ddp_create')
      import
      type(c_ptr), value :: mesh, expert_mesh
      type(c_ddp_config_t), intent(in) :: config
      type(c_ptr), intent(inout) :: ddp
    end function
    integer(c_int32_t) function c_ddp_destroy(ddp) bind(c, name='ostraka_ddp_destroy')
      import
      type(c_ptr), intent(inout) :: ddp
    end function
    integer(c_int32_t) function c_ddp_add_parameter(ddp, name, shape, dtype, flags) &
      bind(c, name='ostraka_ddp_add_parameter')
      import
      type(c_ptr), value :: ddp
      character(kind=c_char), intent(in) :: name(*)
      type(c_shape_t), value :: shape
      integer(c_int32_t), value :: dtype, flags
    end function
    integer(c_int32_t) function c_ddp_finalize(ddp) bind(c, name='ostraka_ddp_finalize')
      import
      type(c_ptr), value :: ddp
    end function
    integer(c_int32_t) function c_ddp_set_parameter(ddp, name, dtype, data, count) &
      bind(c, name='ostraka_ddp_set_parameter')
      import
      type(c_ptr), value :: ddp, data
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype
      integer(c_int64_t), value :: count
    end function
    integer(c_int32_t) function c_ddp_parameter(ddp, name, dtype, data, count) bind(c, name='ostraka_ddp_parameter')
      import
      type(c_ptr), value :: ddp
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype
      type(c_ptr), intent(out) :: data
      integer(c_int64_t), intent(out) :: count
    end function
    integer(c_int32_t) function c_ddp_parameter_shape(ddp, name, ndim, extents) &
      bind(c, name='ostraka_ddp_parameter_shape')
      import
      type(c_ptr), value :: ddp
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), intent(out) :: ndim
      integer(c_int64_t), intent(out) :: extents(*)
    end function
    integer(c_int32_t) function c_ddp_broadcast_params(ddp) bind(c, name='ostraka_ddp_broadcast_params')
      import
      type(c_ptr), value :: ddp
    end function
    integer(c_int32_t) function c_ddp_gradient(ddp, name, dtype, data, count, beta) bind(c, name='ostraka_ddp_gradient')
      import
      type(c_ptr), value :: ddp
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype
      type(c_ptr), intent(out) :: data
      integer(c_int64_t), intent(out) :: count
      real(c_double), intent(out) :: beta
    end function
    integer(c_int32_t) function c_ddp_gradient_dtype(ddp, name, dtype) bind(c, name='ostraka_ddp_gradient_dtype')
      import
      type(c_ptr), value :: ddp
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), intent(inout) :: dtype
    end function
    integer(c_int32_t) function c_ddp_gradient_ready(ddp, name) bind(c, name='ostraka_ddp_gradient_ready')
      import
      type(c_ptr), value :: ddp
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int32_t) function c_ddp_set_uses(ddp, name, uses) bind(c, name='ostraka_ddp_set_uses')
      import
      type(c_ptr), value :: ddp
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: uses
    end function
    integer(c_int32_t) function c_ddp_begin_no_sync(ddp) bind(c, name='ostraka_ddp_begin_no_sync')
      import
      type(c_ptr), value :: ddp
    end function
    integer(c_int32_t) function c_ddp_end_no_sync(ddp) bind(c, name='ostraka_ddp_end_no_sync')
      import
      type(c_ptr), value :: ddp
    end function
    integer(c_int32_t) function c_ddp_is_syncing(ddp, is_syncing) bind(c, name='ostraka_ddp_is_syncing')
      import
      type(c_ptr), value :: ddp
      integer(c_int32_t), intent(inout) :: is_syncing
    end function
    integer(c_int32_t) function c_ddp_start_grad_sync(ddp) bind(c, name='ostraka_ddp_start_grad_sync')
      import
      type(c_ptr), value :: ddp
    end function
    integer(c_int32_t) function c_ddp_finish_grad_sync(ddp, force_all_reduce) &
      bind(c, name='ostraka_ddp_finish_grad_sync')
      import
      type(c_ptr), value :: ddp
      integer(c_int32_t), value :: force_all_reduce
    end function
    integer(c_int32_t) function c_ddp_fail_step(ddp, message) bind(c, name='ostraka_ddp_fail_step')
      import
      type(c_ptr), value :: ddp
      character(kind=c_char), intent(in) :: message(*)
    end function
    integer(c_int32_t) function c_ddp_zero_grad_buffer(ddp) bind(c, name='ostraka_ddp_zero_grad_buffer')
      import
      type(c_ptr), value :: ddp
    end function
    integer(c_int32_t) function c_ddp_scale_gradients(ddp, factor) bind(c, name='ostraka_ddp_scale_gradients')
      import
      type(c_ptr), value :: ddp
      real(c_double), value :: factor
    end function
    integer(c_int32_t) function c_ddp_main_gradient(ddp, name, dtype, data, count, offset) &
      bind(c, name='ostraka_ddp_main_gradient')
      import
      type(c_ptr), value :: ddp
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype
      type(c_ptr), intent(out) :: data
      integer(c_int64_t), intent(out) :: count, offset
    end function
    integer(c_int32_t) function c_ddp_offload_grad_buffers(ddp) bind(c, name='ostraka_ddp_offload_grad_buffers')
      import
      type(c_ptr), value :: ddp
    end function
    integer(c_int32_t) function c_ddp_restore_grad_buffers(ddp) bind(c, name='ostraka_ddp_restore_grad_buffers')
      import
      type(c_ptr), value :: ddp
    end function
    integer(c_int32_t) function c_ddp_start_param_sync(ddp, force_sync, force_dispatch) &
      bind(c, name='ostraka_ddp_start_param_sync')
      import
      type(c_ptr), value :: ddp
      integer(c_int32_t), value :: force_sync, force_dispatch
    end function
    integer(c_int32_t) function c_ddp_pre_forward(ddp, module) bind(c, name='ostraka_ddp_pre_forward')
      import
      type(c_ptr), value :: ddp
      character(kind=c_char), intent(in) :: module(*)
    end function
    integer(c_int32_t) function c_ddp_enable_forward_pre_hook(ddp) bind(c, name='ostraka_ddp_enable_forward_pre_hook')
      import
      type(c_ptr), value :: ddp
    end function
    integer(c_int32_t) function c_ddp_disable_forward_pre_hook(ddp, param_sync) &
      bind(c, name='ostraka_ddp_disable_forward_pre_hook')
      import
      type(c_ptr), value :: ddp
      integer(c_int32_t), value :: param_sync
    end function
    integer(c_int32_t) function c_ddp_has_forward_pre_hook(ddp, has_hook) &
      bind(c, name='ostraka_ddp_has_forward_pre_hook')
      import
      type(c_ptr), value :: ddp
      integer(c_int32_t), intent(inout) :: has_hook
    end function
    integer(c_int32_t) function c_ddp_ensure_ready(ddp, name) bind(c, name='ostraka_ddp_ensure_ready')
      import
      type(c_ptr), value :: ddp
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int32_t) function c_ddp_reset_param_sync_dispatch_state(ddp) &
      bind(c, name='ostraka_ddp_reset_param_sync_dispatch_state')
      import
      type(c_ptr), value :: ddp
    end function
    integer(c_int32_t) function c_ddp_free_overlap_buffers(ddp) bind(c, name='ostraka_ddp_free_overlap_buffers')
      import
      type(c_ptr), value :: ddp
    end function
    integer(c_int32_t) function c_ddp_memory(ddp, report) bind(c, name='ostraka_ddp_memory')
      import
      type(c_ptr), value :: ddp
      type(ostraka_memory_report_t), intent(inout) :: report
    end function
  end interface
end module
