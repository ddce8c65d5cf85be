/* SPDX-License-Identifier: Apache-2.0
 *
 * The suites that main.c runs between ostraka_initialize and ostraka_finalize, and what they share.
 */
#ifndef OSTRAKA_TESTS_CAPI_SUITES_H
#define OSTRAKA_TESTS_CAPI_SUITES_H

#include "check.h"

void abi_suite(void);
void message_suite(void);
void layout_suite(void);
void layout_policy_suite(void);
void layout_part_suite(void);
void layout_error_suite(void);
void mesh_suite(void);
void buffer_suite(void);
void buffer_error_suite(void);
void reduction_suite(void);
void transfer_suite(void);
void complex_suite(void);
void flat_buffer_suite(void);
void handle_suite(void);
void config_suite(void);
void fsdp_suite(void);
void fsdp_phase_suite(void);
void fsdp_error_suite(void);
void schedule_suite(void);
void optim_suite(void);
void ddp_suite(void);
void ddp_gradient_suite(void);
void ddp_error_suite(void);
void failure_suite(void);
void training_suite(void);

/* Initialisers of shapes. */
/* clang-format off */
#define VECTOR(n) {1, (const int64_t[]){n}}
#define MATRIX(rows, columns) {2, (const int64_t[]){rows, columns}}
/* clang-format on */

/* One axis with all ranks. */
ostraka_mesh_t make_mesh(void);

/* A module "model" with the f64 weight "w" (5 elements 0, 1, 2, ...) and the frozen f64 "fixed" (2 x 3), an optimizer
 * of rate 0.5. Sharded, gradients are summed. */
enum { MODEL_SIZE = 5 };
typedef struct {
  ostraka_mesh_t mesh;
  ostraka_fsdp_context_t context;
  ostraka_fsdp_module_t module;
  ostraka_optimizer_t sgd;
  double expected[MODEL_SIZE]; /* of "w" after the steps so far */
} model_t;

model_t make_model(void);
void destroy_model(model_t* model);
void forward(model_t* model);
/* Writes the contribution (rank + 1) * (k + 1) to element k and remembers what that does to the weight. */
void write_gradient(model_t* model);
/* A complete step; afterwards the weights are compared with `expected`. */
void train_step(model_t* model);
/* The effect of one step on `expected`, without running it. */
void expect_step(model_t* model);
void check_weights(model_t* model);

#endif
