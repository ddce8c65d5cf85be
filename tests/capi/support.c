/* SPDX-License-Identifier: Apache-2.0 */
#include "suites.h"

#include <mpi.h>

static const double rate = 0.5;

ostraka_mesh_t make_mesh(void) {
  ostraka_mesh_t mesh = NULL;
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, 1, NULL, NULL, &mesh));
  return mesh;
}

model_t make_model(void) {
  model_t model = {.mesh = make_mesh()};
  const ostraka_shape_t shape = {1, (const int64_t[]){MODEL_SIZE}}, fixed = {2, (const int64_t[]){2, 3}};
  ostraka_fsdp_config_t config;
  CHECK_OK(ostraka_fsdp_config_init(&config));
  config.reduction = OSTRAKA_SUM;
  CHECK_OK(ostraka_fsdp_context_create(model.mesh, &config, &model.context));
  CHECK_OK(ostraka_fsdp_context_add_module(model.context, "model", &model.module));
  CHECK_OK(ostraka_fsdp_module_add_parameter(model.module, "w", shape, OSTRAKA_F64, 1));
  CHECK_OK(ostraka_fsdp_module_add_parameter(model.module, "fixed", fixed, OSTRAKA_F64, 0));
  CHECK_OK(ostraka_fsdp_module_build(model.module));
  for (int k = 0; k < MODEL_SIZE; ++k)
    model.expected[k] = k;
  CHECK_OK(ostraka_fsdp_module_set_parameter(model.module, "w", OSTRAKA_F64, model.expected, MODEL_SIZE));
  CHECK_OK(ostraka_fsdp_context_finalize(model.context));
  CHECK_OK(ostraka_sgd_create(model.context, NULL, &model.sgd));
  CHECK_OK(ostraka_optimizer_set_learning_rate(model.sgd, rate));
  return model;
}

void destroy_model(model_t* model) {
  CHECK_OK(ostraka_optimizer_destroy(&model->sgd));
  CHECK_OK(ostraka_fsdp_context_destroy(&model->context));
  CHECK_OK(ostraka_mesh_destroy(&model->mesh));
}

void forward(model_t* model) {
  CHECK_OK(ostraka_fsdp_module_pre_forward(model->module));
  CHECK_OK(ostraka_fsdp_module_post_forward(model->module));
}

void write_gradient(model_t* model) {
  void* data = NULL;
  int64_t count = 0;
  double beta = -1;
  if (!CHECK_OK(ostraka_fsdp_module_gradient(model->module, "w", OSTRAKA_F64, &data, &count, &beta)))
    return;
  CHECK_INT(count, MODEL_SIZE);
  for (int k = 0; k < MODEL_SIZE; ++k)
    ((double*)data)[k] = (beta == 0 ? 0 : beta * ((double*)data)[k]) + (check_rank + 1) * (k + 1);
}

void expect_step(model_t* model) {
  const int sum = check_ranks * (check_ranks + 1) / 2;
  for (int k = 0; k < MODEL_SIZE; ++k)
    model->expected[k] -= rate * sum * (k + 1);
}

void check_weights(model_t* model) {
  const void* data = NULL;
  int64_t count = 0;
  CHECK_OK(ostraka_fsdp_context_begin_inference(model->context));
  if (CHECK_OK(ostraka_fsdp_module_parameter(model->module, "w", OSTRAKA_F64, &data, &count)))
    for (int64_t k = 0; k < count; ++k)
      CHECK_NEAR(((const double*)data)[k], model->expected[k], 1e-12);
  CHECK_INT(count, MODEL_SIZE);
  CHECK_OK(ostraka_fsdp_context_end_inference(model->context));
}

void train_step(model_t* model) {
  CHECK_OK(ostraka_fsdp_context_zero_grad(model->context));
  forward(model);
  CHECK_OK(ostraka_fsdp_module_pre_backward(model->module));
  write_gradient(model);
  CHECK_OK(ostraka_fsdp_module_post_backward(model->module));
  CHECK_OK(ostraka_fsdp_context_finish_backward(model->context));
  CHECK_OK(ostraka_optimizer_step(model->sgd));
  expect_step(model);
  check_weights(model);
}
