/* SPDX-License-Identifier: Apache-2.0 */
#include "suites.h"

#include <math.h>

static void learning_rates(void) {
  model_t model = make_model();
  CHECK_FAILS(ostraka_optimizer_set_learning_rate(model.sgd, -1), OSTRAKA_INVALID_ARGUMENT, "learning_rate");
  CHECK_FAILS(ostraka_optimizer_set_learning_rate(model.sgd, NAN), OSTRAKA_INVALID_ARGUMENT, "learning_rate");
  CHECK_FAILS(ostraka_optimizer_set_learning_rate(model.sgd, HUGE_VAL), OSTRAKA_INVALID_ARGUMENT, "learning_rate");
  train_step(&model); /* with the rate of before */
  CHECK_FAILS(ostraka_optimizer_destroy(NULL), OSTRAKA_INVALID_ARGUMENT, "address of the optimizer handle is null");
  train_step(&model);
  destroy_model(&model);
}

/* One step of AdamW's defaults moves every weight by rate * sign(gradient) after the decay. */
static void adamw_defaults(void) {
  model_t model = make_model();
  ostraka_optimizer_t adamw = NULL;
  CHECK_OK(ostraka_adamw_create(model.context, NULL, &adamw));
  CHECK_FAILS(ostraka_optimizer_step(adamw), OSTRAKA_INVALID_STATE, "no complete gradient");
  forward(&model);
  CHECK_OK(ostraka_fsdp_module_pre_backward(model.module));
  write_gradient(&model);
  CHECK_OK(ostraka_fsdp_module_post_backward(model.module));
  CHECK_OK(ostraka_fsdp_context_finish_backward(model.context));
  CHECK_OK(ostraka_optimizer_step(adamw));
  for (int k = 0; k < MODEL_SIZE; ++k) {
    const double gradient = check_ranks * (check_ranks + 1) / 2 * (k + 1);
    model.expected[k] = model.expected[k] * (1 - 1e-3 * 1e-2) - 1e-3 * gradient / (gradient + 1e-8);
  }
  check_weights(&model);
  ostraka_memory_report_t report;
  CHECK_OK(ostraka_memory_report_init(&report));
  CHECK_OK(ostraka_fsdp_context_memory(model.context, &report));
  const int64_t w = (MODEL_SIZE + check_ranks - 1) / check_ranks;
  CHECK(report.optimizer_state >= 16 * w && report.optimizer_state <= 16 * w + 256);
  CHECK_OK(ostraka_optimizer_destroy(&adamw));
  CHECK(adamw == NULL);
  train_step(&model);
  destroy_model(&model);
}

void optim_suite(void) {
  learning_rates();
  adamw_defaults();
}
