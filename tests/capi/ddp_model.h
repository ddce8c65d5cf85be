/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of ostraka_ddp_... share: a model, what ranks contribute to its gradients, and what these then are by
 * plain loops over all ranks.
 */
#ifndef OSTRAKA_TESTS_CAPI_DDP_MODEL_H
#define OSTRAKA_TESTS_CAPI_DDP_MODEL_H

#include "suites.h"

enum { DDP_PARAMETERS = 5, DDP_FROZEN = 2, DDP_MOST = 12 }; /* the number of the frozen parameter; elements */
extern const double ddp_tolerance;
extern const char* const ddp_names[DDP_PARAMETERS];
extern const int ddp_sizes[DDP_PARAMETERS];
typedef double ddp_row_t[DDP_MOST];
typedef ddp_row_t ddp_values_t[DDP_PARAMETERS]; /* passed on as the address of a row */

typedef enum { BY_HAND, MOMENTUM, ADAMW } ddp_update_t;
typedef struct {
  int32_t scaling, sharded, overlap_reduce, overlap_gather;
  int microbatches;
  ddp_update_t update;
} ddp_case_t;

/* All weights, the frozen ones included. */
void ddp_first_values(ddp_row_t* w);
ostraka_shape_t ddp_shape(int p);
/* Buckets of 10 elements. */
ostraka_ddp_config_t ddp_small_buckets(void);
/* Finalised, with the first values. */
ostraka_ddp_t make_ddp(ostraka_mesh_t mesh, const ostraka_ddp_config_t* config);

/* What a rank contributes to element k of parameter p, whose weight is w. */
double ddp_contribution(int rank, int step, int microbatch, int p, int k, double w);
/* What is then reduced from all ranks and micro-batches. */
void ddp_expected_gradients(const ddp_case_t* c, int step, ddp_row_t* w, ddp_row_t* g);

double* ddp_weight(ostraka_ddp_t ddp, int p);
void ddp_check_weights(ostraka_ddp_t ddp, ddp_row_t* w);
/* This rank's contribution; returns where it stands. */
double* ddp_contribute(ostraka_ddp_t ddp, int step, int microbatch, int p, const double* w);
/* Forward and backward passes of all micro-batches. */
void ddp_run_passes(ostraka_ddp_t ddp, int step, int microbatches);
/* The main gradients: all ranks together have the whole, each of them if the optimizer is not sharded. */
void ddp_check_gradients(ostraka_ddp_t ddp, int is_sharded, ddp_row_t* expected);

#endif
