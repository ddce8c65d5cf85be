/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers on the local shards of a finalised context, or on the weights of a finalised ddp. State has the type of
 * the main weights and their layout.
 */
#ifndef OSTRAKA_OPTIM_H
#define OSTRAKA_OPTIM_H

#include <ostraka/status.h>
#include <ostraka/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OSTRAKA_ADAMW_CONFIG_VERSION 1

/* w -= rate * weight_decay * w;  w -= rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) */
typedef struct {
  int64_t struct_size;
  int32_t version;
  int32_t reserved;
  double learning_rate; /* 1e-3 */
  double beta1;         /* 0.9 */
  double beta2;         /* 0.999 */
  double epsilon;       /* 1e-8 */
  double weight_decay;  /* 1e-2, decoupled */
} ostraka_adamw_config_t;

#define OSTRAKA_SGD_CONFIG_VERSION 1

/* d = g + weight_decay * w;  with momentum: b = momentum * b + d, d = b;  w -= rate * d */
typedef struct {
  int64_t struct_size;
  int32_t version;
  int32_t reserved;
  double learning_rate; /* 1e-3 */
  double momentum;      /* 0 */
  double weight_decay;  /* 0 */
} ostraka_sgd_config_t;

/* Sets the defaults of the version that the caller was compiled with; a newer one than the library's is refused. */
ostraka_status_t ostraka_adamw_config_init_versioned(ostraka_adamw_config_t* config, int64_t struct_size,
                                                     int32_t version);
static inline ostraka_status_t ostraka_adamw_config_init(ostraka_adamw_config_t* config) {
  return ostraka_adamw_config_init_versioned(config, (int64_t)sizeof(ostraka_adamw_config_t),
                                             OSTRAKA_ADAMW_CONFIG_VERSION);
}
/* Sets the defaults of the version that the caller was compiled with; a newer one than the library's is refused. */
ostraka_status_t ostraka_sgd_config_init_versioned(ostraka_sgd_config_t* config, int64_t struct_size, int32_t version);
static inline ostraka_status_t ostraka_sgd_config_init(ostraka_sgd_config_t* config) {
  return ostraka_sgd_config_init_versioned(config, (int64_t)sizeof(ostraka_sgd_config_t), OSTRAKA_SGD_CONFIG_VERSION);
}

/* Creates an optimizer for all trainable parameters of a finalised context; `config` NULL = defaults. Local; state is
 * allocated at the first step. The optimizer keeps the context's parameters alive. */
ostraka_status_t ostraka_adamw_create(ostraka_fsdp_context_t context, const ostraka_adamw_config_t* config,
                                      ostraka_optimizer_t* optimizer);
ostraka_status_t ostraka_sgd_create(ostraka_fsdp_context_t context, const ostraka_sgd_config_t* config,
                                    ostraka_optimizer_t* optimizer);

/* The same for all trainable parameters of a finalised ddp: whole on every rank, or this rank's part with
 * sharded_optimizer. For finish_backward below read finish_grad_sync, for zero_grad zero_grad_buffer; NOT_SUPPORTED:
 * fuse_with_reduction. */
ostraka_status_t ostraka_adamw_create_ddp(ostraka_ddp_t ddp, const ostraka_adamw_config_t* config,
                                          ostraka_optimizer_t* optimizer);
ostraka_status_t ostraka_sgd_create_ddp(ostraka_ddp_t ddp, const ostraka_sgd_config_t* config,
                                        ostraka_optimizer_t* optimizer);

/* Updates the main weights from the main gradients and the model weights with them, once per call. Gradients stay until
 * zero_grad. Collective over the mesh. INVALID_STATE naming the parameter when a gradient is missing or a backward pass
 * is unfinished, and when no gradient is newer than the last step of this optimizer; in the first step RANKS_DISAGREE
 * when ranks have different hyperparameters, and OUT_OF_MEMORY on all ranks when one has no room for the optimizer's
 * state. */
ostraka_status_t ostraka_optimizer_step(ostraka_optimizer_t optimizer);

/* From now on weights are updated while the gradients of the last micro-batch are reduced, and a step only completes
 * that: hyperparameters are set before the backward pass. Where a module's gradient came in several micro-batches, in
 * another type than its main weights or with a divisor, the step does it all as before. Between the backward pass and
 * the step weights cannot be used, and main gradients are gone, norms and clipping with them. A failure in the last
 * micro-batch of a step ends the context, since weights are then between two steps. Collective over the mesh, as the
 * first step. INVALID_STATE where another optimizer does this already. */
ostraka_status_t ostraka_optimizer_fuse_with_reduction(ostraka_optimizer_t optimizer);

/* For the steps to come; finite and >= 0. Local, the same on all ranks. */
ostraka_status_t ostraka_optimizer_set_learning_rate(ostraka_optimizer_t optimizer, double learning_rate);

/* The number of steps so far, which AdamW's corrections depend on; set it (>= 0) where a run is continued. Local. */
ostraka_status_t ostraka_optimizer_steps(ostraka_optimizer_t optimizer, int64_t* steps);
ostraka_status_t ostraka_optimizer_set_steps(ostraka_optimizer_t optimizer, int64_t steps);

/* --- groups of parameters */

#define OSTRAKA_GROUP_OPTIONS_VERSION 1

/* What is different for a group of parameters; -1: as before. */
typedef struct {
  int64_t struct_size;
  int32_t version;
  int32_t max_dims;            /* -1; else only parameters with at most so many dimensions are in the group */
  double learning_rate_factor; /* -1; times the learning rate of the optimizer; >= 0 */
  double weight_decay;         /* -1; >= 0 */
} ostraka_group_options_t;

/* Sets all to -1, for the version that the caller was compiled with; a newer one than the library's is refused. */
ostraka_status_t ostraka_group_options_init_versioned(ostraka_group_options_t* options, int64_t struct_size,
                                                      int32_t version);
static inline ostraka_status_t ostraka_group_options_init(ostraka_group_options_t* options) {
  return ostraka_group_options_init_versioned(options, (int64_t)sizeof(ostraka_group_options_t),
                                              OSTRAKA_GROUP_OPTIONS_VERSION);
}

/* From the next step on `options` hold for the trainable parameters "module.parameter" that are called `pattern`, in
 * which * stands for any characters and ? for one: "*" with max_dims = 1 and weight_decay = 0 is no decay of biases.
 * Later calls win. Local, the same on all ranks. INVALID_ARGUMENT for options out of range and for a pattern that fits
 * nothing, naming what there is. */
ostraka_status_t ostraka_optimizer_set_group(ostraka_optimizer_t optimizer, const char* pattern,
                                             const ostraka_group_options_t* options);

/* --- gradients
 *
 * All gradients of the optimizer's parameters as one vector, between finish_backward and step; INVALID_STATE naming a
 * parameter whose gradient is not complete. Elements that several ranks hold count once. */

#define OSTRAKA_NORM_L1 1  /* sum |g| */
#define OSTRAKA_NORM_L2 2  /* sqrt(sum g^2) */
#define OSTRAKA_NORM_MAX 3 /* max |g| */

/* The norm, bitwise equal on all ranks, summed in f64 without overflow or underflow of squares: NaN or infinite when an
 * element is. Collective over the mesh. */
ostraka_status_t ostraka_optimizer_gradient_norm(ostraka_optimizer_t optimizer, int32_t norm, double* result);

/* Multiplies the gradients by max_norm / (l2 norm + 1e-6) when the l2 norm is larger than `max_norm` >= 0. `norm`,
 * which may be NULL, is the norm of before. Collective over the mesh. INVALID_STATE on all ranks naming the first
 * parameter that is not finite, with all gradients as they were. */
ostraka_status_t ostraka_optimizer_clip_gradients(ostraka_optimizer_t optimizer, double max_norm, double* norm);

/* Multiplies the gradients by a finite number. Local, the same on all ranks. */
ostraka_status_t ostraka_optimizer_scale_gradients(ostraka_optimizer_t optimizer, double factor);

/* INVALID_STATE on all ranks when a gradient is NaN or infinite, naming the first such parameter, the index in it (C
 * order, from 0) and the rank. Collective over the mesh. */
ostraka_status_t ostraka_optimizer_check_finite(ostraka_optimizer_t optimizer);

/* The same as a question: 1 when all gradients are finite, else 0. Collective over the mesh. */
ostraka_status_t ostraka_optimizer_is_finite(ostraka_optimizer_t optimizer, int32_t* is_finite);

/* Destroys the handle and makes it NULL; a null one is no error. Its state is freed; weights stay as they are. Local. */
ostraka_status_t ostraka_optimizer_destroy(ostraka_optimizer_t* optimizer);

#ifdef __cplusplus
}
#endif

#endif
