/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers and small structs shared by all parts of the C interface. Counts and offsets are int64_t in elements unless
 * the name says bytes; ranks, axes and dimensions are int32_t. Shapes are in C order (last dimension contiguous).
 */
#ifndef OSTRAKA_TYPES_H
#define OSTRAKA_TYPES_H

#include <stdint.h>

/* Element types. C and Fortran have no bf16: raw access to it is uint16_t. */
#define OSTRAKA_F64 0
#define OSTRAKA_F32 1
#define OSTRAKA_BF16 2
#define OSTRAKA_F16 3
#define OSTRAKA_I64 4
#define OSTRAKA_I32 5
#define OSTRAKA_U8 6

/* Kinds of placement on one mesh axis. */
#define OSTRAKA_REPLICATE 0 /* the whole range, equal on all ranks of the axis */
#define OSTRAKA_SHARD 1     /* a contiguous part of the range */
#define OSTRAKA_PARTIAL 2   /* the whole range, still to be reduced over the axis */

/* Reductions. MEAN is the sum divided by the number of ranks; floating types only. */
#define OSTRAKA_SUM 0
#define OSTRAKA_MEAN 1
#define OSTRAKA_MAX 2
#define OSTRAKA_MIN 3
#define OSTRAKA_PROD 4

/* Layout policies. */
#define OSTRAKA_REFERENCE 0 /* dim-0 rows or blocks of them stay whole; padded by the rule of the reference system */
#define OSTRAKA_PLANNED 1   /* equal segments of the least length found; order and places are chosen */
#define OSTRAKA_RAGGED 2    /* no padding, unequal segments, the largest one minimal */
#define OSTRAKA_FLAT 3      /* planned with element atoms */
#define OSTRAKA_TENSOR_ATOMIC 4 /* every tensor whole on one rank */
#define OSTRAKA_AUTOMATIC 5     /* planned or ragged: planned when it pads at most 3 % */

/* Atoms: what no cut of a tensor may split. */
#define OSTRAKA_ATOM_ELEMENT 0
#define OSTRAKA_ATOM_LAST_DIMS 1 /* a row of the last `count` dimensions; the first one can always be cut */
#define OSTRAKA_ATOM_ROW 2       /* a dim-0 row */
#define OSTRAKA_ATOM_BLOCK 3     /* `count` consecutive dim-0 rows */
#define OSTRAKA_ATOM_TENSOR 4    /* the whole tensor */

/* An atom; `count` matters for LAST_DIMS and BLOCK only. */
typedef struct {
  int32_t kind;
  int32_t count;
} ostraka_atom_t;

/* What ostraka_fsdp_module_unshard_ahead gathers ahead. */
#define OSTRAKA_AHEAD_NONE 0
#define OSTRAKA_AHEAD_FORWARD 1
#define OSTRAKA_AHEAD_BACKWARD 2

/* Recipes of fully sharded data parallelism. */
#define OSTRAKA_NO_SHARD 0 /* weights, gradients and optimizer state whole on every rank; gradients all-reduced */
#define OSTRAKA_ZERO_1 1   /* main weights and optimizer state sharded over all axes of the mesh */
#define OSTRAKA_ZERO_2 2   /* and gradients */
#define OSTRAKA_ZERO_3 3   /* and weights */
/* On meshes of two or more axes, whose innermost axis shards: */
#define OSTRAKA_HSDP 4          /* weights, gradients and optimizer state sharded over the innermost axis only */
#define OSTRAKA_HFSDP 5         /* as HSDP, main weights and optimizer state sharded over all axes */
#define OSTRAKA_ZERO_1_ZERO_2 6 /* weights whole; main weights and state sharded over all axes, gradients over one */

/* What a gradient that a ddp reduced is; n is the number of ranks. */
#define OSTRAKA_SCALING_MEAN 0      /* the sum over the ranks divided by n */
#define OSTRAKA_SCALING_PRE_SCALE 1 /* the sum of what the ranks divided by n before: 16-bit sums cannot overflow */
#define OSTRAKA_SCALING_SUM 2 /* the sum: the caller divides, by the number of samples of all ranks for instance */

/* How a ddp arranges parameters in buffers. */
#define OSTRAKA_ARRANGEMENT_PACKED 0     /* one behind the other in reverse order; shards cut them anywhere */
#define OSTRAKA_ARRANGEMENT_LAYER_WISE 1 /* every parameter whole in one shard */

/* Flags of a parameter of a ddp. */
#define OSTRAKA_DDP_FROZEN 1           /* has no gradient */
#define OSTRAKA_DDP_EXPERT 2           /* its gradient is reduced over the ranks of the expert mesh */
#define OSTRAKA_DDP_SHARED_EMBEDDING 4 /* has a bucket of its own where the optimizer is sharded */

/* A ddp counts the contributions to gradients in one backward pass and expects as many in those that follow. */
#define OSTRAKA_USES_AUTO (-1)

/* Kinds of memory; a context reports its own by the members of ostraka_memory_report_t with these names. */
#define OSTRAKA_MEMORY_OTHER 0
#define OSTRAKA_MEMORY_PARAMETERS 1
#define OSTRAKA_MEMORY_GRADIENTS 2
#define OSTRAKA_MEMORY_OPTIMIZER_STATE 3
#define OSTRAKA_MEMORY_TRANSIENT 4

/* Where memory lies. */
#define OSTRAKA_DEVICE_HOST 0
#define OSTRAKA_DEVICE_CUDA 1

/* One placement; lists of placements have one entry per mesh axis, outer to inner. `op` matters for PARTIAL only. */
typedef struct {
  int32_t kind;
  int32_t op;
} ostraka_placement_t;

/* A shape of `ndim` extents, at most 8; ndim 0 is a scalar (extents may then be NULL). */
typedef struct {
  int32_t ndim;
  const int64_t* extents;
} ostraka_shape_t;

/* Opaque handles. Destroy functions take the handle's address and set it to NULL; destroying NULL succeeds. A handle
 * that was destroyed is recognised and refused with INVALID_HANDLE. */
typedef struct ostraka_mesh* ostraka_mesh_t;
typedef struct ostraka_layout* ostraka_layout_t;
typedef struct ostraka_buffer* ostraka_buffer_t;
typedef struct ostraka_flat_buffer* ostraka_flat_buffer_t;
typedef struct ostraka_fsdp_context* ostraka_fsdp_context_t;
typedef struct ostraka_fsdp_module* ostraka_fsdp_module_t;
typedef struct ostraka_ddp* ostraka_ddp_t;
typedef struct ostraka_optimizer* ostraka_optimizer_t;
typedef struct ostraka_extras* ostraka_extras_t;
typedef struct ostraka_async_save* ostraka_async_save_t;
typedef struct ostraka_chunks* ostraka_chunks_t;
typedef struct ostraka_plan* ostraka_plan_t;

#endif
