/* SPDX-License-Identifier: Apache-2.0
 *
 * Fully sharded data parallelism, stepped by the caller: say "this module is about to run / has finished", and the
 * library gathers weights ahead of use, reduces gradients behind it and keeps only shards in between.
 *
 * Set-up:   create a context; for each module: add, add_parameter ..., build, set_parameter ...; finalize the context.
 * A step:   for each module pre_forward, parameter, [arithmetic], post_forward; then in reverse order
 *           pre_backward, parameter / gradient, [arithmetic], post_backward; then finish_backward: a micro-batch. After
 *           the last one of the step: optimizer step, zero_grad.
 *
 * Modules may stand inside modules: the hooks of the outer one go around those of the inner ones. Full names, as in
 * messages, are "outer.inner"; hooks of a module without parameters may be left out, and so may its build.
 *
 * All ranks of the mesh call hooks in the same order: finish_backward finds and names differences. Hooks return before
 * communication is complete; pre_* wait for what their module needs. Precondition errors change nothing. A failure
 * inside a step on one rank is reported with ostraka_fsdp_context_fail_step; every rank then gets it from
 * ostraka_fsdp_context_finish_backward.
 */
#ifndef OSTRAKA_FSDP_H
#define OSTRAKA_FSDP_H

#include <ostraka/status.h>
#include <ostraka/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OSTRAKA_FSDP_CONFIG_VERSION 4

/* Fill it with ostraka_fsdp_config_init, then change members. Grows only at the end. */
typedef struct {
  int64_t struct_size;    /* bytes of the struct that the caller was compiled with */
  int32_t version;        /* OSTRAKA_FSDP_CONFIG_VERSION */
  int32_t recipe;         /* OSTRAKA_ZERO_3 (default), OSTRAKA_NO_SHARD, ... */
  int32_t reduction;      /* of gradients over ranks: OSTRAKA_MEAN (default) or OSTRAKA_SUM */
  int32_t gradient_slots; /* reductions in flight before a producer waits; >= 1, default 2 */
  int32_t broadcast;      /* 1: finalize copies replicated weights from rank 0; 0 (default): it compares */
  int32_t main_dtype;     /* of main weights, gradients and optimizer state; -1 (default): f64 for f64, else f32 */
  /* Since version 2. */
  int32_t compute_dtype; /* F64, F32 or BF16, of the weights handed out; -1 (default): F64 for F64, else F32 */
  int32_t reserved;
  /* Since version 3. Placements chosen by hand instead of `recipe`: lists with one entry per mesh axis, all three or
   * none (NULL, the default). Shard axes are a suffix of each; weights and optimizer state are not PARTIAL; PARTIAL
   * gradients wait for `reduction`; an axis that shards weights or gradients shards optimizer state. */
  const ostraka_placement_t* parameter_placements;
  const ostraka_placement_t* gradient_placements; /* while micro-batches add up */
  const ostraka_placement_t* optimizer_placements;
  int32_t reduction_dtype; /* F64, F32 or BF16, in which gradients are taken; -1 (default): F64 for F64, else F32 */
  int32_t unified_stream;  /* 1: gathers and reductions take turns in one queue, less memory at a time; 0 (default) */
  int64_t prefetch;        /* elements of weights gathered ahead: -1 (default): one module; 0: none; else whole modules
                            * until so many are reached */
  /* Since version 4. What the gradient slots of all ranks of a node may hold together, in bytes: there are fewer than
   * `gradient_slots`, but one, where so many are larger. -1 (default): the last-level caches of the machine where all
   * ranks share one node, else no bound. */
  int64_t gradient_slot_bytes;
} ostraka_fsdp_config_t;

/* Sets the defaults of the version that the caller was compiled with; a newer one than the library's is refused. */
ostraka_status_t ostraka_fsdp_config_init_versioned(ostraka_fsdp_config_t* config, int64_t struct_size,
                                                    int32_t version);
static inline ostraka_status_t ostraka_fsdp_config_init(ostraka_fsdp_config_t* config) {
  return ostraka_fsdp_config_init_versioned(config, (int64_t)sizeof(ostraka_fsdp_config_t),
                                            OSTRAKA_FSDP_CONFIG_VERSION);
}

/* Creates a context on `mesh` with communicators of its own. Collective over the mesh. `config` NULL = defaults.
 * RANKS_DISAGREE when the configurations differ. */
ostraka_status_t ostraka_fsdp_context_create(ostraka_mesh_t mesh, const ostraka_fsdp_config_t* config,
                                             ostraka_fsdp_context_t* context);

/* Destroys the context and the handles of its modules. Collective over the mesh. Optimizers on it stay valid until they
 * are destroyed, but cannot step. */
ostraka_status_t ostraka_fsdp_context_destroy(ostraka_fsdp_context_t* context);

/* Adds a module to an unfinalised context. Local. `name` is distinct and non-empty. */
ostraka_status_t ostraka_fsdp_context_add_module(ostraka_fsdp_context_t context, const char* name,
                                                 ostraka_fsdp_module_t* module);

/* Adds a module inside `parent`. Local. Names are distinct among siblings. The first step is expected to run modules as
 * they were added, an outer one around its inner ones. The handle dies with the context. */
ostraka_status_t ostraka_fsdp_module_add_module(ostraka_fsdp_module_t parent, const char* name,
                                                ostraka_fsdp_module_t* module);

/* Completes set-up: checks that all ranks built the same modules, compares (or broadcasts) replicated weights and fixes
 * the first prefetch order. Collective over the mesh. RANKS_DISAGREE names what differs. */
ostraka_status_t ostraka_fsdp_context_finalize(ostraka_fsdp_context_t context);

/* Declares a parameter of a module that is not built yet. Local.
 *   dtype      storage type of the model weights: F64, F32 or BF16. Weights are handed out in f64 or f32 (for BF16 in
 *              f32), gradients are taken in the same type.
 *   trainable  0: frozen, has no gradient */
ostraka_status_t ostraka_fsdp_module_add_parameter(ostraka_fsdp_module_t module, const char* name,
                                                   ostraka_shape_t shape, int32_t dtype, int32_t trainable);

/* Types of this module's parameters instead of those of the context's configuration; -1: as that says. Local, before
 * build, the same on all ranks. TYPE_MISMATCH for a type that is not possible. */
ostraka_status_t ostraka_fsdp_module_set_precision(ostraka_fsdp_module_t module, int32_t main_dtype,
                                                   int32_t compute_dtype, int32_t reduction_dtype);

/* Makes `name` another name of the parameter `existing` of this module, which is not built yet: one weight, to whose
 * one gradient all uses contribute. Local. INVALID_ARGUMENT when another module owns `existing`. */
ostraka_status_t ostraka_fsdp_module_tie_parameter(ostraka_fsdp_module_t module, const char* name,
                                                   const char* existing);

/* Settings of a module, until finalize, equal on all ranks. Local.
 *   allow_unused      1: gradients that nobody writes count as zero, and all ranks alike may leave the module out of
 *                     micro-batches; 0 (default): finish_backward reports it
 *   prefetch          as in ostraka_fsdp_config_t, which is the default
 *   gradient_divisor  > 0, default 1: each contribution to the gradient is divided by it behind the reduction */
ostraka_status_t ostraka_fsdp_module_set_allow_unused(ostraka_fsdp_module_t module, int32_t allow);
ostraka_status_t ostraka_fsdp_module_set_prefetch(ostraka_fsdp_module_t module, int64_t elements);
ostraka_status_t ostraka_fsdp_module_set_gradient_divisor(ostraka_fsdp_module_t module, double divisor);

/* Lays out and allocates the module's parameters (zero). Collective over the mesh. OUT_OF_MEMORY on all ranks when one
 * has too little; then the module has no parameters: add smaller ones, or the same when there is room, and build again.
 */
ostraka_status_t ostraka_fsdp_module_build(ostraka_fsdp_module_t module);

/* Copies this rank's part of the whole tensor `data` (`count` elements of type `dtype` F64, F32 or BF16, C order).
 * Every rank passes the same values. Local before finalize; between steps all ranks call it in the same order, and it
 * may wait until the others have let the weights go. INVALID_STATE while the module's weights are in use. */
ostraka_status_t ostraka_fsdp_module_set_parameter(ostraka_fsdp_module_t module, const char* name, int32_t dtype,
                                                   const void* data, int64_t count);

/* The same from the `data` of rank `root` of the mesh; other ranks pass the same `dtype` and `count`, and NULL.
 * Collective over the mesh. */
ostraka_status_t ostraka_fsdp_module_set_from_root(ostraka_fsdp_module_t module, const char* name, int32_t dtype,
                                                   const void* data, int64_t count, int32_t root);

/* Writes elements first ... first + count - 1 (C order) of a parameter to `out`, which is of type `dtype` (the main
 * type, F64 or F32). Returns OSTRAKA_OK or any other number, which becomes USER_FAILURE. */
typedef int32_t (*ostraka_fill_t)(void* user, int64_t first, int64_t count, void* out, int32_t dtype);

/* Fills a parameter where it is kept: `fill` is called once for what this rank keeps, if anything; with the setting
 * `broadcast` rank 0 may be asked for the whole tensor, too. Otherwise as set_parameter. */
ostraka_status_t ostraka_fsdp_module_initialise(ostraka_fsdp_module_t module, const char* name, ostraka_fill_t fill,
                                                void* user);

/* The hooks. Recomputation: once a backward pass has begun, forward hooks of a module that is still to go backward make
 * its weights readable again; they stay until post_backward. Collective over the mesh, asynchronous: see above.
 * INVALID_STATE in the wrong phase, and from pre_backward when another contribution would be lost: where gradients are
 * reduced further after the last micro-batch (all recipes but ZERO_2 and ZERO_3), zero_grad comes before the next step.
 */
ostraka_status_t ostraka_fsdp_module_pre_forward(ostraka_fsdp_module_t module);
ostraka_status_t ostraka_fsdp_module_post_forward(ostraka_fsdp_module_t module);
ostraka_status_t ostraka_fsdp_module_pre_backward(ostraka_fsdp_module_t module);
ostraka_status_t ostraka_fsdp_module_post_backward(ostraka_fsdp_module_t module);

/* Stand for both hooks of a use that this rank does not compute: it takes part in what the others communicate, with
 * zero gradients. */
ostraka_status_t ostraka_fsdp_module_skip_forward(ostraka_fsdp_module_t module);
ostraka_status_t ostraka_fsdp_module_skip_backward(ostraka_fsdp_module_t module);

/* The whole weight, read-only, between pre_* and post_*. `dtype` is the type that the caller expects (TYPE_MISMATCH
 * otherwise); `data` is valid until the matching post_*. Local. */
ostraka_status_t ostraka_fsdp_module_parameter(ostraka_fsdp_module_t module, const char* name, int32_t dtype,
                                               const void** data, int64_t* count);

/* Where the caller writes the whole gradient g = beta * g + contribution, between pre_backward and post_backward: with
 * beta = 0 the memory is undefined, with beta = 1 it holds earlier contributions. Valid until post_backward. Local. */
ostraka_status_t ostraka_fsdp_module_gradient(ostraka_fsdp_module_t module, const char* name, int32_t dtype,
                                              void** data, int64_t* count, double* beta);

/* Number of dimensions and extents of a parameter; `extents` has room for 8, or is NULL. Local. */
ostraka_status_t ostraka_fsdp_module_parameter_shape(ostraka_fsdp_module_t module, const char* name, int32_t* ndim,
                                                     int64_t* extents);

/* This rank's part of the reduced gradient of a parameter (all of it with NO_SHARD, unless ranks share memory):
 * address, count, offset inside the tensor. `dtype` is the main type that the caller expects (TYPE_MISMATCH otherwise).
 * Valid until the next pre_backward or zero_grad. INVALID_STATE when there is none. Local. */
ostraka_status_t ostraka_fsdp_module_main_gradient(ostraka_fsdp_module_t module, const char* name, int32_t dtype,
                                                   const void** data, int64_t* count, int64_t* offset);

/* For schedules of the caller's own: gathers the weights now and keeps them until reshard; between the two gradients
 * may be written, too, and reduce_gradients starts their reduction before reshard. unshard_ahead also starts gathering
 * what comes behind the module in the order of a pass (OSTRAKA_AHEAD_...). finish_backward ends it.
 * Collective. */
ostraka_status_t ostraka_fsdp_module_unshard(ostraka_fsdp_module_t module);
ostraka_status_t ostraka_fsdp_module_unshard_ahead(ostraka_fsdp_module_t module, int32_t ahead);
ostraka_status_t ostraka_fsdp_module_reduce_gradients(ostraka_fsdp_module_t module);
ostraka_status_t ostraka_fsdp_module_reshard(ostraka_fsdp_module_t module);

/* Says that the forward pass of this micro-batch is over: forward hooks are recomputations from here. The first
 * pre_backward or skip_backward says so, too. Local. */
ostraka_status_t ostraka_fsdp_context_begin_backward(ostraka_fsdp_context_t context);

/* Ends the backward pass of a micro-batch: waits for all reductions and agrees on the status. When a rank failed, all
 * ranks return its status and message, and all gradients since the last zero_grad are dropped. RANKS_DISAGREE when
 * ranks ran modules in different orders: the context can then only be destroyed. Collective over the mesh. */
ostraka_status_t ostraka_fsdp_context_finish_backward(ostraka_fsdp_context_t context);

/* Stands for all hooks and finish_backward of a micro-batch that this rank does not have: takes part in what the others
 * communicate, as the order of the last step, or of add_module, tells, with zero gradients. INVALID_STATE when hooks of
 * this micro-batch have run. Collective over the mesh with the hooks of the others. */
ostraka_status_t ostraka_fsdp_context_skip_microbatch(ostraka_fsdp_context_t context);

/* Says that this rank cannot go on with the present step. The rank skips its remaining hooks and calls finish_backward,
 * which takes part in what the other ranks still do. Local. */
ostraka_status_t ostraka_fsdp_context_fail_step(ostraka_fsdp_context_t context, const char* message);

/* 0: more micro-batches follow, NO_SHARD gradients stay local; 1 (default): the next backward pass is the last of the
 * step. Gradients of micro-batches add up. Local, equal on all ranks. */
ostraka_status_t ostraka_fsdp_context_set_last_microbatch(ostraka_fsdp_context_t context, int32_t is_last);

/* Forgets all gradients: the next backward pass starts from zero. Local; the optimizer step does not do it: without it
 * the next contributions are added to those that the step used. After an update that ran with reductions all ranks call
 * it in the same order. */
ostraka_status_t ostraka_fsdp_context_zero_grad(ostraka_fsdp_context_t context);

/* Between these two, weights are whole on every rank, hooks are local and every rank runs as many forward passes as it
 * likes. Collective over the mesh. */
ostraka_status_t ostraka_fsdp_context_begin_inference(ostraka_fsdp_context_t context);
ostraka_status_t ostraka_fsdp_context_end_inference(ostraka_fsdp_context_t context);

#define OSTRAKA_MEMORY_REPORT_VERSION 2

/* Bytes on this rank; of memory that the ranks of a node share a rank counts its own part, so that sums over ranks
 * count everything once. Grows only at the end. */
typedef struct {
  int64_t struct_size;
  int32_t version;
  int32_t reserved;
  int64_t parameters;      /* weights at rest, main weights included */
  int64_t gradients;       /* main gradients */
  int64_t optimizer_state; /* moments */
  int64_t transient;       /* gathered weights and gradient slots now */
  int64_t transient_peak;  /* the largest value of that so far */
  int64_t num_elements;    /* elements of all parameters of the model, over all ranks, without padding */
  int64_t reserved_bytes;  /* version 2: taken from the system for all of this */
} ostraka_memory_report_t;

/* Prepares a report struct: size, version, zeros. */
ostraka_status_t ostraka_memory_report_init_versioned(ostraka_memory_report_t* report, int64_t struct_size,
                                                      int32_t version);
static inline ostraka_status_t ostraka_memory_report_init(ostraka_memory_report_t* report) {
  return ostraka_memory_report_init_versioned(report, (int64_t)sizeof(ostraka_memory_report_t),
                                              OSTRAKA_MEMORY_REPORT_VERSION);
}

/* Fills a report prepared by ostraka_memory_report_init. Local. */
ostraka_status_t ostraka_fsdp_context_memory(ostraka_fsdp_context_t context, ostraka_memory_report_t* report);

/* The same, summed over the ranks on this rank's node (transient_peak too, though peaks may be at different times);
 * num_elements stays that of the model. Collective over the mesh. */
ostraka_status_t ostraka_fsdp_context_node_memory(ostraka_fsdp_context_t context, ostraka_memory_report_t* report);

#ifdef __cplusplus
}
#endif

#endif
