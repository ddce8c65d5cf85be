/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of a ddp: whole ones with a sharded optimizer, counts, types, experts, memory.
 */
#include "ddp_model.h"

#include <mpi.h>
#include <string.h>

enum { MOST_UNITS = 2 };

/* force_all_reduce leaves whole gradients where they were written. */
static void whole_gradients(ostraka_mesh_t mesh) {
  ostraka_ddp_config_t config = ddp_small_buckets();
  config.sharded_optimizer = 1;
  ostraka_ddp_t ddp = make_ddp(mesh, &config);
  const ddp_case_t c = {.scaling = OSTRAKA_SCALING_MEAN, .microbatches = 1};
  const double* written[DDP_PARAMETERS] = {NULL};
  ddp_values_t w, g;
  ddp_first_values(w);
  ddp_expected_gradients(&c, 3, w, g);
  for (int p = DDP_PARAMETERS - 1; p >= 0; --p)
    if (p != DDP_FROZEN)
      written[p] = ddp_contribute(ddp, 3, 0, p, w[p]);
  CHECK_OK(ostraka_ddp_finish_grad_sync(ddp, 1));
  ddp_check_gradients(ddp, 1, g);
  for (int p = 0; p < DDP_PARAMETERS; ++p)
    for (int k = 0; written[p] != NULL && k < ddp_sizes[p]; ++k)
      CHECK_NEAR(written[p][k], g[p][k], ddp_tolerance);
  CHECK_OK(ostraka_ddp_destroy(&ddp));
}

/* Declared, learnt and no contributions; scaled; given back and taken again. */
static void counts_and_buffers(ostraka_mesh_t mesh) {
  const ostraka_ddp_config_t config = ddp_small_buckets();
  const ddp_case_t twice = {.scaling = OSTRAKA_SCALING_MEAN, .microbatches = 2};
  ostraka_ddp_t ddp = make_ddp(mesh, &config);
  ostraka_memory_report_t full, empty;
  ddp_values_t w, g;
  int32_t is_syncing = -1;
  ddp_first_values(w);
  CHECK_OK(ostraka_memory_report_init(&full));
  empty = full;
  CHECK_OK(ostraka_ddp_set_uses(ddp, "a.weight", 2));
  CHECK_OK(ostraka_ddp_set_uses(ddp, "a.bias", OSTRAKA_USES_AUTO));
  CHECK_OK(ostraka_ddp_set_uses(ddp, "b.weight", 0));
  for (int step = 0; step < 2; ++step) {
    CHECK_OK(ostraka_ddp_zero_grad_buffer(ddp));
    ddp_contribute(ddp, step, 0, 4, w[4]);
    for (int use = 0; use < 2; ++use) {
      ddp_contribute(ddp, step, use, 0, w[0]);
      ddp_contribute(ddp, step, use, 1, w[1]);
    }
    CHECK_OK(ostraka_ddp_finish_grad_sync(ddp, 0));
    CHECK_OK(ostraka_ddp_scale_gradients(ddp, 0.5));
    ddp_expected_gradients(&twice, step, w, g);
    for (int k = 0; k < DDP_MOST; ++k) {
      g[0][k] *= 0.5;
      g[1][k] *= 0.5;
      g[3][k] = 0;
    }
    g[4][0] = 0;
    for (int rank = 0; rank < check_ranks; ++rank)
      g[4][0] += 0.5 * ddp_contribution(rank, step, 0, 4, 0, w[4][0]) / check_ranks;
    ddp_check_gradients(ddp, 0, g);
  }
  CHECK_OK(ostraka_ddp_begin_no_sync(ddp));
  CHECK_OK(ostraka_ddp_is_syncing(ddp, &is_syncing));
  CHECK_INT(is_syncing, 0);
  CHECK_OK(ostraka_ddp_end_no_sync(ddp));
  CHECK_OK(ostraka_ddp_is_syncing(ddp, &is_syncing));
  CHECK_INT(is_syncing, 1);

  CHECK_OK(ostraka_ddp_memory(ddp, &full));
  CHECK_INT(full.num_elements, 32);
  CHECK(full.parameters >= 32 * 8 && full.gradients >= 29 * 8 && full.optimizer_state == 0);
  CHECK(full.transient == 0 && full.transient_peak == 0 && full.reserved_bytes >= full.parameters + full.gradients);
  CHECK_OK(ostraka_ddp_offload_grad_buffers(ddp));
  CHECK_OK(ostraka_ddp_memory(ddp, &empty));
  CHECK_INT(empty.gradients, 0);
  CHECK_INT(empty.parameters, full.parameters);
  CHECK_OK(ostraka_ddp_restore_grad_buffers(ddp));
  CHECK_OK(ostraka_ddp_memory(ddp, &empty));
  CHECK_INT(empty.gradients, full.gradients);
  CHECK_OK(ostraka_ddp_destroy(&ddp));
}

/* Bytes of gradients say how many buckets there are, each padded to a multiple of 128 and of the ranks. */
static int64_t gradient_bytes(ostraka_mesh_t mesh, const ostraka_ddp_config_t* config) {
  ostraka_memory_report_t report;
  ostraka_ddp_t ddp = make_ddp(mesh, config);
  CHECK_OK(ostraka_memory_report_init(&report));
  CHECK_OK(ostraka_ddp_memory(ddp, &report));
  CHECK_OK(ostraka_ddp_destroy(&ddp));
  return report.gradients;
}

static void buckets(ostraka_mesh_t mesh) {
  const int64_t unit = check_ranks == 3 ? 384 * 8 : 128 * 8, one = check_ranks == 3 ? unit : 2 * unit;
  ostraka_ddp_config_t config;
  CHECK_OK(ostraka_ddp_config_init(&config));
  config.sharded_optimizer = 1;
  CHECK_INT(gradient_bytes(mesh, &config), one); /* starts at 0, 64, 128 and 192 */
  config.bucket_size = 10;                       /* 1 + 12, 4 + 12 */
  CHECK_INT(gradient_bytes(mesh, &config), 2 * unit);
  config.bucket_size = 4; /* 1 + 12, 4, 12 */
  CHECK_INT(gradient_bytes(mesh, &config), 3 * unit);
  config.disable_bucketing = 1;
  CHECK_INT(gradient_bytes(mesh, &config), one);
  config.disable_bucketing = 0;
  config.overlap_grad_reduce = 0;
  CHECK_INT(gradient_bytes(mesh, &config), one);
  config.overlap_grad_reduce = 1;
  config.bucket_size = -1;
  config.num_buckets = 2;
  CHECK_INT(gradient_bytes(mesh, &config), 2 * unit);
  config.num_buckets = -1;
  config.pad_for_bandwidth = 1;
  CHECK_INT(gradient_bytes(mesh, &config), 65536 * 8 * (check_ranks == 3 ? 3 : 1));
}

/* A weight that is cut over the ranks: where the parts begin. A shared embedding has a bucket of its own. */
static void parts(ostraka_mesh_t mesh) {
  enum { SIZE = 1000 };
  const ostraka_shape_t shape = VECTOR(SIZE);
  ostraka_ddp_config_t config;
  ostraka_memory_report_t report;
  ostraka_ddp_t ddp = NULL;
  CHECK_OK(ostraka_ddp_config_init(&config));
  CHECK_OK(ostraka_memory_report_init(&report));
  config.sharded_optimizer = 1;
  CHECK_OK(ostraka_ddp_create(mesh, &config, NULL, &ddp));
  CHECK_OK(ostraka_ddp_add_parameter(ddp, "embedding", ddp_shape(0), OSTRAKA_F64, OSTRAKA_DDP_SHARED_EMBEDDING));
  CHECK_OK(ostraka_ddp_add_parameter(ddp, "w", shape, OSTRAKA_F64, 0));
  CHECK_OK(ostraka_ddp_finalize(ddp));
  CHECK_OK(ostraka_ddp_set_uses(ddp, "embedding", 0));
  CHECK_OK(ostraka_ddp_memory(ddp, &report));
  CHECK_INT(report.gradients, check_ranks == 3 ? (384 + 1152) * 8 : (128 + 1024) * 8);
  void* data = NULL;
  const void* reduced = NULL;
  int64_t count = 0, offset = -1;
  double beta = 0;
  if (CHECK_OK(ostraka_ddp_gradient(ddp, "w", OSTRAKA_F64, &data, &count, &beta)))
    for (int k = 0; k < count; ++k)
      ((double*)data)[k] = k;
  CHECK_OK(ostraka_ddp_gradient_ready(ddp, "w"));
  CHECK_OK(ostraka_ddp_finish_grad_sync(ddp, 0));
  if (CHECK_OK(ostraka_ddp_main_gradient(ddp, "w", OSTRAKA_F64, &reduced, &count, &offset)))
    for (int k = 0; k < count; ++k)
      CHECK_NEAR(((const double*)reduced)[k], (double)(offset + k), 1e-9);
  CHECK_INT(offset, check_rank * (check_ranks == 3 ? 384 : 1024 / check_ranks));
  CHECK_OK(ostraka_ddp_destroy(&ddp));
}

/* Every parameter is whole on one rank; main weights are f64; two contributions; nobody says ready. */
static void other_options(ostraka_mesh_t mesh) {
  ostraka_ddp_config_t config;
  ostraka_ddp_t ddp = NULL;
  CHECK_OK(ostraka_ddp_config_init(&config));
  config.sharded_optimizer = 1;
  config.arrangement = OSTRAKA_ARRANGEMENT_LAYER_WISE;
  config.overlap_grad_reduce = 0;
  config.main_dtype = OSTRAKA_F64;
  CHECK_OK(ostraka_ddp_create(mesh, &config, NULL, &ddp));
  CHECK_OK(ostraka_ddp_add_parameter(ddp, "w", ddp_shape(0), OSTRAKA_F32, 0));
  CHECK_OK(ostraka_ddp_finalize(ddp));
  void* data = NULL;
  const void* reduced = NULL;
  int64_t count = 0, offset = 0;
  double beta = 0;
  if (CHECK_OK(ostraka_ddp_gradient(ddp, "w", OSTRAKA_F32, &data, &count, &beta)))
    for (int k = 0; k < count; ++k)
      ((float*)data)[k] = (float)k;
  CHECK_OK(ostraka_ddp_finish_grad_sync(ddp, 0));
  if (CHECK_OK(ostraka_ddp_main_gradient(ddp, "w", OSTRAKA_F64, &reduced, &count, &offset)))
    for (int k = 0; k < count; ++k)
      CHECK_NEAR(((const double*)reduced)[k], k, 1e-6);
  CHECK(count == 0 || count == 12);
  MPI_Allreduce(MPI_IN_PLACE, &count, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  CHECK_INT(count, 12);
  CHECK_OK(ostraka_ddp_destroy(&ddp));

  CHECK_OK(ostraka_ddp_config_init(&config));
  config.uses = 2;
  CHECK_OK(ostraka_ddp_create(mesh, &config, NULL, &ddp));
  CHECK_OK(ostraka_ddp_add_parameter(ddp, ddp_names[1], ddp_shape(1), OSTRAKA_F64, 0));
  CHECK_OK(ostraka_ddp_finalize(ddp));
  const double w[DDP_MOST] = {0};
  ddp_contribute(ddp, 0, 0, 1, w);
  ddp_contribute(ddp, 0, 1, 1, w);
  CHECK_OK(ostraka_ddp_finish_grad_sync(ddp, 0));
  CHECK_OK(ostraka_ddp_destroy(&ddp));
}

/* bf16 weights: gradients in f32, or in bf16 and accumulated in f32 where that is asked for. */
static void types(ostraka_mesh_t mesh) {
  static const char* const patterns[] = {"b.*"};
  const int64_t extents[] = {4};
  const ostraka_shape_t shape = {1, extents};
  const float values[4] = {1, 2, 3, 4};
  const uint16_t bits[4] = {0x3f80, 0x4000, 0x4040, 0x4080};
  for (int as_bf16 = 0; as_bf16 < 2; ++as_bf16) {
    ostraka_ddp_config_t config;
    ostraka_ddp_t ddp = NULL;
    CHECK_OK(ostraka_ddp_config_init(&config));
    if (as_bf16) {
      config.gradient_dtype = OSTRAKA_BF16;
      config.num_f32_accumulators = 1;
      config.f32_accumulators = patterns;
    }
    CHECK_OK(ostraka_ddp_create(mesh, &config, NULL, &ddp));
    CHECK_OK(ostraka_ddp_add_parameter(ddp, "a.w", shape, OSTRAKA_BF16, 0));
    CHECK_OK(ostraka_ddp_add_parameter(ddp, "b.w", shape, OSTRAKA_BF16, OSTRAKA_DDP_SHARED_EMBEDDING));
    CHECK_OK(ostraka_ddp_finalize(ddp));
    void* data = NULL;
    int64_t count = 0;
    int32_t dtype = -1;
    double beta = 0;
    CHECK_OK(ostraka_ddp_set_parameter(ddp, "a.w", OSTRAKA_F32, values, 4));
    if (CHECK_OK(ostraka_ddp_parameter(ddp, "a.w", OSTRAKA_BF16, &data, &count)))
      CHECK(memcmp(data, bits, sizeof bits) == 0);
    CHECK_OK(ostraka_ddp_gradient_dtype(ddp, "a.w", &dtype));
    CHECK_INT(dtype, as_bf16 ? OSTRAKA_BF16 : OSTRAKA_F32);
    if (CHECK_OK(ostraka_ddp_gradient(ddp, "a.w", dtype, &data, &count, &beta)))
      memcpy(data, as_bf16 ? (const void*)bits : values, as_bf16 ? sizeof bits : sizeof values);
    CHECK_OK(ostraka_ddp_gradient_dtype(ddp, "b.w", &dtype));
    CHECK_INT(dtype, OSTRAKA_F32);
    if (CHECK_OK(ostraka_ddp_gradient(ddp, "b.w", dtype, &data, &count, &beta)))
      memcpy(data, values, sizeof values);
    CHECK_OK(ostraka_ddp_gradient_ready(ddp, "b.w"));
    CHECK_OK(ostraka_ddp_gradient_ready(ddp, "a.w"));
    CHECK_OK(ostraka_ddp_finish_grad_sync(ddp, 0));
    for (int p = 0; p < 2; ++p) {
      const void* found = NULL;
      int64_t offset = -1;
      if (CHECK_OK(ostraka_ddp_main_gradient(ddp, p == 0 ? "a.w" : "b.w", OSTRAKA_F32, &found, &count, &offset)))
        for (int k = 0; k < 4; ++k)
          CHECK_NEAR(((const float*)found)[k], values[k], 0); /* the mean of equal small integers */
      CHECK_INT(offset, 0);
    }
    CHECK_OK(ostraka_ddp_destroy(&ddp));
  }
}

/* Ranks with the same remainder have the same expert; the dense mesh has the others, too. */
static void experts(ostraka_mesh_t mesh) {
  const int units = check_ranks % 2 == 0 ? MOST_UNITS : 1, unit = check_rank % units;
  MPI_Comm comm;
  ostraka_mesh_t expert_mesh = NULL;
  ostraka_ddp_t ddp = NULL;
  MPI_Comm_split(MPI_COMM_WORLD, unit, check_rank, &comm);
  CHECK_OK(ostraka_mesh_create(comm, 1, NULL, NULL, &expert_mesh));
  CHECK_OK(ostraka_ddp_create(mesh, NULL, expert_mesh, &ddp));
  CHECK_OK(ostraka_ddp_add_parameter(ddp, ddp_names[0], ddp_shape(0), OSTRAKA_F64, 0));
  CHECK_OK(ostraka_ddp_add_parameter(ddp, ddp_names[1], ddp_shape(1), OSTRAKA_F64, OSTRAKA_DDP_EXPERT));
  CHECK_OK(ostraka_ddp_finalize(ddp));
  const double w[DDP_MOST] = {0};
  ddp_contribute(ddp, 0, 0, 1, w);
  ddp_contribute(ddp, 0, 0, 0, w);
  CHECK_OK(ostraka_ddp_finish_grad_sync(ddp, 0));
  for (int p = 0; p < 2; ++p) {
    const void* data = NULL;
    int64_t count = 0, offset = 0;
    if (!CHECK_OK(ostraka_ddp_main_gradient(ddp, ddp_names[p], OSTRAKA_F64, &data, &count, &offset)))
      continue;
    for (int k = 0; k < ddp_sizes[p]; ++k) {
      double expected = 0;
      for (int rank = p == 0 ? 0 : unit; rank < check_ranks; rank += p == 0 ? 1 : units)
        expected += ddp_contribution(rank, 0, 0, p, k, 0) / check_ranks;
      CHECK_NEAR(((const double*)data)[k], expected, ddp_tolerance);
    }
  }
  CHECK_OK(ostraka_ddp_destroy(&ddp));
  CHECK_OK(ostraka_mesh_destroy(&expert_mesh));
  MPI_Comm_free(&comm);
}

void ddp_gradient_suite(void) {
  ostraka_mesh_t mesh = make_mesh();
  whole_gradients(mesh);
  counts_and_buffers(mesh);
  buckets(mesh);
  parts(mesh);
  other_options(mesh);
  types(mesh);
  experts(mesh);
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}
