// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/optim.h>

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

constexpr Versions adamw_versions{"adamw config", OSTRAKA_ADAMW_CONFIG_VERSION, 56};
constexpr Versions sgd_versions{"sgd config", OSTRAKA_SGD_CONFIG_VERSION, 40};

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
    const ostraka_adamw_config_t asked = read(config, default_adamw, adamw_versions);
    result = make_optimizer(
        optim::make_adamw(get(context)->context->named_states(),
                          {asked.learning_rate, asked.beta1, asked.beta2, asked.epsilon, asked.weight_decay}));
  });
}

ostraka_status_t ostraka_sgd_create(ostraka_fsdp_context_t context, const ostraka_sgd_config_t* config,
                                    ostraka_optimizer_t* optimizer) {
  return wall(__func__, [&] {
    ostraka_optimizer_t& result = output(optimizer, "optimizer");
    const ostraka_sgd_config_t asked = read(config, default_sgd, sgd_versions);
    result = make_optimizer(optim::make_sgd(get(context)->context->named_states(),
                                            {asked.learning_rate, asked.momentum, asked.weight_decay}));
  });
}

ostraka_status_t ostraka_optimizer_step(ostraka_optimizer_t optimizer) {
  return wall(__func__, [&] { get(optimizer)->optimizer->step(); });
}

ostraka_status_t ostraka_optimizer_set_learning_rate(ostraka_optimizer_t optimizer, double learning_rate) {
  return wall(__func__, [&] { get(optimizer)->optimizer->set_learning_rate(learning_rate); });
}

ostraka_status_t ostraka_optimizer_destroy(ostraka_optimizer_t* optimizer) {
  return wall(__func__, [&] { remove(optimizer); });
}
}
