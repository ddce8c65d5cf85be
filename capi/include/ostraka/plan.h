/* SPDX-License-Identifier: Apache-2.0
 *
 * Dry runs: what a context would hold, send and take for a step, asked before anything is allocated. Everything here is
 * local, and needs neither MPI nor ostraka_initialize: a login node will do. Bytes are those that
 * ostraka_fsdp_context_memory would say, since both follow from the same rules.
 *
 * Create a plan from a mesh and the configuration that the context would get; add units and their parameters; compute;
 * ask. What is added afterwards counts from the next compute on. Seconds are worth what the model of the machine is.
 */
#ifndef OSTRAKA_PLAN_H
#define OSTRAKA_PLAN_H

#include <ostraka/fsdp.h>
#include <ostraka/status.h>
#include <ostraka/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What carries collectives. */
#define OSTRAKA_BACKEND_MPI 0  /* MPI, everything */
#define OSTRAKA_BACKEND_NODE 1 /* memory that the ranks of a node share, and MPI between nodes */
#define OSTRAKA_BACKEND_NCCL 2 /* NCCL between GPUs, each with memory of its own */

/* What updates the weights. */
#define OSTRAKA_UPDATE_NONE 0
#define OSTRAKA_UPDATE_SGD 1
#define OSTRAKA_UPDATE_SGD_MOMENTUM 2
#define OSTRAKA_UPDATE_ADAMW 3

#define OSTRAKA_PLAN_CONFIG_VERSION 1

/* Fill it with ostraka_plan_config_init, then change members. Grows only at the end. */
typedef struct {
  int64_t struct_size;         /* bytes of the struct that the caller was compiled with */
  int32_t version;             /* OSTRAKA_PLAN_CONFIG_VERSION */
  int32_t backend;             /* OSTRAKA_BACKEND_NODE (default), ... */
  int32_t ranks_per_node;      /* consecutive ranks, the last node may have fewer; 0 (default): all ranks on one node */
  int32_t micro_batches;       /* of a step, >= 1, default 1 */
  int32_t optimizer;           /* OSTRAKA_UPDATE_ADAMW (default), ... */
  int32_t fuse_with_reduction; /* 1: as ostraka_optimizer_fuse_with_reduction; 0 (default) */
  int32_t rank;                /* that is reported; -1 (default): the one that holds most */
  int32_t reserved;
  int64_t cache_bytes; /* of the last-level caches of a node, which the ring of gradient slots follows where all ranks
                        * are on one node; -1 (default): those of this machine, as a context finds them */
  /* The model of the machine, for seconds only: a message of one rank takes latency + bytes / bandwidth. Bandwidths in
   * bytes per second and rank, > 0. */
  double network_latency_s; /* between nodes, and within them where memory is not shared */
  double network_bandwidth;
  double node_latency_s; /* between ranks that share memory */
  double node_bandwidth;
  double memory_bandwidth; /* that a rank reads and writes with in casts, sums and updates */
  double overlap;          /* share of gathers and reductions that runs beside the arithmetic, 0 to 1; -1 (default): 1
                            * for NCCL, else 0, as the rank's own core copies and sums */
} ostraka_plan_config_t;

/* Sets the defaults of the version that the caller was compiled with; a newer one than the library's is refused. */
ostraka_status_t ostraka_plan_config_init_versioned(ostraka_plan_config_t* config, int64_t struct_size,
                                                    int32_t version);
static inline ostraka_status_t ostraka_plan_config_init(ostraka_plan_config_t* config) {
  return ostraka_plan_config_init_versioned(config, (int64_t)sizeof(ostraka_plan_config_t),
                                            OSTRAKA_PLAN_CONFIG_VERSION);
}

/* Creates a plan for a mesh that need not exist.
 *   dims      number of axes, >= 1
 *   sizes     [dims] ranks per axis, outer axis first
 *   names     [dims] distinct names, or NULL for "axis0", "axis1", ...
 *   context   what the context would be created with; NULL = defaults
 *   config    NULL = defaults
 * INVALID_ARGUMENT names the setting. */
ostraka_status_t ostraka_plan_create(int32_t dims, const int32_t* sizes, const char* const* names,
                                     const ostraka_fsdp_config_t* context, const ostraka_plan_config_t* config,
                                     ostraka_plan_t* plan);
ostraka_status_t ostraka_plan_destroy(ostraka_plan_t* plan);

/* Adds `count` equal modules, one behind the other; several are named "name.0", "name.1", ... in reports.
 *   parent   unit of one module around these; -1: none
 *   unit     receives the number of the unit, from 0 */
ostraka_status_t ostraka_plan_add_unit(ostraka_plan_t plan, const char* name, int32_t count, int32_t parent,
                                       int32_t* unit);

/* Declares a parameter of each module of a unit, as ostraka_fsdp_module_add_parameter does. */
ostraka_status_t ostraka_plan_add_parameter(ostraka_plan_t plan, int32_t unit, const char* name, ostraka_shape_t shape,
                                            int32_t dtype, int32_t trainable);

/* Settings of the modules of a unit, as those of ostraka_fsdp_module_... with the same names. */
ostraka_status_t ostraka_plan_set_precision(ostraka_plan_t plan, int32_t unit, int32_t main_dtype,
                                            int32_t compute_dtype, int32_t reduction_dtype);
ostraka_status_t ostraka_plan_set_prefetch(ostraka_plan_t plan, int32_t unit, int64_t elements);
ostraka_status_t ostraka_plan_set_gradient_divisor(ostraka_plan_t plan, int32_t unit, double divisor);

/* Seconds of arithmetic of one module of a unit in a micro-batch, without modules inside it; >= 0, default 0. */
ostraka_status_t ostraka_plan_set_times(ostraka_plan_t plan, int32_t unit, double forward_s, double backward_s);

/* Latency and bandwidth of an axis of the mesh (from 0) instead of the network's. */
ostraka_status_t ostraka_plan_set_link(ostraka_plan_t plan, int32_t axis, double latency_s, double bandwidth);

/* Which node each rank is on, instead of ranks_per_node: [num_ranks, those of the mesh] numbers, from 0 and less than
 * num_ranks. */
ostraka_status_t ostraka_plan_set_nodes(ostraka_plan_t plan, int32_t num_ranks, const int32_t* nodes);

/* Carries the plan out. The errors that calls of a context would end in, INVALID_ARGUMENT, TYPE_MISMATCH or
 * NOT_SUPPORTED, name unit, parameter or setting. */
ostraka_status_t ostraka_plan_compute(ostraka_plan_t plan);

/* --- What was found. INVALID_STATE before compute, and when something was added since. */

/* What ostraka_fsdp_context_memory and ostraka_fsdp_context_node_memory would say on the rank after a step; `report` is
 * prepared by ostraka_memory_report_init. */
ostraka_status_t ostraka_plan_memory(ostraka_plan_t plan, ostraka_memory_report_t* report);
ostraka_status_t ostraka_plan_node_memory(ostraka_plan_t plan, ostraka_memory_report_t* report);

#define OSTRAKA_PLAN_BYTES_VERSION 1

/* Bytes by purpose. What the ranks of a node share counts once for a node, and in its own part for a rank. After a
 * step, but for the peaks, which are of the whole run. Grows only at the end. */
typedef struct {
  int64_t struct_size;
  int32_t version;
  int32_t reserved;
  int64_t model_weights; /* at rest, storage type */
  int64_t main_weights;  /* where they are of another type or in another place */
  int64_t main_gradients;
  int64_t addends;        /* reduced contributions on their way into main gradients */
  int64_t moments;        /* state of the optimizer */
  int64_t slots_peak;     /* gradient slots */
  int64_t gathered_peak;  /* whole weights while modules run */
  int64_t scratch_peak;   /* of reductions over several axes */
  int64_t transient_peak; /* of these three together */
  int64_t shared_memory;  /* of all this, in /dev/shm */
  int64_t total;          /* at rest: weights, gradients, moments */
  int64_t peak;           /* that and the transient peak */
} ostraka_plan_bytes_t;

/* Prepares the struct: size, version, zeros. */
ostraka_status_t ostraka_plan_bytes_init_versioned(ostraka_plan_bytes_t* bytes, int64_t struct_size, int32_t version);
static inline ostraka_status_t ostraka_plan_bytes_init(ostraka_plan_bytes_t* bytes) {
  return ostraka_plan_bytes_init_versioned(bytes, (int64_t)sizeof(ostraka_plan_bytes_t), OSTRAKA_PLAN_BYTES_VERSION);
}

/* Of the rank, and of all ranks on its node. */
ostraka_status_t ostraka_plan_bytes(ostraka_plan_t plan, ostraka_plan_bytes_t* bytes);
ostraka_status_t ostraka_plan_node_bytes(ostraka_plan_t plan, ostraka_plan_bytes_t* bytes);

#define OSTRAKA_PLAN_TRAFFIC_VERSION 1

/* Collectives of one axis in one step, of the rank. What ranks read in each other's memory is not sent. Where MPI or
 * NCCL carries a collective whole, bytes are those of the ring algorithm. Grows only at the end. */
typedef struct {
  int64_t struct_size;
  int32_t version;
  int32_t size; /* ranks of the axis */
  int64_t allgathers;
  int64_t reduce_scatters;
  int64_t allreduces;
  int64_t agreements; /* on the status of the step */
  int64_t sent;       /* bytes that leave the rank */
  int64_t received;
  int64_t moved; /* bytes of the wholes that were gathered or reduced, whatever carried them */
} ostraka_plan_traffic_t;

/* Prepares the struct: size, version, zeros. */
ostraka_status_t ostraka_plan_traffic_init_versioned(ostraka_plan_traffic_t* traffic, int64_t struct_size,
                                                     int32_t version);
static inline ostraka_status_t ostraka_plan_traffic_init(ostraka_plan_traffic_t* traffic) {
  return ostraka_plan_traffic_init_versioned(traffic, (int64_t)sizeof(ostraka_plan_traffic_t),
                                             OSTRAKA_PLAN_TRAFFIC_VERSION);
}

/* `axis` counts from 0 at the outermost axis. */
ostraka_status_t ostraka_plan_traffic(ostraka_plan_t plan, int32_t axis, ostraka_plan_traffic_t* traffic);
/* What carries the axis on the rank: "self", "mpi", "node", "hierarchical" or "nccl". Valid until the next compute, or
 * the plan's end. */
ostraka_status_t ostraka_plan_carrier(ostraka_plan_t plan, int32_t axis, const char** name);

#define OSTRAKA_PLAN_SUMMARY_VERSION 1

/* Grows only at the end. */
typedef struct {
  int64_t struct_size;
  int32_t version;
  int32_t recipe;                     /* of the configuration */
  int32_t rank;                       /* that is reported */
  int32_t node;                       /* its node */
  int32_t node_ranks;                 /* ranks on it */
  int32_t gradient_slots;             /* of the ring, bounds applied */
  int64_t num_elements;               /* of all parameters */
  int64_t padding_elements;           /* that layouts add */
  double bytes_per_parameter;         /* of the rank, at rest */
  double formula_bytes_per_parameter; /* the same from types and numbers of parts alone, without padding */
  double step_s;                      /* seconds of a step that is not the first */
  double arithmetic_s;                /* of these, of the modules */
  double exposed_s;                   /* the rest: communication and updates that no arithmetic hides */
} ostraka_plan_summary_t;

/* Prepares the struct: size, version, zeros. */
ostraka_status_t ostraka_plan_summary_init_versioned(ostraka_plan_summary_t* summary, int64_t struct_size,
                                                     int32_t version);
static inline ostraka_status_t ostraka_plan_summary_init(ostraka_plan_summary_t* summary) {
  return ostraka_plan_summary_init_versioned(summary, (int64_t)sizeof(ostraka_plan_summary_t),
                                             OSTRAKA_PLAN_SUMMARY_VERSION);
}

/* What ostraka_plan_compute found, in elements, bytes a parameter and seconds. Local, at once. INVALID_STATE before it
   and after the plan was changed. */
ostraka_status_t ostraka_plan_summary(ostraka_plan_t plan, ostraka_plan_summary_t* summary);

/* --- Which recipe, how large a model. `rank_bytes` and `node_bytes` are what a rank, or a node, may hold at its peak;
 * -1: any amount. */

/* 1 when the plan, which is computed, stays within them, else 0. */
ostraka_status_t ostraka_plan_fits(ostraka_plan_t plan, int64_t rank_bytes, int64_t node_bytes, int32_t* fits);

/* The plan with each of `recipes` instead of its own recipe or placements: `plans` receives `num_recipes` computed
 * plans of their own. Of a recipe that needs more axes there is a plan, too, which answers with that error. What every
 * recipe would refuse is refused, and nothing is created. */
ostraka_status_t ostraka_plan_compare(ostraka_plan_t plan, int32_t num_recipes, const int32_t* recipes,
                                      ostraka_plan_t* plans);

/* Which of these computed plans (from 0) stays within the memory and takes least time for a step, of equal ones that
 * with the smallest peak on a rank, then the first; -1: none does. */
ostraka_status_t ostraka_plan_cheapest(int32_t num_plans, const ostraka_plan_t* plans, int64_t rank_bytes,
                                       int64_t node_bytes, int32_t* index);

/* The largest number of modules of unit `unit` that stays within the memory, those of all other units unchanged; 0:
 * not even one. One of the two limits at least is needed. */
ostraka_status_t ostraka_plan_largest(ostraka_plan_t plan, int32_t unit, int64_t rank_bytes, int64_t node_bytes,
                                      int32_t* count);

#ifdef __cplusplus
}
#endif

#endif
