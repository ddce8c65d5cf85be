/* SPDX-License-Identifier: Apache-2.0 */
#include "digits_step.h"

#include "digits_network.h"

#include <math.h>
#include <stdio.h>

/* What passes through the network on this rank: at most one batch. */
static int32_t labels[BATCH];
static float activations[LAYERS + 1][BATCH * WIDEST];
static float gradients[2][BATCH * WIDEST];

ostraka_status_t report(const char* call, ostraka_status_t status) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "digits: rank %d: %s: %s: %s\n", rank, call, ostraka_status_name(status), ostraka_last_error());
  return status;
}

int64_t my_part(const trainer_t* trainer, int64_t count, int64_t* first) {
  *first = count * trainer->rank / trainer->size;
  return count * (trainer->rank + 1) / trainer->size - *first;
}

static ostraka_status_t parameter(ostraka_fsdp_module_t layer, const char* name, const float** values) {
  const void* data = NULL;
  int64_t count = 0;
  const ostraka_status_t status = ostraka_fsdp_module_parameter(layer, name, OSTRAKA_F32, &data, &count);
  *values = data;
  return status;
}

static ostraka_status_t gradient(ostraka_fsdp_module_t layer, const char* name, float** values, double* beta) {
  void* data = NULL;
  int64_t count = 0;
  const ostraka_status_t status = ostraka_fsdp_module_gradient(layer, name, OSTRAKA_F32, &data, &count, beta);
  *values = data;
  return status;
}

static ostraka_status_t forward(trainer_t* trainer, int64_t rows) {
  for (int l = 0; l < LAYERS; ++l) {
    const float *weight = NULL, *bias = NULL;
    TRY(ostraka_fsdp_module_pre_forward(trainer->layers[l])); /* whole weights from here ... */
    TRY(parameter(trainer->layers[l], "weight", &weight));
    TRY(parameter(trainer->layers[l], "bias", &bias));
    dense_forward(rows, widths[l], widths[l + 1], activations[l], weight, bias, activations[l + 1]);
    TRY(ostraka_fsdp_module_post_forward(trainer->layers[l])); /* ... to here */
    if (l + 1 < LAYERS)
      relu_forward(rows * widths[l + 1], activations[l + 1]);
  }
  return OSTRAKA_OK;
}

/* On entry gradients[0] belongs to the network's result. */
static ostraka_status_t backward(trainer_t* trainer, int64_t rows) {
  float *grad_y = gradients[0], *grad_x = gradients[1];
  for (int l = LAYERS - 1; l >= 0; --l) {
    const float* weight = NULL;
    float *grad_weight = NULL, *grad_bias = NULL;
    double beta_weight = 0, beta_bias = 0;
    TRY(ostraka_fsdp_module_pre_backward(trainer->layers[l]));
    TRY(parameter(trainer->layers[l], "weight", &weight));
    TRY(gradient(trainer->layers[l], "weight", &grad_weight, &beta_weight));
    TRY(gradient(trainer->layers[l], "bias", &grad_bias, &beta_bias));
    /* A rank without rows writes zeros: its gradient is part of the sum, too. */
    dense_backward_weight(rows, widths[l], widths[l + 1], activations[l], grad_y, beta_weight, grad_weight);
    dense_backward_bias(rows, widths[l + 1], grad_y, beta_bias, grad_bias);
    if (l > 0)
      dense_backward_input(rows, widths[l], widths[l + 1], grad_y, weight, grad_x);
    TRY(ostraka_fsdp_module_post_backward(trainer->layers[l])); /* the reduction over ranks starts */
    if (l > 0)
      relu_backward(rows * widths[l], activations[l], grad_x);
    float* next = grad_x;
    grad_x = grad_y;
    grad_y = next;
  }
  return OSTRAKA_OK;
}

/* This rank's part of one batch; adds its rows' losses to `loss`. */
static ostraka_status_t forward_backward(trainer_t* trainer, const int32_t* batch, int64_t batch_rows, double* loss) {
  int64_t first = 0;
  const int64_t rows = my_part(trainer, batch_rows, &first);
  digits_gather(&trainer->digits, batch + first, rows, activations[0], labels);
  TRY(ostraka_fsdp_context_zero_grad(trainer->context));
  const ostraka_status_t status = forward(trainer, rows);
  if (status != OSTRAKA_OK)
    return status;
  *loss += cross_entropy(rows, DIGITS_CLASSES, activations[LAYERS], labels, batch_rows, gradients[0]);
  return backward(trainer, rows);
}

ostraka_status_t train_step(trainer_t* trainer, const int32_t* batch, int64_t batch_rows, double* loss) {
  if (forward_backward(trainer, batch, batch_rows, loss) != OSTRAKA_OK) {
    CHECK(ostraka_fsdp_context_fail_step(trainer->context, ostraka_last_error()));
  } else if (!isfinite(*loss)) {
    CHECK(ostraka_fsdp_context_fail_step(trainer->context, "the training loss is not a finite number"));
  }
  TRY(ostraka_fsdp_context_finish_backward(trainer->context));
  CHECK(ostraka_optimizer_step(trainer->optimizer));
  return OSTRAKA_OK;
}

ostraka_status_t test_rows(trainer_t* trainer, const int32_t* rows, int64_t count, int64_t* correct) {
  for (int64_t begin = 0; begin < count; begin += BATCH) {
    const int64_t part = count - begin < BATCH ? count - begin : BATCH;
    digits_gather(&trainer->digits, rows + begin, part, activations[0], labels);
    const ostraka_status_t status = forward(trainer, part);
    if (status != OSTRAKA_OK)
      return status;
    *correct += count_correct(part, DIGITS_CLASSES, activations[LAYERS], labels);
  }
  return OSTRAKA_OK;
}
