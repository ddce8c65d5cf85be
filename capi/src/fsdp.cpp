// SPDX-License-Identifier: Apache-2.0
#include "fsdp_structs.hpp"
#include "objects.hpp"
#include <ostraka/fsdp.h>

using namespace ostraka;
using namespace ostraka::capi;
using ostraka::fsdp::FsdpModule;

namespace {

FsdpModule& module_of(ostraka_fsdp_module_t handle) { return *get(handle)->module; }

fsdp::FsdpContext& context_of(ostraka_fsdp_context_t handle) { return *get(handle)->context; }

ostraka_fsdp_module_t make_module(ContextObject& context, FsdpModule& module) {
  const auto handle =
      make_handle<ostraka_fsdp_module_t>(std::make_shared<ModuleObject>(ModuleObject{&module, &context}));
  context.modules.push_back(handle);
  return handle;
}

fsdp::Fill to_fill(ostraka_fill_t fill, void* user) {
  expect(fill != nullptr, Status::INVALID_ARGUMENT, "'fill' is null");
  return [=](std::int64_t first, std::int64_t count, void* out, DType dtype) {
    const ostraka_status_t status = fill(user, first, count, out, static_cast<std::int32_t>(dtype));
    expect(status == OSTRAKA_OK, Status::USER_FAILURE, "initialise: the caller's function returned ", status);
  };
}

} // namespace

extern "C" {

ostraka_status_t ostraka_fsdp_config_init_versioned(ostraka_fsdp_config_t* config, int64_t struct_size,
                                                    int32_t version) {
  return wall(__func__, [&] { write(config, default_fsdp_config, struct_size, version, fsdp_config_versions); });
}

ostraka_status_t ostraka_fsdp_context_create(ostraka_mesh_t mesh, const ostraka_fsdp_config_t* config,
                                             ostraka_fsdp_context_t* context) {
  return wall(__func__, [&] {
    ostraka_fsdp_context_t& result = output(context, "context");
    const buffer::MeshPtr& on = get(mesh)->mesh;
    const fsdp::ContextConfig asked = to_config(config, on->dims());
    result = make_handle<ostraka_fsdp_context_t>(
        std::make_shared<ContextObject>(ContextObject{fsdp::FsdpContext::create(on, asked), {}}));
  });
}

ostraka_status_t ostraka_fsdp_context_destroy(ostraka_fsdp_context_t* context) {
  return wall(__func__, [&] {
    if (const auto object = remove(context))
      for (ostraka_fsdp_module_t module : object->modules)
        remove(&module);
  });
}

ostraka_status_t ostraka_fsdp_context_add_module(ostraka_fsdp_context_t context, const char* name,
                                                 ostraka_fsdp_module_t* module) {
  return wall(__func__, [&] {
    ostraka_fsdp_module_t& result = output(module, "module");
    const auto object = get(context);
    result = make_module(*object, object->context->add_module(text(name, "name")));
  });
}

ostraka_status_t ostraka_fsdp_module_add_module(ostraka_fsdp_module_t parent, const char* name,
                                                ostraka_fsdp_module_t* module) {
  return wall(__func__, [&] {
    ostraka_fsdp_module_t& result = output(module, "module");
    const auto object = get(parent);
    result = make_module(*object->context, object->module->add_module(text(name, "name")));
  });
}

ostraka_status_t ostraka_fsdp_module_tie_parameter(ostraka_fsdp_module_t module, const char* name,
                                                   const char* existing) {
  return wall(__func__, [&] { module_of(module).tie_parameter(text(name, "name"), text(existing, "existing")); });
}

ostraka_status_t ostraka_fsdp_module_set_allow_unused(ostraka_fsdp_module_t module, int32_t allow) {
  return wall(__func__, [&] { module_of(module).set_allow_unused(allow != 0); });
}

ostraka_status_t ostraka_fsdp_module_set_prefetch(ostraka_fsdp_module_t module, int64_t elements) {
  return wall(__func__, [&] { module_of(module).set_prefetch(to_budget(elements)); });
}

ostraka_status_t ostraka_fsdp_module_set_gradient_divisor(ostraka_fsdp_module_t module, double divisor) {
  return wall(__func__, [&] { module_of(module).set_gradient_divisor(divisor); });
}

ostraka_status_t ostraka_fsdp_context_finalize(ostraka_fsdp_context_t context) {
  return wall(__func__, [&] { context_of(context).finalize(); });
}

ostraka_status_t ostraka_fsdp_module_add_parameter(ostraka_fsdp_module_t module, const char* name,
                                                   ostraka_shape_t shape, int32_t dtype, int32_t trainable) {
  return wall(__func__, [&] {
    module_of(module).add_parameter({text(name, "name"), to_shape(shape), to_dtype(dtype), trainable != 0});
  });
}

ostraka_status_t ostraka_fsdp_module_build(ostraka_fsdp_module_t module) {
  return wall(__func__, [&] { module_of(module).build(); });
}

ostraka_status_t ostraka_fsdp_module_set_precision(ostraka_fsdp_module_t module, int32_t main_dtype,
                                                   int32_t compute_dtype, int32_t reduction_dtype) {
  return wall(__func__, [&] {
    module_of(module).set_precision({to_choice(main_dtype), to_choice(compute_dtype), to_choice(reduction_dtype)});
  });
}

ostraka_status_t ostraka_fsdp_module_set_parameter(ostraka_fsdp_module_t module, const char* name, int32_t dtype,
                                                   const void* data, int64_t count) {
  return wall(__func__, [&] { module_of(module).set_parameter(text(name, "name"), data, count, to_dtype(dtype)); });
}

ostraka_status_t ostraka_fsdp_module_pre_forward(ostraka_fsdp_module_t module) {
  return wall(__func__, [&] { module_of(module).pre_forward(); });
}

ostraka_status_t ostraka_fsdp_module_set_from_root(ostraka_fsdp_module_t module, const char* name, int32_t dtype,
                                                   const void* data, int64_t count, int32_t root) {
  return wall(__func__, [&] { // a wrong type is found together with the others, who wait
    module_of(module).set_from_root(text(name, "name"), data, count, static_cast<DType>(dtype), root);
  });
}

ostraka_status_t ostraka_fsdp_module_initialise(ostraka_fsdp_module_t module, const char* name, ostraka_fill_t fill,
                                                void* user) {
  return wall(__func__, [&] { module_of(module).initialise(text(name, "name"), to_fill(fill, user)); });
}

ostraka_status_t ostraka_fsdp_module_skip_forward(ostraka_fsdp_module_t module) {
  return wall(__func__, [&] { module_of(module).skip_forward(); });
}

ostraka_status_t ostraka_fsdp_module_skip_backward(ostraka_fsdp_module_t module) {
  return wall(__func__, [&] { module_of(module).skip_backward(); });
}

ostraka_status_t ostraka_fsdp_module_post_forward(ostraka_fsdp_module_t module) {
  return wall(__func__, [&] { module_of(module).post_forward(); });
}

ostraka_status_t ostraka_fsdp_module_pre_backward(ostraka_fsdp_module_t module) {
  return wall(__func__, [&] { module_of(module).pre_backward(); });
}

ostraka_status_t ostraka_fsdp_module_post_backward(ostraka_fsdp_module_t module) {
  return wall(__func__, [&] { module_of(module).post_backward(); });
}

ostraka_status_t ostraka_fsdp_module_parameter(ostraka_fsdp_module_t module, const char* name, int32_t dtype,
                                               const void** data, int64_t* count) {
  return wall(__func__, [&] {
    const FsdpModule& from = module_of(module);
    const std::string asked = text(name, "name");
    output(data, "data") = from.parameter(asked, to_dtype(dtype));
    output(count, "count") = layout::numel(from.spec(asked).shape);
  });
}

ostraka_status_t ostraka_fsdp_module_gradient(ostraka_fsdp_module_t module, const char* name, int32_t dtype,
                                              void** data, int64_t* count, double* beta) {
  return wall(__func__, [&] {
    void*& address = output(data, "data"); // all outputs exist before the gradient counts as written
    int64_t& elements = output(count, "count");
    double& factor = output(beta, "beta");
    FsdpModule& to = module_of(module);
    const std::string asked = text(name, "name");
    const FsdpModule::Gradient gradient = to.gradient(asked, to_dtype(dtype));
    address = gradient.data;
    elements = layout::numel(to.spec(asked).shape);
    factor = gradient.beta;
  });
}

ostraka_status_t ostraka_fsdp_module_parameter_shape(ostraka_fsdp_module_t module, const char* name, int32_t* ndim,
                                                     int64_t* extents) {
  return wall(__func__, [&] { from_shape(module_of(module).spec(text(name, "name")).shape, ndim, extents); });
}

ostraka_status_t ostraka_fsdp_module_main_gradient(ostraka_fsdp_module_t module, const char* name, int32_t dtype,
                                                   const void** data, int64_t* count, int64_t* offset) {
  return wall(__func__, [&] {
    const buffer::TensorRange range = module_of(module).main_gradient(text(name, "name"), to_dtype(dtype));
    output(data, "data") = range.data;
    output(count, "count") = range.count;
    output(offset, "offset") = range.offset;
  });
}

ostraka_status_t ostraka_fsdp_module_unshard(ostraka_fsdp_module_t module) {
  return wall(__func__, [&] { module_of(module).unshard(); });
}

ostraka_status_t ostraka_fsdp_module_unshard_ahead(ostraka_fsdp_module_t module, int32_t ahead) {
  return wall(__func__, [&] { module_of(module).unshard(static_cast<FsdpModule::Ahead>(ahead)); });
}

ostraka_status_t ostraka_fsdp_module_reduce_gradients(ostraka_fsdp_module_t module) {
  return wall(__func__, [&] { module_of(module).reduce_gradients(); });
}

ostraka_status_t ostraka_fsdp_module_reshard(ostraka_fsdp_module_t module) {
  return wall(__func__, [&] { module_of(module).reshard(); });
}

ostraka_status_t ostraka_fsdp_context_begin_backward(ostraka_fsdp_context_t context) {
  return wall(__func__, [&] { context_of(context).begin_backward(); });
}

ostraka_status_t ostraka_fsdp_context_skip_microbatch(ostraka_fsdp_context_t context) {
  return wall(__func__, [&] { context_of(context).skip_microbatch(); });
}

ostraka_status_t ostraka_fsdp_context_finish_backward(ostraka_fsdp_context_t context) {
  return wall(__func__, [&] { context_of(context).finish_backward(); });
}

ostraka_status_t ostraka_fsdp_context_fail_step(ostraka_fsdp_context_t context, const char* message) {
  return wall(__func__, [&] { context_of(context).fail_step(message != nullptr ? message : ""); });
}

ostraka_status_t ostraka_fsdp_context_set_last_microbatch(ostraka_fsdp_context_t context, int32_t is_last) {
  return wall(__func__, [&] { context_of(context).set_last_microbatch(is_last != 0); });
}

ostraka_status_t ostraka_fsdp_context_zero_grad(ostraka_fsdp_context_t context) {
  return wall(__func__, [&] { context_of(context).zero_grad(); });
}

ostraka_status_t ostraka_fsdp_context_begin_inference(ostraka_fsdp_context_t context) {
  return wall(__func__, [&] { context_of(context).begin_inference(); });
}

ostraka_status_t ostraka_fsdp_context_end_inference(ostraka_fsdp_context_t context) {
  return wall(__func__, [&] { context_of(context).end_inference(); });
}

ostraka_status_t ostraka_memory_report_init_versioned(ostraka_memory_report_t* report, int64_t struct_size,
                                                      int32_t version) {
  return wall(__func__, [&] { write(report, ostraka_memory_report_t{}, struct_size, version, report_versions); });
}

ostraka_status_t ostraka_fsdp_context_memory(ostraka_fsdp_context_t context, ostraka_memory_report_t* report) {
  return wall(__func__, [&] { write_report(report, to_report(context_of(context).memory())); });
}

ostraka_status_t ostraka_fsdp_context_node_memory(ostraka_fsdp_context_t context, ostraka_memory_report_t* report) {
  return wall(__func__, [&] {
    const fsdp::MemoryReport sums = context_of(context).node_memory(); // first: the others wait for this rank
    write_report(report, to_report(sums));
  });
}
}
