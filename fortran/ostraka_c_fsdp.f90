! SPDX-License-Identifier: Apache-2.0
!! Internal: the functions of fsdp.h and optim.h.
!! `c_<rest>` stands for `ostraka_<rest>`; comments are in the headers.
!! Handles and addresses are type(c_ptr): by value where C takes the pointer, by reference where C takes its address.
module ostraka_c_fsdp
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_funptr, c_int32_t, c_int64_t, c_ptr
  use ostraka_types, only: c_adamw_config_t, c_fsdp_config_t, c_group_options_t, c_sgd_config_t, c_shape_t, &
    ostraka_memory_report_t
  implicit none
  public

  !! fsdp.h
  interface
    integer(c_int32_t) function c_fsdp_config_init_versioned(config, struct_size, version) &
      bind(c, name='ostraka_fsdp_config_init_versioned')
      import
      type(c_fsdp_config_t), intent(out) :: config
      integer(c_int64_t), value :: struct_size
      integer(c_int32_t), value :: version
    end function
    integer(c_int32_t) function c_fsdp_context_create(mesh, config, context) &
      bind(c, name='ostraka_fsdp_context_create')
      import
      type(c_ptr), value :: mesh
      type(c_fsdp_config_t), intent(in) :: config
      type(c_ptr), intent(inout) :: context
    end function
    integer(c_int32_t) function c_fsdp_context_destroy(context) bind(c, name='ostraka_fsdp_context_destroy')
      import
      type(c_ptr), intent(inout) :: context
    end function
    integer(c_int32_t) function c_fsdp_context_add_module(context, name, module) &
      bind(c, name='ostraka_fsdp_context_add_module')
      import
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(inout) :: module
    end function
    integer(c_int32_t) function c_fsdp_module_add_module(parent, name, module) &
      bind(c, name='ostraka_fsdp_module_add_module')
      import
      type(c_ptr), value :: parent
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(inout) :: module
    end function
    integer(c_int32_t) function c_fsdp_module_tie_parameter(module, name, existing) &
      bind(c, name='ostraka_fsdp_module_tie_parameter')
      import
      type(c_ptr), value :: module
      character(kind=c_char), intent(in) :: name(*), existing(*)
    end function
    integer(c_int32_t) function c_fsdp_module_set_allow_unused(module, allow) &
      bind(c, name='ostraka_fsdp_module_set_allow_unused')
      import
      type(c_ptr), value :: module
      integer(c_int32_t), value :: allow
    end function
    integer(c_int32_t) function c_fsdp_module_set_prefetch(module, elements) &
      bind(c, name='ostraka_fsdp_module_set_prefetch')
      import
      type(c_ptr), value :: module
      integer(c_int64_t), value :: elements
    end function
    integer(c_int32_t) function c_fsdp_module_set_gradient_divisor(module, divisor) &
      bind(c, name='ostraka_fsdp_module_set_gradient_divisor')
      import
      type(c_ptr), value :: module
      real(c_double), value :: divisor
    end function
    integer(c_int32_t) function c_fsdp_module_set_from_root(module, name, dtype, data, count, root) &
      bind(c, name='ostraka_fsdp_module_set_from_root')
      import
      type(c_ptr), value :: module, data
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype, root
      integer(c_int64_t), value :: count
    end function
    integer(c_int32_t) function c_fsdp_module_initialise(module, name, fill, user) &
      bind(c, name='ostraka_fsdp_module_initialise')
      import
      type(c_ptr), value :: module, user
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr), value :: fill
    end function
    integer(c_int32_t) function c_fsdp_module_skip_forward(module) &
      bind(c, name='ostraka_fsdp_module_skip_forward')
      import
      type(c_ptr), value :: module
    end function
    integer(c_int32_t) function c_fsdp_module_skip_backward(module) &
      bind(c, name='ostraka_fsdp_module_skip_backward')
      import
      type(c_ptr), value :: module
    end function
    integer(c_int32_t) function c_fsdp_module_unshard_ahead(module, ahead) &
      bind(c, name='ostraka_fsdp_module_unshard_ahead')
      import
      type(c_ptr), value :: module
      integer(c_int32_t), value :: ahead
    end function
    integer(c_int32_t) function c_fsdp_module_reduce_gradients(module) &
      bind(c, name='ostraka_fsdp_module_reduce_gradients')
      import
      type(c_ptr), value :: module
    end function
    integer(c_int32_t) function c_fsdp_context_begin_backward(context) &
      bind(c, name='ostraka_fsdp_context_begin_backward')
      import
      type(c_ptr), value :: context
    end function
    integer(c_int32_t) function c_fsdp_context_skip_microbatch(context) &
      bind(c, name='ostraka_fsdp_context_skip_microbatch')
      import
      type(c_ptr), value :: context
    end function
    integer(c_int32_t) function c_fsdp_context_finalize(context) bind(c, name='ostraka_fsdp_context_finalize')
      import
      type(c_ptr), value :: context
    end function
    integer(c_int32_t) function c_fsdp_module_add_parameter(module, name, shape, dtype, trainable) &
      bind(c, name='ostraka_fsdp_module_add_parameter')
      import
      type(c_ptr), value :: module
      character(kind=c_char), intent(in) :: name(*)
      type(c_shape_t), value :: shape
      integer(c_int32_t), value :: dtype, trainable
    end function
    integer(c_int32_t) function c_fsdp_module_build(module) bind(c, name='ostraka_fsdp_module_build')
      import
      type(c_ptr), value :: module
    end function
    integer(c_int32_t) function c_fsdp_module_set_precision(module, main_dtype, compute_dtype, reduction_dtype) &
      bind(c, name='ostraka_fsdp_module_set_precision')
      import
      type(c_ptr), value :: module
      integer(c_int32_t), value :: main_dtype, compute_dtype, reduction_dtype
    end function
    integer(c_int32_t) function c_fsdp_module_set_parameter(module, name, dtype, data, count) &
      bind(c, name='ostraka_fsdp_module_set_parameter')
      import
      type(c_ptr), value :: module, data
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype
      integer(c_int64_t), value :: count
    end function
    integer(c_int32_t) function c_fsdp_module_pre_forward(module) bind(c, name='ostraka_fsdp_module_pre_forward')
      import
      type(c_ptr), value :: module
    end function
    integer(c_int32_t) function c_fsdp_module_post_forward(module) bind(c, name='ostraka_fsdp_module_post_forward')
      import
      type(c_ptr), value :: module
    end function
    integer(c_int32_t) function c_fsdp_module_pre_backward(module) bind(c, name='ostraka_fsdp_module_pre_backward')
      import
      type(c_ptr), value :: module
    end function
    integer(c_int32_t) function c_fsdp_module_post_backward(module) bind(c, name='ostraka_fsdp_module_post_backward')
      import
      type(c_ptr), value :: module
    end function
    integer(c_int32_t) function c_fsdp_module_parameter(module, name, dtype, data, count) &
      bind(c, name='ostraka_fsdp_module_parameter')
      import
      type(c_ptr), value :: module
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype
      type(c_ptr), intent(out) :: data
      integer(c_int64_t), intent(out) :: count
    end function
    integer(c_int32_t) function c_fsdp_module_gradient(module, name, dtype, data, count, beta) &
      bind(c, name='ostraka_fsdp_module_gradient')
      import
      type(c_ptr), value :: module
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype
      type(c_ptr), intent(out) :: data
      integer(c_int64_t), intent(out) :: count
      real(c_double), intent(out) :: beta
    end function
    integer(c_int32_t) function c_fsdp_module_parameter_shape(module, name, ndim, extents) &
      bind(c, name='ostraka_fsdp_module_parameter_shape')
      import
      type(c_ptr), value :: module
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), intent(out) :: ndim
      integer(c_int64_t), intent(out) :: extents(*)
    end function
    integer(c_int32_t) function c_fsdp_module_main_gradient(module, name, dtype, data, count, offset) &
      bind(c, name='ostraka_fsdp_module_main_gradient')
      import
      type(c_ptr), value :: module
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype
      type(c_ptr), intent(out) :: data
      integer(c_int64_t), intent(out) :: count, offset
    end function
    integer(c_int32_t) function c_fsdp_module_unshard(module) bind(c, name='ostraka_fsdp_module_unshard')
      import
      type(c_ptr), value :: module
    end function
    integer(c_int32_t) function c_fsdp_module_reshard(module) bind(c, name='ostraka_fsdp_module_reshard')
      import
      type(c_ptr), value :: module
    end function
    integer(c_int32_t) function c_fsdp_context_finish_backward(context) &
      bind(c, name='ostraka_fsdp_context_finish_backward')
      import
      type(c_ptr), value :: context
    end function
    integer(c_int32_t) function c_fsdp_context_fail_step(context, message) &
      bind(c, name='ostraka_fsdp_context_fail_step')
      import
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: message(*)
    end function
    integer(c_int32_t) function c_fsdp_context_set_last_microbatch(context, is_last) &
      bind(c, name='ostraka_fsdp_context_set_last_microbatch')
      import
      type(c_ptr), value :: context
      integer(c_int32_t), value :: is_last
    end function
    integer(c_int32_t) function c_fsdp_context_zero_grad(context) bind(c, name='ostraka_fsdp_context_zero_grad')
      import
      type(c_ptr), value :: context
    end function
    integer(c_int32_t) function c_fsdp_context_begin_inference(context) &
      bind(c, name='ostraka_fsdp_context_begin_inference')
      import
      type(c_ptr), value :: context
    end function
    integer(c_int32_t) function c_fsdp_context_end_inference(context) &
      bind(c, name='ostraka_fsdp_context_end_inference')
      import
      type(c_ptr), value :: context
    end function
    integer(c_int32_t) function c_memory_report_init_versioned(report, struct_size, version) &
      bind(c, name='ostraka_memory_report_init_versioned')
      import
      type(ostraka_memory_report_t), intent(out) :: report
      integer(c_int64_t), value :: struct_size
      integer(c_int32_t), value :: version
    end function
    integer(c_int32_t) function c_fsdp_context_memory(context, report) bind(c, name='ostraka_fsdp_context_memory')
      import
      type(c_ptr), value :: context
      type(ostraka_memory_report_t), intent(inout) :: report
    end function
    integer(c_int32_t) function c_fsdp_context_node_memory(context, report) &
      bind(c, name='ostraka_fsdp_context_node_memory')
      import
      type(c_ptr), value :: context
      type(ostraka_memory_report_t), intent(inout) :: report
    end function
  end interface

  !! optim.h
  interface
    integer(c_int32_t) function c_adamw_config_init_versioned(config, struct_size, version) &
      bind(c, name='ostraka_adamw_config_init_versioned')
      import
      type(c_adamw_config_t), intent(out) :: config
      integer(c_int64_t), value :: struct_size
      integer(c_int32_t), value :: version
    end function
    integer(c_int32_t) function c_sgd_config_init_versioned(config, struct_size, version) &
      bind(c, name='ostraka_sgd_config_init_versioned')
      import
      type(c_sgd_config_t), intent(out) :: config
      integer(c_int64_t), value :: struct_size
      integer(c_int32_t), value :: version
    end function
    integer(c_int32_t) function c_adamw_create(context, config, optimizer) bind(c, name='ostraka_adamw_create')
      import
      type(c_ptr), value :: context
      type(c_adamw_config_t), intent(in) :: config
      type(c_ptr), intent(inout) :: optimizer
    end function
    integer(c_int32_t) function c_sgd_create(context, config, optimizer) bind(c, name='ostraka_sgd_create')
      import
      type(c_ptr), value :: context
      type(c_sgd_config_t), intent(in) :: config
      type(c_ptr), intent(inout) :: optimizer
    end function
    integer(c_int32_t) function c_adamw_create_ddp(ddp, config, optimizer) bind(c, name='ostraka_adamw_create_ddp')
      import
      type(c_ptr), value :: ddp
      type(c_adamw_config_t), intent(in) :: config
      type(c_ptr), intent(inout) :: optimizer
    end function
    integer(c_int32_t) function c_sgd_create_ddp(ddp, config, optimizer) bind(c, name='ostraka_sgd_create_ddp')
      import
      type(c_ptr), value :: ddp
      type(c_sgd_config_t), intent(in) :: config
      type(c_ptr), intent(inout) :: optimizer
    end function
    integer(c_int32_t) function c_optimizer_step(optimizer) bind(c, name='ostraka_optimizer_step')
      import
      type(c_ptr), value :: optimizer
    end function
    integer(c_int32_t) function c_optimizer_fuse_with_reduction(optimizer) &
      bind(c, name='ostraka_optimizer_fuse_with_reduction')
      import
      type(c_ptr), value :: optimizer
    end function
    integer(c_int32_t) function c_optimizer_set_learning_rate(optimizer, learning_rate) &
      bind(c, name='ostraka_optimizer_set_learning_rate')
      import
      type(c_ptr), value :: optimizer
      real(c_double), value :: learning_rate
    end function
    integer(c_int32_t) function c_optimizer_steps(optimizer, steps) bind(c, name='ostraka_optimizer_steps')
      import
      type(c_ptr), value :: optimizer
      integer(c_int64_t), intent(inout) :: steps
    end function
    integer(c_int32_t) function c_optimizer_set_steps(optimizer, steps) bind(c, name='ostraka_optimizer_set_steps')
      import
      type(c_ptr), value :: optimizer
      integer(c_int64_t), value :: steps
    end function
    integer(c_int32_t) function c_group_options_init_versioned(options, struct_size, version) &
      bind(c, name='ostraka_group_options_init_versioned')
      import
      type(c_group_options_t), intent(out) :: options
      integer(c_int64_t), value :: struct_size
      integer(c_int32_t), value :: version
    end function
    integer(c_int32_t) function c_optimizer_set_group(optimizer, pattern, options) &
      bind(c, name='ostraka_optimizer_set_group')
      import
      type(c_ptr), value :: optimizer
      character(kind=c_char), intent(in) :: pattern(*)
      type(c_group_options_t), intent(in) :: options
    end function
    integer(c_int32_t) function c_optimizer_gradient_norm(optimizer, norm, result) &
      bind(c, name='ostraka_optimizer_gradient_norm')
      import
      type(c_ptr), value :: optimizer
      integer(c_int32_t), value :: norm
      real(c_double), intent(inout) :: result
    end function
    integer(c_int32_t) function c_optimizer_clip_gradients(optimizer, max_norm, norm) &
      bind(c, name='ostraka_optimizer_clip_gradients')
      import
      type(c_ptr), value :: optimizer
      real(c_double), value :: max_norm
      real(c_double), intent(inout) :: norm
    end function
    integer(c_int32_t) function c_optimizer_scale_gradients(optimizer, factor) &
      bind(c, name='ostraka_optimizer_scale_gradients')
      import
      type(c_ptr), value :: optimizer
      real(c_double), value :: factor
    end function
    integer(c_int32_t) function c_optimizer_check_finite(optimizer) bind(c, name='ostraka_optimizer_check_finite')
      import
      type(c_ptr), value :: optimizer
    end function
    integer(c_int32_t) function c_optimizer_is_finite(optimizer, is_finite) &
      bind(c, name='ostraka_optimizer_is_finite')
      import
      type(c_ptr), value :: optimizer
      integer(c_int32_t), intent(inout) :: is_finite
    end function
    integer(c_int32_t) function c_optimizer_destroy(optimizer) bind(c, name='ostraka_optimizer_destroy')
      import
      type(c_ptr), intent(inout) :: optimizer
    end function
  end interface
end module
