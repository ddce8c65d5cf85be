/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers on the local shards of a finalised context. State has the type of the main weights and their layout.
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

/* Updates the main weights from the main gradients and refreshes the model weights, once per call. Gradients stay until
 * zero_grad. Collective over the mesh. INVALID_STATE naming the parameter when a gradient is missing or a backward pass
 * is unfinished; in the first step OUT_OF_MEMORY on all ranks when one has no room for the optimizer's state. */
ostraka_status_t ostraka_optimizer_step(ostraka_optimizer_t optimizer);

ostraka_status_t ostraka_optimizer_set_learning_rate(ostraka_optimizer_t optimizer, double learning_rate);

ostraka_status_t ostraka_optimizer_destroy(ostraka_optimizer_t* optimizer);

#ifdef __cplusplus
}
#endif

#endif
