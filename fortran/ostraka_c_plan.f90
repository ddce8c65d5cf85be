! SPDX-License-Identifier: Apache-2.0
!! Internal: the functions of plan.h.
!! `c_<rest>` stands for `ostraka_<rest>`; comments are in the header.
!! Handles and addresses are type(c_ptr): by value where C takes the pointer, by reference where C takes its address.
module ostraka_c_plan
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int32_t, c_int64_t, c_ptr
  use ostraka_types, only: c_fsdp_config_t, c_plan_config_t, c_shape_t, ostraka_memory_report_t, ostraka_plan_bytes_t, &
    ostraka_plan_summary_t, ostraka_plan_traffic_t
  implicit none
  public
  private :: c_char, c_double, c_int32_t, c_int64_t, c_ptr, c_fsdp_config_t, c_plan_config_t, c_shape_t, &
    ostraka_memory_report_t, ostraka_plan_bytes_t, ostraka_plan_summary_t, ostraka_plan_traffic_t

  interface
    integer(c_int32_t) function c_plan_config_init_versioned(config, struct_size, version) &
      bind(c, name='ostraka_plan_config_init_versioned')
      import
      type(c_plan_config_t), intent(out) :: config
      integer(c_int64_t), value :: struct_size
      integer(c_int32_t), value :: version
    end function
    integer(c_int32_t) function c_plan_bytes_init_versioned(bytes, struct_size, version) &
      bind(c, name='ostraka_plan_bytes_init_versioned')
      import
      type(ostraka_plan_bytes_t), intent(out) :: bytes
      integer(c_int64_t), value :: struct_size
      integer(c_int32_t), value :: version
    end function
    integer(c_int32_t) function c_plan_traffic_init_versioned(traffic, struct_size, version) &
      bind(c, name='ostraka_plan_traffic_init_versioned')
      import
      type(ostraka_plan_traffic_t), intent(out) :: traffic
      integer(c_int64_t), value :: struct_size
      integer(c_int32_t), value :: version
    end function
    integer(c_int32_t) function c_plan_summary_init_versioned(summary, struct_size, version) &
      bind(c, name='ostraka_plan_summary_init_versioned')
      import
      type(ostraka_plan_summary_t), intent(out) :: summary
      integer(c_int64_t), value :: struct_size
      integer(c_int32_t), value :: version
    end function
    integer(c_int32_t) function c_plan_create(dims, sizes, names, context, config, plan) &
      bind(c, name='ostraka_plan_create')
      import
      integer(c_int32_t), value :: dims
      integer(c_int32_t), intent(in) :: sizes(*)
      type(c_ptr), intent(in), optional :: names(*)
      type(c_fsdp_config_t), intent(in) :: context
      type(c_plan_config_t), intent(in) :: config
      type(c_ptr), intent(inout) :: plan
    end function
    integer(c_int32_t) function c_plan_destroy(plan) bind(c, name='ostraka_plan_destroy')
      import
      type(c_ptr), intent(inout) :: plan
    end function
    integer(c_int32_t) function c_plan_add_unit(plan, name, count, parent, unit) bind(c, name='ostraka_plan_add_unit')
      import
      type(c_ptr), value :: plan
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: count, parent
      integer(c_int32_t), intent(inout) :: unit
    end function
    integer(c_int32_t) function c_plan_add_parameter(plan, unit, name, shape, dtype, trainable) &
      bind(c, name='ostraka_plan_add_parameter')
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: unit
      character(kind=c_char), intent(in) :: name(*)
      type(c_shape_t), value :: shape
      integer(c_int32_t), value :: dtype, trainable
    end function
    integer(c_int32_t) function c_plan_set_precision(plan, unit, main_dtype, compute_dtype, reduction_dtype) &
      bind(c, name='ostraka_plan_set_precision')
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: unit, main_dtype, compute_dtype, reduction_dtype
    end function
    integer(c_int32_t) function c_plan_set_prefetch(plan, unit, elements) bind(c, name='ostraka_plan_set_prefetch')
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: unit
      integer(c_int64_t), value :: elements
    end function
    integer(c_int32_t) function c_plan_set_gradient_divisor(plan, unit, divisor) &
      bind(c, name='ostraka_plan_set_gradient_divisor')
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: unit
      real(c_double), value :: divisor
    end function
    integer(c_int32_t) function c_plan_set_times(plan, unit, forward_s, backward_s) &
      bind(c, name='ostraka_plan_set_times')
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: unit
      real(c_double), value :: forward_s, backward_s
    end function
    integer(c_int32_t) function c_plan_set_link(plan, axis, latency_s, bandwidth) &
      bind(c, name='ostraka_plan_set_link')
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: axis
      real(c_double), value :: latency_s, bandwidth
    end function
    integer(c_int32_t) function c_plan_set_nodes(plan, num_ranks, nodes) bind(c, name='ostraka_plan_set_nodes')
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: num_ranks
      integer(c_int32_t), intent(in) :: nodes(*)
    end function
    integer(c_int32_t) function c_plan_compute(plan) bind(c, name='ostraka_plan_compute')
      import
      type(c_ptr), value :: plan
    end function
    integer(c_int32_t) function c_plan_memory(plan, report) bind(c, name='ostraka_plan_memory')
      import
      type(c_ptr), value :: plan
      type(ostraka_memory_report_t), intent(inout) :: report
    end function
    integer(c_int32_t) function c_plan_node_memory(plan, report) bind(c, name='ostraka_plan_node_memory')
      import
      type(c_ptr), value :: plan
      type(ostraka_memory_report_t), intent(inout) :: report
    end function
    integer(c_int32_t) function c_plan_bytes(plan, bytes) bind(c, name='ostraka_plan_bytes')
      import
      type(c_ptr), value :: plan
      type(ostraka_plan_bytes_t), intent(inout) :: bytes
    end function
    integer(c_int32_t) function c_plan_node_bytes(plan, bytes) bind(c, name='ostraka_plan_node_bytes')
      import
      type(c_ptr), value :: plan
      type(ostraka_plan_bytes_t), intent(inout) :: bytes
    end function
    integer(c_int32_t) function c_plan_traffic(plan, axis, traffic) bind(c, name='ostraka_plan_traffic')
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: axis
      type(ostraka_plan_traffic_t), intent(inout) :: traffic
    end function
    integer(c_int32_t) function c_plan_carrier(plan, axis, name) bind(c, name='ostraka_plan_carrier')
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: axis
      type(c_ptr), intent(inout) :: name
    end function
    integer(c_int32_t) function c_plan_summary(plan, summary) bind(c, name='ostraka_plan_summary')
      import
      type(c_ptr), value :: plan
      type(ostraka_plan_summary_t), intent(inout) :: summary
    end function
    integer(c_int32_t) function c_plan_fits(plan, rank_bytes, node_bytes, fits) bind(c, name='ostraka_plan_fits')
      import
      type(c_ptr), value :: plan
      integer(c_int64_t), value :: rank_bytes, node_bytes
      integer(c_int32_t), intent(inout) :: fits
    end function
    integer(c_int32_t) function c_plan_compare(plan, num_recipes, recipes, plans) bind(c, name='ostraka_plan_compare')
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: num_recipes
      integer(c_int32_t), intent(in) :: recipes(*)
      type(c_ptr), intent(inout) :: plans(*)
    end function
    integer(c_int32_t) function c_plan_cheapest(num_plans, plans, rank_bytes, node_bytes, index) &
      bind(c, name='ostraka_plan_cheapest')
      import
      integer(c_int32_t), value :: num_plans
      type(c_ptr), intent(in) :: plans(*)
      integer(c_int64_t), value :: rank_bytes, node_bytes
      integer(c_int32_t), intent(inout) :: index
    end function
    integer(c_int32_t) function c_plan_largest(plan, unit, rank_bytes, node_bytes, count) &
      bind(c, name='ostraka_plan_largest')
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: unit
      integer(c_int64_t), value :: rank_bytes, node_bytes
      integer(c_int32_t), intent(inout) :: count
    end function
  end interface
end module
