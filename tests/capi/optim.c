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

/* One element of the gradient is replaced by `special` on rank 0 unless that is 0. */
static void backward(model_t* model, double special) {
  void* data = NULL;
  int64_t count = 0;
  double beta = -1;
  CHECK_OK(ostraka_fsdp_context_zero_grad(model->context));
  forward(model);
  CHECK_OK(ostraka_fsdp_module_pre_backward(model->module));
  write_gradient(model);
  if (special != 0 && check_rank == 0 &&
      CHECK_OK(ostraka_fsdp_module_gradient(model->module, "w", OSTRAKA_F64, &data, &count, &beta)))
    ((double*)data)[3] = special;
  CHECK_OK(ostraka_fsdp_module_post_backward(model->module));
  CHECK_OK(ostraka_fsdp_context_finish_backward(model->context));
}

static double norm_of(ostraka_optimizer_t optimizer, int32_t which) {
  double norm = -1;
  CHECK_OK(ostraka_optimizer_gradient_norm(optimizer, which, &norm));
  return norm;
}

static void gradients(void) {
  model_t model = make_model();
  const double sum = check_ranks * (check_ranks + 1) / 2, l2 = sum * sqrt(1 + 4 + 9 + 16 + 25);
  double norm = -1;
  CHECK_FAILS(ostraka_optimizer_gradient_norm(model.sgd, OSTRAKA_NORM_L2, &norm), OSTRAKA_INVALID_STATE, "model.w");
  CHECK_FAILS(ostraka_optimizer_scale_gradients(model.sgd, 2), OSTRAKA_INVALID_STATE, "model.w");
  backward(&model, 0);
  CHECK_NEAR(norm_of(model.sgd, OSTRAKA_NORM_L1), 15 * sum, 1e-12);
  CHECK_NEAR(norm_of(model.sgd, OSTRAKA_NORM_L2), l2, 1e-12);
  CHECK_NEAR(norm_of(model.sgd, OSTRAKA_NORM_MAX), 5 * sum, 0);
  CHECK_FAILS(ostraka_optimizer_gradient_norm(model.sgd, 0, &norm), OSTRAKA_INVALID_ARGUMENT, "found 0");
  CHECK_FAILS(ostraka_optimizer_gradient_norm(model.sgd, OSTRAKA_NORM_L2, NULL), OSTRAKA_INVALID_ARGUMENT, "null");
  CHECK_OK(ostraka_optimizer_scale_gradients(model.sgd, 0.5));
  CHECK_NEAR(norm_of(model.sgd, OSTRAKA_NORM_L2), l2 / 2, 1e-12);
  CHECK_FAILS(ostraka_optimizer_scale_gradients(model.sgd, HUGE_VAL), OSTRAKA_INVALID_ARGUMENT, "factor");
  CHECK_FAILS(ostraka_optimizer_clip_gradients(model.sgd, -1, &norm), OSTRAKA_INVALID_ARGUMENT, "max_norm");
  CHECK_OK(ostraka_optimizer_clip_gradients(model.sgd, l2, &norm)); /* small enough */
  CHECK_NEAR(norm, l2 / 2, 1e-12);
  CHECK_OK(ostraka_optimizer_clip_gradients(model.sgd, l2 / 4, NULL));
  CHECK_NEAR(norm_of(model.sgd, OSTRAKA_NORM_L2), l2 / 4 * norm / (norm + 1e-6), 1e-12);
  CHECK_OK(ostraka_optimizer_step(model.sgd));
  for (int k = 0; k < MODEL_SIZE; ++k)
    model.expected[k] -= 0.5 * (k + 1) * sum * (l2 / 4 / (norm + 1e-6) / 2);
  check_weights(&model);
  destroy_model(&model);
}

static void not_finite(void) {
  model_t model = make_model();
  int32_t is_finite = -1;
  double norm = -1;
  backward(&model, 0);
  CHECK_OK(ostraka_optimizer_is_finite(model.sgd, &is_finite));
  CHECK_INT(is_finite, 1);
  CHECK_OK(ostraka_optimizer_check_finite(model.sgd));
  CHECK_FAILS(ostraka_optimizer_is_finite(model.sgd, NULL), OSTRAKA_INVALID_ARGUMENT, "is_finite");
  backward(&model, -HUGE_VAL);
  CHECK_OK(ostraka_optimizer_is_finite(model.sgd, &is_finite));
  CHECK_INT(is_finite, 0);
  CHECK_FAILS(ostraka_optimizer_check_finite(model.sgd), OSTRAKA_INVALID_STATE, "'model.w' is -infinite at element 3");
  CHECK_FAILS(ostraka_optimizer_clip_gradients(model.sgd, 1, &norm), OSTRAKA_INVALID_STATE, "element 3");
  CHECK_NEAR(norm, -1, 0);
  CHECK(isinf(norm_of(model.sgd, OSTRAKA_NORM_L1)));
  backward(&model, NAN);
  CHECK(isnan(norm_of(model.sgd, OSTRAKA_NORM_MAX)));
  train_step(&model);
  destroy_model(&model);
}

static void steps(void) {
  model_t model = make_model();
  int64_t count = -1;
  CHECK_OK(ostraka_optimizer_steps(model.sgd, &count));
  CHECK_INT(count, 0);
  CHECK_FAILS(ostraka_optimizer_set_steps(model.sgd, -1), OSTRAKA_INVALID_ARGUMENT, "steps >= 0");
  CHECK_OK(ostraka_optimizer_set_steps(model.sgd, 7));
  train_step(&model);
  CHECK_OK(ostraka_optimizer_steps(model.sgd, &count));
  CHECK_INT(count, 8);
  CHECK_FAILS(ostraka_optimizer_steps(model.sgd, NULL), OSTRAKA_INVALID_ARGUMENT, "'steps' is null");
  CHECK_FAILS(ostraka_optimizer_step(model.sgd), OSTRAKA_INVALID_STATE, "new gradient"); /* the same again */
  check_weights(&model);
  train_step(&model);
  destroy_model(&model);
}

static void groups(void) {
  model_t model = make_model();
  ostraka_group_options_t options;
  const double sum = check_ranks * (check_ranks + 1) / 2;
  CHECK_OK(ostraka_group_options_init(&options));
  CHECK_FAILS(ostraka_optimizer_set_group(model.sgd, "model.x", &options), OSTRAKA_INVALID_ARGUMENT, "'model.w'");
  CHECK_FAILS(ostraka_optimizer_set_group(model.sgd, NULL, &options), OSTRAKA_INVALID_ARGUMENT, "'pattern' is null");
  CHECK_FAILS(ostraka_optimizer_set_group(model.sgd, "*", NULL), OSTRAKA_INVALID_ARGUMENT, "'options' is null");
  options.weight_decay = 0.5;
  options.max_dims = 0; /* "w" has one dimension */
  CHECK_OK(ostraka_optimizer_set_group(model.sgd, "*", &options));
  train_step(&model);
  options.max_dims = 1;
  options.learning_rate_factor = 0.25;
  CHECK_OK(ostraka_optimizer_set_group(model.sgd, "mo*.?", &options));
  options.weight_decay = -0.5;
  CHECK_FAILS(ostraka_optimizer_set_group(model.sgd, "*", &options), OSTRAKA_INVALID_ARGUMENT, "weight_decay");
  backward(&model, 0);
  CHECK_OK(ostraka_optimizer_step(model.sgd));
  for (int k = 0; k < MODEL_SIZE; ++k)
    model.expected[k] -= 0.5 * 0.25 * (sum * (k + 1) + 0.5 * model.expected[k]);
  check_weights(&model);
  destroy_model(&model);
}

static void fused(void) {
  model_t model = make_model();
  double norm = 0;
  CHECK_OK(ostraka_optimizer_fuse_with_reduction(model.sgd));
  train_step(&model);
  train_step(&model);
  backward(&model, 0);
  CHECK_FAILS(ostraka_fsdp_module_pre_forward(model.module), OSTRAKA_INVALID_STATE, "step first");
  CHECK_FAILS(ostraka_optimizer_gradient_norm(model.sgd, OSTRAKA_NORM_L2, &norm), OSTRAKA_INVALID_STATE,
              "while it was");
  CHECK_OK(ostraka_optimizer_step(model.sgd));
  expect_step(&model);
  check_weights(&model);
  CHECK_FAILS(ostraka_optimizer_fuse_with_reduction(NULL), OSTRAKA_INVALID_HANDLE, "optimizer");
  destroy_model(&model);
}

void optim_suite(void) {
  fused();
  gradients();
  not_finite();
  steps();
  groups();
  learning_rates();
  adamw_defaults();
}
