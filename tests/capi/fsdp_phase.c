/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks in a wrong phase and wrong arguments inside a step. What is refused changes nothing: the step goes on and gives
 * the right weights.
 */
#include "suites.h"

#define REFUSED(call, words) CHECK_FAILS(call, OSTRAKA_INVALID_STATE, words)

/* What is refused in every phase. */
static void wrong_arguments(model_t* model) {
  const ostraka_fsdp_module_t module = model->module;
  const void* data = NULL;
  void* gradient = NULL;
  int64_t count = 0, offset = 0;
  int32_t ndim = 0;
  double beta = 0;
  const double values[MODEL_SIZE] = {0};
#define UNKNOWN(call) CHECK_FAILS(call, OSTRAKA_INVALID_ARGUMENT, "module 'model' has no parameter 'nobody'")
  UNKNOWN(ostraka_fsdp_module_parameter(module, "nobody", OSTRAKA_F64, &data, &count));
  UNKNOWN(ostraka_fsdp_module_gradient(module, "nobody", OSTRAKA_F64, &gradient, &count, &beta));
  UNKNOWN(ostraka_fsdp_module_main_gradient(module, "nobody", OSTRAKA_F64, &data, &count, &offset));
  UNKNOWN(ostraka_fsdp_module_parameter_shape(module, "nobody", &ndim, NULL));
  UNKNOWN(ostraka_fsdp_module_set_parameter(module, "nobody", OSTRAKA_F64, values, MODEL_SIZE));
#define ABSENT(call, argument) CHECK_FAILS(call, OSTRAKA_INVALID_ARGUMENT, "'" argument "' is null")
  ABSENT(ostraka_fsdp_module_parameter(module, NULL, OSTRAKA_F64, &data, &count), "name");
  ABSENT(ostraka_fsdp_module_gradient(module, NULL, OSTRAKA_F64, &gradient, &count, &beta), "name");
  ABSENT(ostraka_fsdp_module_gradient(module, "w", OSTRAKA_F64, NULL, &count, &beta), "data");
  ABSENT(ostraka_fsdp_module_gradient(module, "w", OSTRAKA_F64, &gradient, NULL, &beta), "count");
  ABSENT(ostraka_fsdp_module_gradient(module, "w", OSTRAKA_F64, &gradient, &count, NULL), "beta");
  ABSENT(ostraka_fsdp_module_main_gradient(module, NULL, OSTRAKA_F64, &data, &count, &offset), "name");
  ABSENT(ostraka_fsdp_module_parameter_shape(module, NULL, &ndim, NULL), "name");
  ABSENT(ostraka_fsdp_module_parameter_shape(module, "w", NULL, NULL), "ndim");
  CHECK_FAILS(ostraka_fsdp_module_parameter(module, "w", 99, &data, &count), OSTRAKA_INVALID_ARGUMENT, "99");
}

static void while_resting(model_t* model) {
  const ostraka_fsdp_module_t module = model->module;
  const void* data = NULL;
  void* gradient = NULL;
  int64_t count = 0, offset = 0;
  double beta = 0;
  wrong_arguments(model);
  REFUSED(ostraka_fsdp_module_post_forward(module), "expected the forward phase, found resting");
  REFUSED(ostraka_fsdp_module_pre_backward(module), "no forward pass to go back through");
  REFUSED(ostraka_fsdp_module_post_backward(module), "expected the backward phase, found resting");
  REFUSED(ostraka_fsdp_module_parameter(module, "w", OSTRAKA_F64, &data, &count), "its weights are sharded now");
  REFUSED(ostraka_fsdp_module_gradient(module, "w", OSTRAKA_F64, &gradient, &count, &beta), "expected the backward");
  REFUSED(ostraka_fsdp_module_main_gradient(module, "w", OSTRAKA_F64, &data, &count, &offset), "there is none");
  REFUSED(ostraka_fsdp_module_main_gradient(module, "fixed", OSTRAKA_F64, &data, &count, &offset), "is frozen");
  REFUSED(ostraka_fsdp_module_reshard(module), "it was not unsharded");
  REFUSED(ostraka_fsdp_context_end_inference(model->context), "begin_inference was not called");
  REFUSED(ostraka_optimizer_step(model->sgd), "'model.w' has no complete gradient");
}

static void in_forward(model_t* model) {
  const ostraka_fsdp_module_t module = model->module;
  const double values[MODEL_SIZE] = {0};
  const void* data = NULL;
  void* gradient = NULL;
  int64_t count = 0;
  double beta = 0;
  wrong_arguments(model);
  REFUSED(ostraka_fsdp_module_pre_forward(module), "expected the resting phase, found forward");
  REFUSED(ostraka_fsdp_module_pre_backward(module), "expected the resting phase, found forward");
  REFUSED(ostraka_fsdp_module_post_backward(module), "expected the backward phase, found forward");
  REFUSED(ostraka_fsdp_module_gradient(module, "w", OSTRAKA_F64, &gradient, &count, &beta), "found forward");
  REFUSED(ostraka_fsdp_module_set_parameter(module, "w", OSTRAKA_F64, values, MODEL_SIZE), "are in use");
  REFUSED(ostraka_fsdp_context_begin_inference(model->context), "found forward");
  REFUSED(ostraka_optimizer_step(model->sgd), "are in use");
  CHECK_FAILS(ostraka_fsdp_module_parameter(module, "w", OSTRAKA_F32, &data, &count), OSTRAKA_TYPE_MISMATCH,
              "handed out as f64, asked for f32");
  ABSENT(ostraka_fsdp_module_parameter(module, "w", OSTRAKA_F64, NULL, &count), "data");
  ABSENT(ostraka_fsdp_module_parameter(module, "w", OSTRAKA_F64, &data, NULL), "count");
}

static void in_backward(model_t* model) {
  const ostraka_fsdp_module_t module = model->module;
  const double values[MODEL_SIZE] = {0};
  void* gradient = NULL;
  int64_t count = 0;
  double beta = 0;
  wrong_arguments(model);
  REFUSED(ostraka_fsdp_module_post_forward(module), "expected the forward phase, found backward");
  REFUSED(ostraka_fsdp_module_pre_backward(module), "expected the resting phase, found backward");
  REFUSED(ostraka_fsdp_module_gradient(module, "fixed", OSTRAKA_F64, &gradient, &count, &beta), "is frozen");
  REFUSED(ostraka_fsdp_module_set_parameter(module, "w", OSTRAKA_F64, values, MODEL_SIZE), "are in use (backward)");
  REFUSED(ostraka_fsdp_context_begin_inference(model->context), "found backward");
  REFUSED(ostraka_optimizer_step(model->sgd), "are in use (backward)");
  CHECK_FAILS(ostraka_fsdp_module_gradient(module, "w", OSTRAKA_F32, &gradient, &count, &beta), OSTRAKA_TYPE_MISMATCH,
              "taken as f64, asked for f32");
}

static void reduced_gradient(model_t* model) {
  const ostraka_fsdp_module_t module = model->module;
  const void* data = NULL;
  int64_t count = 0, offset = 0;
  const int sum = check_ranks * (check_ranks + 1) / 2;
  if (CHECK_OK(ostraka_fsdp_module_main_gradient(module, "w", OSTRAKA_F64, &data, &count, &offset)))
    for (int64_t k = 0; k < count; ++k)
      CHECK_NEAR(((const double*)data)[k], (double)(sum * (offset + k + 1)), 0);
  CHECK_FAILS(ostraka_fsdp_module_main_gradient(module, "w", OSTRAKA_F32, &data, &count, &offset),
              OSTRAKA_TYPE_MISMATCH, "kept as f64, asked for f32");
  ABSENT(ostraka_fsdp_module_main_gradient(module, "w", OSTRAKA_F64, NULL, &count, &offset), "data");
  ABSENT(ostraka_fsdp_module_main_gradient(module, "w", OSTRAKA_F64, &data, NULL, &offset), "count");
  ABSENT(ostraka_fsdp_module_main_gradient(module, "w", OSTRAKA_F64, &data, &count, NULL), "offset");
}

/* A step with all of this in between. */
static void a_step_full_of_refusals(model_t* model) {
  CHECK_OK(ostraka_fsdp_context_zero_grad(model->context));
  while_resting(model);
  CHECK_OK(ostraka_fsdp_module_pre_forward(model->module));
  in_forward(model);
  CHECK_OK(ostraka_fsdp_module_post_forward(model->module));
  REFUSED(ostraka_fsdp_module_post_forward(model->module), "expected the forward phase, found resting");
  CHECK_OK(ostraka_fsdp_module_pre_backward(model->module));
  in_backward(model);
  write_gradient(model);
  in_backward(model);
  CHECK_OK(ostraka_fsdp_module_post_backward(model->module));
  REFUSED(ostraka_fsdp_module_pre_backward(model->module), "no forward pass to go back through");
  REFUSED(ostraka_fsdp_context_zero_grad(model->context), "call finish_backward first");
  CHECK_OK(ostraka_fsdp_context_finish_backward(model->context));
  reduced_gradient(model);
  CHECK_OK(ostraka_optimizer_step(model->sgd));
  expect_step(model);
  check_weights(model);
}

static void in_inference(model_t* model) {
  const ostraka_fsdp_module_t module = model->module;
  const double values[MODEL_SIZE] = {0};
  CHECK_OK(ostraka_fsdp_context_begin_inference(model->context));
  REFUSED(ostraka_fsdp_context_begin_inference(model->context), "called already");
  REFUSED(ostraka_fsdp_module_pre_backward(module), "between begin_inference and end_inference");
  REFUSED(ostraka_fsdp_context_finish_backward(model->context), "between begin_inference and end_inference");
  REFUSED(ostraka_fsdp_module_set_parameter(module, "w", OSTRAKA_F64, values, MODEL_SIZE), "are in use (inference)");
  for (int i = 0; i < check_rank; ++i) /* hooks are local: any number per rank */
    forward(model);
  CHECK_OK(ostraka_fsdp_context_end_inference(model->context));
  train_step(model);
}

static void while_unsharded(model_t* model) {
  const double values[MODEL_SIZE] = {0};
  const void* data = NULL;
  int64_t count = 0;
  CHECK_OK(ostraka_fsdp_module_unshard(model->module));
  REFUSED(ostraka_fsdp_module_set_parameter(model->module, "w", OSTRAKA_F64, values, MODEL_SIZE), "without reshard");
  CHECK_OK(ostraka_fsdp_module_parameter(model->module, "fixed", OSTRAKA_F64, &data, &count));
  CHECK_INT(count, 6);
  CHECK_OK(ostraka_fsdp_module_reshard(model->module));
  REFUSED(ostraka_fsdp_module_parameter(model->module, "w", OSTRAKA_F64, &data, &count), "sharded now");
  train_step(model);
}

/* Weights may be set between steps. */
static void set_between_steps(model_t* model) {
  for (int k = 0; k < MODEL_SIZE; ++k)
    model->expected[k] = -k;
  CHECK_OK(ostraka_fsdp_module_set_parameter(model->module, "w", OSTRAKA_F64, model->expected, MODEL_SIZE));
  check_weights(model);
  train_step(model);
}

/* Gradients of micro-batches add up; without zero_grad so do those of the next step. */
static void contributions_add_up(model_t* model) {
  CHECK_OK(ostraka_fsdp_context_zero_grad(model->context));
  for (int microbatch = 0; microbatch < 3; ++microbatch) {
    CHECK_OK(ostraka_fsdp_context_set_last_microbatch(model->context, microbatch == 2));
    forward(model);
    forward(model); /* two uses of the module, in one reduction */
    for (int use = 0; use < 2; ++use) {
      CHECK_OK(ostraka_fsdp_module_pre_backward(model->module));
      write_gradient(model);
      CHECK_OK(ostraka_fsdp_module_post_backward(model->module));
    }
    CHECK_OK(ostraka_fsdp_context_finish_backward(model->context));
  }
  CHECK_OK(ostraka_optimizer_step(model->sgd));
  for (int use = 0; use < 6; ++use)
    expect_step(model);
  check_weights(model);
  train_step(model);
}

void fsdp_phase_suite(void) {
  model_t model = make_model();
  a_step_full_of_refusals(&model);
  a_step_full_of_refusals(&model);
  in_inference(&model);
  while_unsharded(&model);
  set_between_steps(&model);
  contributions_add_up(&model);
  destroy_model(&model);
}
