// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/ddp.h>

using namespace ostraka;
using namespace ostraka::capi;
using ostraka::ddp::DistributedDataParallel;

namespace {

constexpr int unset = -1;
const ostraka_ddp_config_t default_config{sizeof(ostraka_ddp_config_t),
                                          OSTRAKA_DDP_CONFIG_VERSION,
                                          OSTRAKA_SCALING_MEAN,
                                          unset,
                                          unset,
                                          0,
                                          0,
                                          0,
                                          OSTRAKA_ARRANGEMENT_PACKED,
                                          1,
                                          0,
                                          1,
                                          unset,
                                          unset,
                                          0,
                                          0,
                                          nullptr};

constexpr Versions config_versions{"ddp config", OSTRAKA_DDP_CONFIG_VERSION, 80};

static_assert(OSTRAKA_SCALING_MEAN == static_cast<int>(ddp::Scaling::mean));
static_assert(OSTRAKA_SCALING_PRE_SCALE == static_cast<int>(ddp::Scaling::pre_scale));
static_assert(OSTRAKA_SCALING_SUM == static_cast<int>(ddp::Scaling::sum));
static_assert(OSTRAKA_ARRANGEMENT_PACKED == static_cast<int>(ddp::Arrangement::packed));
static_assert(OSTRAKA_ARRANGEMENT_LAYER_WISE == static_cast<int>(ddp::Arrangement::layer_wise));
static_assert(OSTRAKA_USES_AUTO == ddp::uses_auto);

template <class T>
std::optional<T> unless_unset(T value) {
  return value == unset ? std::nullopt : std::optional<T>(value);
}

std::vector<std::string> to_patterns(std::int32_t count, const char* const* patterns) {
  expect(count >= 0, Status::INVALID_ARGUMENT, "expected num_f32_accumulators >= 0, found ", count);
  expect(count == 0 || patterns != nullptr, Status::INVALID_ARGUMENT, "'f32_accumulators' is null, expected ", count);
  std::vector<std::string> result;
  for (std::int32_t i = 0; i < count; ++i)
    result.push_back(text(patterns[i], "f32_accumulators"));
  return result;
}

ddp::Config to_config(const ostraka_ddp_config_t& config) {
  ddp::Config result;
  result.scaling = static_cast<ddp::Scaling>(config.scaling);
  result.bucket_size = unless_unset(config.bucket_size);
  result.num_buckets = unless_unset(config.num_buckets);
  result.disable_bucketing = config.disable_bucketing != 0;
  result.sharded_optimizer = config.sharded_optimizer != 0;
  result.pad_for_bandwidth = config.pad_for_bandwidth != 0;
  result.arrangement = static_cast<ddp::Arrangement>(config.arrangement);
  result.overlap_grad_reduce = config.overlap_grad_reduce != 0;
  result.overlap_param_gather = config.overlap_param_gather != 0;
  result.uses = config.uses;
  result.main_dtype = to_choice(config.main_dtype);
  result.gradient_dtype = to_choice(config.gradient_dtype);
  result.f32_accumulators = to_patterns(config.num_f32_accumulators, config.f32_accumulators);
  return result;
}

ddp::ParameterSpec to_spec(const char* name, const ostraka_shape_t& shape, std::int32_t dtype, std::int32_t flags) {
  constexpr std::int32_t known = OSTRAKA_DDP_FROZEN | OSTRAKA_DDP_EXPERT | OSTRAKA_DDP_SHARED_EMBEDDING;
  expect((flags & ~known) == 0, Status::INVALID_ARGUMENT, "expected flags from 0 to ", known, ", found ", flags);
  ddp::ParameterSpec spec{text(name, "name"), to_shape(shape), to_dtype(dtype)};
  spec.trainable = (flags & OSTRAKA_DDP_FROZEN) == 0;
  spec.expert = (flags & OSTRAKA_DDP_EXPERT) != 0;
  spec.shared_embedding = (flags & OSTRAKA_DDP_SHARED_EMBEDDING) != 0;
  return spec;
}

std::shared_ptr<DistributedDataParallel> ddp_of(ostraka_ddp_t handle) { return get(handle)->ddp; }

} // namespace

extern "C" {

ostraka_status_t ostraka_ddp_config_init_versioned(ostraka_ddp_config_t* config, int64_t struct_size, int32_t version) {
  return wall(__func__, [&] { write(config, default_config, struct_size, version, config_versions); });
}

ostraka_status_t ostraka_ddp_create(ostraka_mesh_t mesh, const ostraka_ddp_config_t* config, ostraka_mesh_t expert_mesh,
                                    ostraka_ddp_t* ddp) {
  return wall(__func__, [&] {
    ostraka_ddp_t& result = output(ddp, "ddp");
    const buffer::MeshPtr& on = get(mesh)->mesh;
    const ddp::Config asked = to_config(read(config, default_config, config_versions));
    const buffer::MeshPtr experts = expert_mesh == nullptr ? nullptr : get(expert_mesh)->mesh;
    result = make_handle<ostraka_ddp_t>(
        std::make_shared<DdpObject>(DdpObject{DistributedDataParallel::create(on, asked, experts)}));
  });
}

ostraka_status_t ostraka_ddp_destroy(ostraka_ddp_t* ddp) {
  return wall(__func__, [&] { remove(ddp); });
}

ostraka_status_t ostraka_ddp_add_parameter(ostraka_ddp_t ddp, const char* name, ostraka_shape_t shape, int32_t dtype,
                                           int32_t flags) {
  return wall(__func__, [&] { ddp_of(ddp)->add_parameter(to_spec(name, shape, dtype, flags)); });
}

ostraka_status_t ostraka_ddp_finalize(ostraka_ddp_t ddp) {
  return wall(__func__, [&] { ddp_of(ddp)->finalize(); });
}

ostraka_status_t ostraka_ddp_set_parameter(ostraka_ddp_t ddp, const char* name, int32_t dtype, const void* data,
                                           int64_t count) {
  return wall(__func__, [&] { ddp_of(ddp)->set_parameter(text(name, "name"), data, count, to_dtype(dtype)); });
}

ostraka_status_t ostraka_ddp_parameter(ostraka_ddp_t ddp, const char* name, int32_t dtype, void** data,
                                       int64_t* count) {
  return wall(__func__, [&] {
    void*& address = output(data, "data");
    int64_t& elements = output(count, "count");
    const auto from = ddp_of(ddp);
    const std::string asked = text(name, "name");
    address = from->parameter(asked, to_dtype(dtype));
    elements = layout::numel(from->spec(asked).shape);
  });
}

ostraka_status_t ostraka_ddp_parameter_shape(ostraka_ddp_t ddp, const char* name, int32_t* ndim, int64_t* extents) {
  return wall(__func__, [&] { from_shape(ddp_of(ddp)->spec(text(name, "name")).shape, ndim, extents); });
}

ostraka_status_t ostraka_ddp_broadcast_params(ostraka_ddp_t ddp) {
  return wall(__func__, [&] { ddp_of(ddp)->broadcast_params(); });
}

ostraka_status_t ostraka_ddp_gradient(ostraka_ddp_t ddp, const char* name, int32_t dtype, void** data, int64_t* count,
                                      double* beta) {
  return wall(__func__, [&] {
    void*& address = output(data, "data"); // all outputs exist before the gradient counts as written
    int64_t& elements = output(count, "count");
    double& factor = output(beta, "beta");
    const auto to = ddp_of(ddp);
    const std::string asked = text(name, "name");
    const DistributedDataParallel::Gradient gradient = to->gradient(asked, to_dtype(dtype));
    address = gradient.data;
    elements = layout::numel(to->spec(asked).shape);
    factor = gradient.beta;
  });
}

ostraka_status_t ostraka_ddp_gradient_dtype(ostraka_ddp_t ddp, const char* name, int32_t* dtype) {
  return wall(__func__, [&] {
    output(dtype, "dtype") = static_cast<std::int32_t>(ddp_of(ddp)->gradient_dtype(text(name, "name")));
  });
}

ostraka_status_t ostraka_ddp_gradient_ready(ostraka_ddp_t ddp, const char* name) {
  return wall(__func__, [&] { ddp_of(ddp)->gradient_ready(text(name, "name")); });
}

ostraka_status_t ostraka_ddp_set_uses(ostraka_ddp_t ddp, const char* name, int32_t uses) {
  return wall(__func__, [&] { ddp_of(ddp)->set_uses(text(name, "name"), uses); });
}

ostraka_status_t ostraka_ddp_begin_no_sync(ostraka_ddp_t ddp) {
  return wall(__func__, [&] { ddp_of(ddp)->begin_no_sync(); });
}

ostraka_status_t ostraka_ddp_end_no_sync(ostraka_ddp_t ddp) {
  return wall(__func__, [&] { ddp_of(ddp)->end_no_sync(); });
}

ostraka_status_t ostraka_ddp_is_syncing(ostraka_ddp_t ddp, int32_t* is_syncing) {
  return wall(__func__, [&] { output(is_syncing, "is_syncing") = ddp_of(ddp)->is_syncing() ? 1 : 0; });
}

ostraka_status_t ostraka_ddp_start_grad_sync(ostraka_ddp_t ddp) {
  return wall(__func__, [&] { ddp_of(ddp)->start_grad_sync(); });
}

ostraka_status_t ostraka_ddp_finish_grad_sync(ostraka_ddp_t ddp, int32_t force_all_reduce) {
  return wall(__func__, [&] { ddp_of(ddp)->finish_grad_sync(force_all_reduce != 0); });
}

ostraka_status_t ostraka_ddp_fail_step(ostraka_ddp_t ddp, const char* message) {
  return wall(__func__, [&] { ddp_of(ddp)->fail_step(message != nullptr ? message : ""); });
}

ostraka_status_t ostraka_ddp_zero_grad_buffer(ostraka_ddp_t ddp) {
  return wall(__func__, [&] { ddp_of(ddp)->zero_grad_buffer(); });
}

ostraka_status_t ostraka_ddp_scale_gradients(ostraka_ddp_t ddp, double factor) {
  return wall(__func__, [&] { ddp_of(ddp)->scale_gradients(factor); });
}

ostraka_status_t ostraka_ddp_main_gradient(ostraka_ddp_t ddp, const char* name, int32_t dtype, const void** data,
                                           int64_t* count, int64_t* offset) {
  return wall(__func__, [&] {
    const buffer::TensorRange range = ddp_of(ddp)->main_gradient(text(name, "name"), to_dtype(dtype));
    output(data, "data") = range.data;
    output(count, "count") = range.count;
    output(offset, "offset") = range.offset;
  });
}

ostraka_status_t ostraka_ddp_offload_grad_buffers(ostraka_ddp_t ddp) {
  return wall(__func__, [&] { ddp_of(ddp)->offload_grad_buffers(); });
}

ostraka_status_t ostraka_ddp_restore_grad_buffers(ostraka_ddp_t ddp) {
  return wall(__func__, [&] { ddp_of(ddp)->restore_grad_buffers(); });
}

ostraka_status_t ostraka_ddp_start_param_sync(ostraka_ddp_t ddp, int32_t force_sync, int32_t force_dispatch) {
  return wall(__func__, [&] { ddp_of(ddp)->start_param_sync(force_sync != 0, force_dispatch != 0); });
}

ostraka_status_t ostraka_ddp_pre_forward(ostraka_ddp_t ddp, const char* module) {
  return wall(__func__, [&] { ddp_of(ddp)->pre_forward(text(module, "module")); });
}

ostraka_status_t ostraka_ddp_enable_forward_pre_hook(ostraka_ddp_t ddp) {
  return wall(__func__, [&] { ddp_of(ddp)->enable_forward_pre_hook(); });
}

ostraka_status_t ostraka_ddp_disable_forward_pre_hook(ostraka_ddp_t ddp, int32_t param_sync) {
  return wall(__func__, [&] { ddp_of(ddp)->disable_forward_pre_hook(param_sync != 0); });
}

ostraka_status_t ostraka_ddp_has_forward_pre_hook(ostraka_ddp_t ddp, int32_t* has_hook) {
  return wall(__func__, [&] { output(has_hook, "has_hook") = ddp_of(ddp)->has_forward_pre_hooks() ? 1 : 0; });
}

ostraka_status_t ostraka_ddp_ensure_ready(ostraka_ddp_t ddp, const char* name) {
  return wall(__func__, [&] { ddp_of(ddp)->ensure_ready(text(name, "name")); });
}

ostraka_status_t ostraka_ddp_reset_param_sync_dispatch_state(ostraka_ddp_t ddp) {
  return wall(__func__, [&] { ddp_of(ddp)->reset_param_sync_dispatch_state(); });
}

ostraka_status_t ostraka_ddp_free_overlap_buffers(ostraka_ddp_t ddp) {
  return wall(__func__, [&] { ddp_of(ddp)->free_overlap_buffers(); });
}

ostraka_status_t ostraka_ddp_memory(ostraka_ddp_t ddp, ostraka_memory_report_t* report) {
  return wall(__func__, [&] {
    const ddp::MemoryReport found = ddp_of(ddp)->memory();
    ostraka_memory_report_t values{};
    values.parameters = found.parameters;
    values.gradients = found.gradients;
    values.optimizer_state = found.optimizer_state;
    values.num_elements = found.num_elements;
    values.reserved_bytes = found.reserved;
    write_report(report, values);
  });
}
}
