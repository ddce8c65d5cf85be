// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/optim.h>

#include <optional>

using namespace ostraka;
using namespace ostraka::capi;

namespace {

const ostraka_adamw_config_t default_adamw{
    sizeof(ostraka_adamw_config_t),     OSTRAKA_ADAMW_CONFIG_VERSION,     0,
    optim::AdamWConfig{}.learning_rate, optim::AdamWConfig{}.beta1,       optim::AdamWConfig{}.beta2,
    optim::AdamWConfig{}.epsilon,       optim::AdamWConfig{}.weight_decay};

const ostraka_sgd_config_t default_sgd{
    sizeof(ostraka_sgd_config_t),     OSTRAKA_SGD_CONFIG_VERSION,  0,
    optim::SgdConfig{}.learning_rate, optim::SgdConfig{}.momentum, optim::SgdConfig{}.weight_decay};

static_assert(OSTRAKA_NORM_L1 == static_cast<int>(optim::Norm::l1));
static_assert(OSTRAKA_NORM_L2 == static_cast<int>(optim::Norm::l2));
static_assert(OSTRAKA_NORM_MAX == static_cast<int>(optim::Norm::max));

constexpr double unchanged = -1;
const ostraka_group_options_t default_group{sizeof(ostraka_group_options_t), OSTRAKA_GROUP_OPTIONS_VERSION, -1,
                                            unchanged, unchanged};

constexpr Versions adamw_versions{"adamw config", OSTRAKA_ADAMW_CONFIG_VERSION, 56};
constexpr Versions sgd_versions{"sgd config", OSTRAKA_SGD_CONFIG_VERSION, 40};
constexpr Versions group_versions{"group options", OSTRAKA_GROUP_OPTIONS_VERSION, 32};

template <class T>
std::optional<T> unless_unchanged(T value) {
  return value == unchanged ? std::nullopt : std::optional<T>(value);
}

optim::AdamWConfig to_config(const ostraka_adamw_config_t* config) {
  const ostraka_adamw_config_t asked = read(config, default_adamw, adamw_versions);
  return {asked.learning_rate, asked.beta1, asked.beta2, asked.epsilon, asked.weight_decay};
}

optim::SgdConfig to_config(const ostraka_sgd_config_t* config) {
  const ostraka_sgd_config_t asked = read(config, default_sgd, sgd_versions);
  return {asked.learning_rate, asked.momentum, asked.weight_decay};
}

ostraka_optimizer_t make_optimizer(std::unique_ptr<optim::Optimizer> optimizer) {
  return make_handle<ostraka_optimizer_t>(std::make_shared<OptimizerObject>(OptimizerObject{std::move(optimizer)}));
}

} // namespace

extern "C" {

ostraka_status_t ostraka_adamw_config_init_versioned(ostraka_adamw_config_t* config, int64_t struct_size,
                                                     int32_t version) {
  return wall(__func__, [&] { write(config, default_adamw, struct_size, version, adamw_versions); });
}

ostraka_status_t ostraka_sgd_config_init_versioned(ostraka_sgd_config_t* config, int64_t struct_size, int32_t version) {
  return wall(__func__, [&] { write(config, default_sgd, struct_size, version, sgd_versions); });
}

ostraka_status_t ostraka_adamw_create(ostraka_fsdp_context_t context, const ostraka_adamw_config_t* config,
                                      ostraka_optimizer_t* optimizer) {
  return wall(__func__, [&] {
    ostraka_optimizer_t& result = output(optimizer, "optimizer"); // before there is something to lose
    const optim::AdamWConfig asked = to_config(config);
    result = make_optimizer(optim::make_adamw(get(context)->context->named_states(), asked));
  });
}

ostraka_status_t ostraka_sgd_create(ostraka_fsdp_context_t context, const ostraka_sgd_config_t* config,
                                    ostraka_optimizer_t* optimizer) {
  return wall(__func__, [&] {
    ostraka_optimizer_t& result = output(optimizer, "optimizer");
    const optim::SgdConfig asked = to_config(config);
    result = make_optimizer(optim::make_sgd(get(context)->context->named_states(), asked));
  });
}

ostraka_status_t ostraka_adamw_create_ddp(ostraka_ddp_t ddp, const ostraka_adamw_config_t* config,
                                          ostraka_optimizer_t* optimizer) {
  return wall(__func__, [&] {
    ostraka_optimizer_t& result = output(optimizer, "optimizer");
    const optim::AdamWConfig asked = to_config(config);
    result = make_optimizer(optim::make_adamw(get(ddp)->ddp->named_states(), asked));
  });
}

ostraka_status_t ostraka_sgd_create_ddp(ostraka_ddp_t ddp, const ostraka_sgd_config_t* config,
                                        ostraka_optimizer_t* optimizer) {
  return wall(__func__, [&] {
    ostraka_optimizer_t& result = output(optimizer, "optimizer");
    const optim::SgdConfig asked = to_config(config);
    result = make_optimizer(optim::make_sgd(get(ddp)->ddp->named_states(), asked));
  });
}

ostraka_status_t ostraka_optimizer_step(ostraka_optimizer_t optimizer) {
  return wall(__func__, [&] { get(optimizer)->optimizer->step(); });
}

ostraka_status_t ostraka_optimizer_fuse_with_reduction(ostraka_optimizer_t optimizer) {
  return wall(__func__, [&] { get(optimizer)->optimizer->fuse_with_reduction(); });
}

ostraka_status_t ostraka_optimizer_set_learning_rate(ostraka_optimizer_t optimizer, double learning_rate) {
  return wall(__func__, [&] { get(optimizer)->optimizer->set_learning_rate(learning_rate); });
}

ostraka_status_t ostraka_optimizer_steps(ostraka_optimizer_t optimizer, int64_t* steps) {
  return wall(__func__, [&] { output(steps, "steps") = get(optimizer)->optimizer->steps(); });
}

ostraka_status_t ostraka_optimizer_set_steps(ostraka_optimizer_t optimizer, int64_t steps) {
  return wall(__func__, [&] { get(optimizer)->optimizer->set_steps(steps); });
}

ostraka_status_t ostraka_group_options_init_versioned(ostraka_group_options_t* options, int64_t struct_size,
                                                      int32_t version) {
  return wall(__func__, [&] { write(options, default_group, struct_size, version, group_versions); });
}

ostraka_status_t ostraka_optimizer_set_group(ostraka_optimizer_t optimizer, const char* pattern,
                                             const ostraka_group_options_t* options) {
  return wall(__func__, [&] {
    expect(options != nullptr, Status::INVALID_ARGUMENT, "'options' is null");
    const ostraka_group_options_t asked = read(options, default_group, group_versions);
    get(optimizer)->optimizer->set_group(text(pattern, "pattern"),
                                         {unless_unchanged(asked.learning_rate_factor),
                                          unless_unchanged(asked.weight_decay), unless_unchanged(asked.max_dims)});
  });
}

ostraka_status_t ostraka_optimizer_gradient_norm(ostraka_optimizer_t optimizer, int32_t norm, double* result) {
  return wall(__func__, [&] {
    double& target = output(result, "result"); // before the others wait
    target = get(optimizer)->optimizer->gradient_norm(static_cast<optim::Norm>(norm));
  });
}

ostraka_status_t ostraka_optimizer_clip_gradients(ostraka_optimizer_t optimizer, double max_norm, double* norm) {
  return wall(__func__, [&] {
    const double found = get(optimizer)->optimizer->clip_gradients(max_norm);
    if (norm != nullptr)
      *norm = found;
  });
}

ostraka_status_t ostraka_optimizer_scale_gradients(ostraka_optimizer_t optimizer, double factor) {
  return wall(__func__, [&] { get(optimizer)->optimizer->scale_gradients(factor); });
}

ostraka_status_t ostraka_optimizer_check_finite(ostraka_optimizer_t optimizer) {
  return wall(__func__, [&] { get(optimizer)->optimizer->check_finite(); });
}

ostraka_status_t ostraka_optimizer_is_finite(ostraka_optimizer_t optimizer, int32_t* is_finite) {
  return wall(__func__, [&] {
    int32_t& target = output(is_finite, "is_finite");
    target = get(optimizer)->optimizer->find_non_finite() ? 0 : 1;
  });
}

ostraka_status_t ostraka_optimizer_destroy(ostraka_optimizer_t* optimizer) {
  return wall(__func__, [&] { remove(optimizer); });
}
}
