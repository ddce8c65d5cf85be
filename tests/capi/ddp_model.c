/* SPDX-License-Identifier: Apache-2.0 */
#include "ddp_model.h"

#include <math.h>
#include <mpi.h>

const double ddp_tolerance = 1e-13;
const char* const ddp_names[DDP_PARAMETERS] = {"a.weight", "a.bias", "a.fixed", "b.weight", "b.scale"};
const int ddp_sizes[DDP_PARAMETERS] = {12, 4, 3, 12, 1};

ostraka_shape_t ddp_shape(int p) {
  static const int64_t extents[DDP_PARAMETERS][2] = {{4, 3}, {4}, {3}, {3, 4}, {0}};
  static const int32_t dims[DDP_PARAMETERS] = {2, 1, 1, 2, 0};
  return (ostraka_shape_t){dims[p], dims[p] == 0 ? NULL : extents[p]};
}

void ddp_first_values(ddp_row_t* w) {
  for (int p = 0; p < DDP_PARAMETERS; ++p)
    for (int k = 0; k < DDP_MOST; ++k)
      w[p][k] = sin(1 + 3.0 * k + p);
}

double ddp_contribution(int rank, int step, int microbatch, int p, int k, double w) {
  return 0.1 * (rank + 1) * w + cos(step + 2.0 * microbatch + 0.5 * k + p + 3.0 * rank);
}

/* --- plain loops */

void ddp_expected_gradients(const ddp_case_t* c, int step, ddp_row_t* w, ddp_row_t* g) {
  for (int p = 0; p < DDP_PARAMETERS; ++p)
    for (int k = 0; k < ddp_sizes[p]; ++k) {
      g[p][k] = 0;
      for (int rank = 0; rank < check_ranks; ++rank)
        for (int microbatch = 0; microbatch < c->microbatches; ++microbatch)
          g[p][k] += ddp_contribution(rank, step, microbatch, p, k, w[p][k]);
      if (c->scaling != OSTRAKA_SCALING_SUM)
        g[p][k] /= check_ranks;
    }
}

/* --- the library */

ostraka_ddp_t make_ddp(ostraka_mesh_t mesh, const ostraka_ddp_config_t* config) {
  ostraka_ddp_t ddp = NULL;
  ddp_values_t w;
  ddp_first_values(w);
  CHECK_OK(ostraka_ddp_create(mesh, config, NULL, &ddp));
  for (int p = 0; p < DDP_PARAMETERS; ++p)
    CHECK_OK(ostraka_ddp_add_parameter(ddp, ddp_names[p], ddp_shape(p), OSTRAKA_F64,
                                       p == DDP_FROZEN ? OSTRAKA_DDP_FROZEN : 0));
  CHECK_OK(ostraka_ddp_finalize(ddp));
  for (int p = 0; p < DDP_PARAMETERS; ++p)
    CHECK_OK(ostraka_ddp_set_parameter(ddp, ddp_names[p], OSTRAKA_F64, w[p], ddp_sizes[p]));
  return ddp;
}

ostraka_ddp_config_t ddp_small_buckets(void) {
  ostraka_ddp_config_t config;
  CHECK_OK(ostraka_ddp_config_init(&config));
  config.bucket_size = 10;
  return config;
}

double* ddp_weight(ostraka_ddp_t ddp, int p) {
  void* data = NULL;
  int64_t count = -1;
  CHECK_OK(ostraka_ddp_parameter(ddp, ddp_names[p], OSTRAKA_F64, &data, &count));
  CHECK_INT(count, ddp_sizes[p]);
  return data;
}

void ddp_check_weights(ostraka_ddp_t ddp, ddp_row_t* w) {
  for (int p = 0; p < DDP_PARAMETERS; ++p) {
    const double* found = ddp_weight(ddp, p);
    for (int k = 0; found != NULL && k < ddp_sizes[p]; ++k)
      CHECK_NEAR(found[k], w[p][k], ddp_tolerance);
  }
}

double* ddp_contribute(ostraka_ddp_t ddp, int step, int microbatch, int p, const double* w) {
  void* data = NULL;
  int64_t count = 0;
  double beta = -1;
  if (!CHECK_OK(ostraka_ddp_gradient(ddp, ddp_names[p], OSTRAKA_F64, &data, &count, &beta)))
    return NULL;
  CHECK_INT(count, ddp_sizes[p]);
  CHECK(beta == (microbatch > 0));
  double* g = data;
  for (int k = 0; k < ddp_sizes[p]; ++k)
    g[k] = (beta == 0 ? 0 : beta * g[k]) + ddp_contribution(check_rank, step, microbatch, p, k, w[k]);
  CHECK_OK(ostraka_ddp_gradient_ready(ddp, ddp_names[p]));
  return g;
}

void ddp_run_passes(ostraka_ddp_t ddp, int step, int microbatches) {
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    const int is_last = microbatch == microbatches - 1;
    if (!is_last)
      CHECK_OK(ostraka_ddp_begin_no_sync(ddp));
    CHECK_OK(ostraka_ddp_pre_forward(ddp, "a"));
    CHECK_OK(ostraka_ddp_pre_forward(ddp, "b"));
    for (int p = DDP_PARAMETERS - 1; p >= 0; --p)
      if (p != DDP_FROZEN)
        ddp_contribute(ddp, step, microbatch, p, ddp_weight(ddp, p));
    if (!is_last)
      CHECK_OK(ostraka_ddp_end_no_sync(ddp));
  }
}

void ddp_check_gradients(ostraka_ddp_t ddp, int is_sharded, ddp_row_t* expected) {
  for (int p = 0; p < DDP_PARAMETERS; ++p) {
    const void* data = NULL;
    int64_t count = 0, offset = 0;
    if (p == DDP_FROZEN || !CHECK_OK(ostraka_ddp_main_gradient(ddp, ddp_names[p], OSTRAKA_F64, &data, &count, &offset)))
      continue;
    for (int k = 0; k < count; ++k)
      CHECK_NEAR(((const double*)data)[k], expected[p][offset + k], ddp_tolerance);
    MPI_Allreduce(MPI_IN_PLACE, &count, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    CHECK_INT(count, is_sharded ? ddp_sizes[p] : ddp_sizes[p] * check_ranks);
  }
}
