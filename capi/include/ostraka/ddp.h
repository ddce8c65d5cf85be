/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallelism with whole weights on every rank: gradients stand in contiguous buffers that are reduced bucket by
 * bucket while the backward pass goes on; optionally the optimizer is sharded over the ranks, and weights are gathered
 * ahead of their use.
 *
 * Set-up:   create; add_parameter ... in the order in which a forward pass uses them; finalize; set_parameter ... (or
 *           set them on rank 0 only, and broadcast_params).
 * A step:   parameter, [arithmetic]; then in reverse order gradient, [arithmetic], gradient_ready; finish_grad_sync;
 *           optimizer step, or an update of the caller's own; zero_grad_buffer. All but the last micro-batch stand
 *           between begin_no_sync and end_no_sync.
 *
 * Full names are "module.parameter"; pre_forward takes "module". All ranks make the calls marked collective in the same
 * order; the others are local, in any order. Precondition errors change nothing. What goes wrong inside a step is told
 * to all ranks by ostraka_ddp_finish_grad_sync. Layouts given by the caller and functions that make weights ready are
 * in C++ only.
 */
#ifndef OSTRAKA_DDP_H
#define OSTRAKA_DDP_H

#include <ostraka/fsdp.h> /* ostraka_memory_report_t */
#include <ostraka/status.h>
#include <ostraka/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OSTRAKA_DDP_CONFIG_VERSION 1

/* Fill it with ostraka_ddp_config_init, then change members. Grows only at the end. */
typedef struct {
  int64_t struct_size; /* bytes of the struct that the caller was compiled with */
  int32_t version;     /* OSTRAKA_DDP_CONFIG_VERSION */
  int32_t scaling; /* of gradients: OSTRAKA_SCALING_MEAN (default), OSTRAKA_SCALING_PRE_SCALE, OSTRAKA_SCALING_SUM */
  int64_t bucket_size; /* elements; a bucket ends with the parameter that reaches it; -1 (default): max(40,000,000,
                        * 1,000,000 x ranks) */
  int32_t num_buckets; /* at most so many in each buffer instead of bucket_size; -1 (default): as bucket_size says */
  int32_t disable_bucketing; /* 1: one bucket per buffer; 0 (default) */
  int32_t sharded_optimizer; /* 1: optimizers keep and update a part on each rank of the innermost axis; 0 (default) */
  int32_t pad_for_bandwidth; /* 1: ends of sharded buckets are multiples of 65536, too; 0 (default) */
  int32_t arrangement;       /* OSTRAKA_ARRANGEMENT_PACKED (default), or, sharded, OSTRAKA_ARRANGEMENT_LAYER_WISE */
  int32_t overlap_grad_reduce;  /* 1 (default): a bucket is reduced as soon as its gradients are ready; 0: there is one
                                 * bucket, reduced in finish_grad_sync, and gradient_ready may be left out */
  int32_t overlap_param_gather; /* 1: sharded weights are gathered ahead of use; 0 (default): within the step */
  int32_t uses;       /* contributions to each gradient in a backward pass: 1 (default), >= 0, or OSTRAKA_USES_AUTO */
  int32_t main_dtype; /* of main weights and optimizer state: F64, F32; -1 (default): F64 for F64, else F32 */
  int32_t gradient_dtype;       /* F64, F32, BF16 (summed in f32, rounded once); -1 (default): F64 for F64, else F32 */
  int32_t num_f32_accumulators; /* 0 (default) */
  int32_t reserved;
  const char* const* f32_accumulators; /* so many patterns of names, with * and ?: BF16 gradients that are accumulated
                                        * in f32 before they are reduced; NULL (default) */
} ostraka_ddp_config_t;

/* Sets the defaults of the version that the caller was compiled with; a newer one than the library's is refused. */
ostraka_status_t ostraka_ddp_config_init_versioned(ostraka_ddp_config_t* config, int64_t struct_size, int32_t version);
static inline ostraka_status_t ostraka_ddp_config_init(ostraka_ddp_config_t* config) {
  return ostraka_ddp_config_init_versioned(config, (int64_t)sizeof(ostraka_ddp_config_t), OSTRAKA_DDP_CONFIG_VERSION);
}

/* --- set-up */

/* Creates one with communicators of its own. Collective over `mesh`. Gradients are reduced over all ranks of `mesh`,
 * those of experts over all ranks of `expert_mesh` (NULL: there are none): some of the ranks of `mesh`, those that have
 * the same experts. `config` NULL = defaults. INVALID_ARGUMENT, TYPE_MISMATCH for a configuration that makes no sense,
 * RANKS_DISAGREE for different ones. */
ostraka_status_t ostraka_ddp_create(ostraka_mesh_t mesh, const ostraka_ddp_config_t* config, ostraka_mesh_t expert_mesh,
                                    ostraka_ddp_t* ddp);

/* Destroys it. Collective over the mesh. Optimizers on it stay valid until they are destroyed, but cannot step. */
ostraka_status_t ostraka_ddp_destroy(ostraka_ddp_t* ddp);

/* Declares a parameter, before finalize, in the order in which a forward pass uses them. Local.
 *   name   distinct and non-empty, "module.parameter"
 *   dtype  storage type of the weights: F64, F32 or BF16
 *   flags  0, or a sum of OSTRAKA_DDP_FROZEN, OSTRAKA_DDP_EXPERT, OSTRAKA_DDP_SHARED_EMBEDDING */
ostraka_status_t ostraka_ddp_add_parameter(ostraka_ddp_t ddp, const char* name, ostraka_shape_t shape, int32_t dtype,
                                           int32_t flags);

/* Ends set-up: lays out and allocates; weights are zero. Collective over the mesh. RANKS_DISAGREE names what differs;
 * OUT_OF_MEMORY on all ranks when one has too little, and finalize may be called again. */
ostraka_status_t ostraka_ddp_finalize(ostraka_ddp_t ddp);

/* --- weights: whole, in the same memory until the ddp is destroyed. On a mesh of GPUs addresses of weights and
 * gradients are the GPU's, for work on its compute stream (device.h): gradients are written there before
 * gradient_ready, and what is read comes behind the call that makes it readable. */

/* Writes the whole tensor from `data` (`count` elements of type `dtype` F64, F32 or BF16, C order). Local; all ranks
 * write the same values, or call broadcast_params: the first finish_grad_sync compares them. INVALID_STATE while the
 * weights are stale or being gathered. */
ostraka_status_t ostraka_ddp_set_parameter(ostraka_ddp_t ddp, const char* name, int32_t dtype, const void* data,
                                           int64_t count);

/* The whole weight. `dtype` is the storage type that the caller expects (TYPE_MISMATCH otherwise). Makes it readable
 * first, as ensure_ready. A caller that updates weights itself (optimizer not sharded, storage type = main type) may
 * write to it, the same on all ranks. Local. INVALID_STATE where it is stale and hooks are disabled. */
ostraka_status_t ostraka_ddp_parameter(ostraka_ddp_t ddp, const char* name, int32_t dtype, void** data, int64_t* count);

/* Number of dimensions and extents of a parameter; `extents` has room for 8, or is NULL. Local, after finalize. */
ostraka_status_t ostraka_ddp_parameter_shape(ostraka_ddp_t ddp, const char* name, int32_t* ndim, int64_t* extents);

/* Copies all weights, frozen ones too, from rank 0 (experts: of their mesh). Collective over the mesh. INVALID_STATE on
 * all ranks while gradients are being reduced on one. */
ostraka_status_t ostraka_ddp_broadcast_params(ostraka_ddp_t ddp);

/* --- gradients */

/* Where the caller writes the whole gradient g = beta * g + contribution: with beta = 0 the memory is undefined, with
 * beta = 1 it holds earlier contributions. `dtype` is the type of the gradient (TYPE_MISMATCH otherwise). To be written
 * before gradient_ready; after finish_grad_sync it holds the reduced gradient where that is whole, until
 * zero_grad_buffer. Local. INVALID_STATE, also told to all ranks by finish_grad_sync, when the bucket is in flight or
 * this is one contribution more than declared. */
ostraka_status_t ostraka_ddp_gradient(ostraka_ddp_t ddp, const char* name, int32_t dtype, void** data, int64_t* count,
                                      double* beta);

/* The type in which the gradient of a parameter is taken. Local. */
ostraka_status_t ostraka_ddp_gradient_dtype(ostraka_ddp_t ddp, const char* name, int32_t* dtype);

/* A contribution is complete. With overlap_grad_reduce and outside no_sync the last one of a bucket starts its
 * reduction. Local: buckets are reduced in one order on all ranks. */
ostraka_status_t ostraka_ddp_gradient_ready(ostraka_ddp_t ddp, const char* name);

/* How often gradients of a parameter are contributed in a backward pass, from the next one on; 0: never, it is zero;
 * OSTRAKA_USES_AUTO: as often as in the next one, whose reductions then start in finish_grad_sync. Local. */
ostraka_status_t ostraka_ddp_set_uses(ostraka_ddp_t ddp, const char* name, int32_t uses);

/* Between these two contributions add up on this rank and nothing is reduced. They nest. Local. */
ostraka_status_t ostraka_ddp_begin_no_sync(ostraka_ddp_t ddp);
ostraka_status_t ostraka_ddp_end_no_sync(ostraka_ddp_t ddp);

/* 1 outside begin_no_sync and end_no_sync, else 0. Local. */
ostraka_status_t ostraka_ddp_is_syncing(ostraka_ddp_t ddp, int32_t* is_syncing);

/* Starts the reductions that have not started, and waits for them unless overlap_grad_reduce. Collective. */
ostraka_status_t ostraka_ddp_start_grad_sync(ostraka_ddp_t ddp);

/* Ends the backward pass of a step: starts what has not started, waits and agrees on the status. When a rank failed, or
 * has a parameter without all its contributions, all ranks return that error, which names the parameters, and gradients
 * count as zero. The first one compares weights (RANKS_DISAGREE names them). `force_all_reduce` 1: whole gradients in
 * the memory of ostraka_ddp_gradient on every rank with a sharded optimizer, too. Does nothing when everything is
 * reduced. Collective over the mesh. */
ostraka_status_t ostraka_ddp_finish_grad_sync(ostraka_ddp_t ddp, int32_t force_all_reduce);

/* This rank cannot go on with the present step: finish_grad_sync tells the others. Local. */
ostraka_status_t ostraka_ddp_fail_step(ostraka_ddp_t ddp, const char* message);

/* Gradients count as zero and contributions start anew; no memory is touched. Local. The optimizer step does not do it.
 * INVALID_STATE while gradients are being reduced. */
ostraka_status_t ostraka_ddp_zero_grad_buffer(ostraka_ddp_t ddp);

/* Multiplies all gradients, reduced or not, by a finite number. Local. INVALID_STATE while they are being reduced. */
ostraka_status_t ostraka_ddp_scale_gradients(ostraka_ddp_t ddp, double factor);

/* This rank's elements of the reduced gradient (all of it, or with a sharded optimizer a part): address, count, offset
 * inside the tensor. `dtype` is the main type (TYPE_MISMATCH otherwise). Valid until zero_grad_buffer. Local.
 * INVALID_STATE unless finish_grad_sync has completed it. */
ostraka_status_t ostraka_ddp_main_gradient(ostraka_ddp_t ddp, const char* name, int32_t dtype, const void** data,
                                           int64_t* count, int64_t* offset);

/* Gives the memory of all gradients back; restore takes it again, with gradients of zero. Collective over the mesh.
 * INVALID_STATE while gradients are being reduced, and, until they are restored, for what needs gradients. */
ostraka_status_t ostraka_ddp_offload_grad_buffers(ostraka_ddp_t ddp);
ostraka_status_t ostraka_ddp_restore_grad_buffers(ostraka_ddp_t ddp);

/* --- gathers of weights, with a sharded optimizer */

/* Starts the gathers that weights need after a step of the optimizer; waits for them with `force_sync` 1 or without
 * overlap_param_gather. `force_dispatch` 1: also of weights that are whole. Collective over the mesh. */
ostraka_status_t ostraka_ddp_start_param_sync(ostraka_ddp_t ddp, int32_t force_sync, int32_t force_dispatch);

/* Before the module "a.b" runs: waits for the weights of its own parameters ("a.b.weight", not "a.b.c.weight") and
 * starts the next gather. Local. Does nothing while hooks are disabled, as without overlap_param_gather.
 * INVALID_ARGUMENT for a module without parameters. */
ostraka_status_t ostraka_ddp_pre_forward(ostraka_ddp_t ddp, const char* module);

/* Local; disable with `param_sync` 1 also brings all weights up to date and is collective. INVALID_STATE when that is
 * so already. */
ostraka_status_t ostraka_ddp_enable_forward_pre_hook(ostraka_ddp_t ddp);
ostraka_status_t ostraka_ddp_disable_forward_pre_hook(ostraka_ddp_t ddp, int32_t param_sync);

/* 1 while hooks are enabled, else 0. Local. */
ostraka_status_t ostraka_ddp_has_forward_pre_hook(ostraka_ddp_t ddp, int32_t* has_hook);

/* Makes a weight readable: waits for its gather, or starts it unless hooks are disabled. Local. For readers that come
 * before pre_forward. */
ostraka_status_t ostraka_ddp_ensure_ready(ostraka_ddp_t ddp, const char* name);

/* Weights count as not gathered, as after a step. Local, the same on all ranks. INVALID_STATE while they are being
 * gathered. */
ostraka_status_t ostraka_ddp_reset_param_sync_dispatch_state(ostraka_ddp_t ddp);

/* Waits for gathers and gives back memory that they used. Local. */
ostraka_status_t ostraka_ddp_free_overlap_buffers(ostraka_ddp_t ddp);

/* --- */

/* Fills a report prepared by ostraka_memory_report_init; num_elements counts the parameters of this rank, transient and
 * transient_peak are 0. Local. */
ostraka_status_t ostraka_ddp_memory(ostraka_ddp_t ddp, ostraka_memory_report_t* report);

#ifdef __cplusplus
}
#endif

#endif
