/* SPDX-License-Identifier: Apache-2.0
 *
 * Set-up and queries of fsdp.h, and what set-up refuses.
 */
#include "suites.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static const int64_t extents[] = {2, 3};
static const ostraka_shape_t shape = {2, extents};

static ostraka_fsdp_module_t add(ostraka_fsdp_context_t context, const char* name) {
  ostraka_fsdp_module_t module = NULL;
  CHECK_OK(ostraka_fsdp_context_add_module(context, name, &module));
  return module;
}

static void set_up_refuses(void) {
  const int64_t negative[] = {-4};
  const ostraka_shape_t bad_rank = {-1, extents}, no_extents = {1, NULL}, bad_extent = {1, negative};
  const double values[6] = {0, 1, 2, 3, 4, 5};
  ostraka_mesh_t mesh = make_mesh();
  ostraka_fsdp_context_t context = NULL;
  ostraka_fsdp_module_t none = NULL;
  ostraka_optimizer_t optimizer = NULL;
  CHECK_OK(ostraka_fsdp_context_create(mesh, NULL, &context));
  CHECK_FAILS(ostraka_fsdp_context_add_module(context, "a", NULL), OSTRAKA_INVALID_ARGUMENT, "'module' is null");
  CHECK_FAILS(ostraka_fsdp_context_add_module(context, NULL, &none), OSTRAKA_INVALID_ARGUMENT, "'name' is null");
  CHECK_FAILS(ostraka_fsdp_context_add_module(context, "", &none), OSTRAKA_INVALID_ARGUMENT, "name is empty");
  ostraka_fsdp_module_t module = add(context, "a");
  CHECK_FAILS(ostraka_fsdp_context_add_module(context, "a", &none), OSTRAKA_INVALID_ARGUMENT, "'a' exists already");
  CHECK(none == NULL);

#define ADD_REFUSED(name, shape, dtype, status, words)                                                                 \
  CHECK_FAILS(ostraka_fsdp_module_add_parameter(module, name, shape, dtype, 1), status, words)
  ADD_REFUSED(NULL, shape, OSTRAKA_F64, OSTRAKA_INVALID_ARGUMENT, "'name' is null");
  ADD_REFUSED("", shape, OSTRAKA_F64, OSTRAKA_INVALID_ARGUMENT, "name is empty");
  ADD_REFUSED("w", bad_rank, OSTRAKA_F64, OSTRAKA_INVALID_ARGUMENT, "-1 dimensions");
  ADD_REFUSED("w", no_extents, OSTRAKA_F64, OSTRAKA_INVALID_ARGUMENT, "extents");
  ADD_REFUSED("w", bad_extent, OSTRAKA_F64, OSTRAKA_INVALID_ARGUMENT, "found -4");
  ADD_REFUSED("w", shape, 99, OSTRAKA_INVALID_ARGUMENT, "99");
  ADD_REFUSED("w", shape, OSTRAKA_F16, OSTRAKA_TYPE_MISMATCH, "found f16");
  ADD_REFUSED("w", shape, OSTRAKA_I64, OSTRAKA_TYPE_MISMATCH, "found i64");
  CHECK_OK(ostraka_fsdp_module_add_parameter(module, "w", shape, OSTRAKA_F64, 1));
  ADD_REFUSED("w", shape, OSTRAKA_F64, OSTRAKA_INVALID_ARGUMENT, "'w' exists already");

  CHECK_FAILS(ostraka_fsdp_module_set_parameter(module, "w", OSTRAKA_F64, values, 6), OSTRAKA_INVALID_STATE,
              "before build");
  CHECK_FAILS(ostraka_fsdp_context_finalize(context), OSTRAKA_INVALID_STATE, "module 'a' is not built");
  CHECK_OK(ostraka_fsdp_module_build(module));
  CHECK_FAILS(ostraka_fsdp_module_build(module), OSTRAKA_INVALID_STATE, "build was called twice");
  ADD_REFUSED("v", shape, OSTRAKA_F64, OSTRAKA_INVALID_STATE, "after build");
  CHECK_FAILS(ostraka_fsdp_module_set_parameter(module, NULL, OSTRAKA_F64, values, 6), OSTRAKA_INVALID_ARGUMENT,
              "'name' is null");
  CHECK_FAILS(ostraka_fsdp_module_set_parameter(module, "v", OSTRAKA_F64, values, 6), OSTRAKA_INVALID_ARGUMENT,
              "module 'a' has no parameter 'v'");
  CHECK_FAILS(ostraka_fsdp_module_set_parameter(module, "w", OSTRAKA_F64, values, 5), OSTRAKA_SHAPE_MISMATCH,
              "has 6 elements, found 5");
  CHECK_FAILS(ostraka_fsdp_module_set_parameter(module, "w", OSTRAKA_F64, NULL, 6), OSTRAKA_INVALID_ARGUMENT, "null");
  CHECK_FAILS(ostraka_fsdp_module_set_parameter(module, "w", OSTRAKA_I32, values, 6), OSTRAKA_TYPE_MISMATCH, "i32");
  CHECK_FAILS(ostraka_fsdp_module_set_parameter(module, "w", 99, values, 6), OSTRAKA_INVALID_ARGUMENT, "99");

  /* Nothing of a step before finalize. */
  CHECK_FAILS(ostraka_fsdp_module_pre_forward(module), OSTRAKA_INVALID_STATE, "finalize the context first");
  CHECK_FAILS(ostraka_fsdp_module_pre_backward(module), OSTRAKA_INVALID_STATE, "finalize the context first");
  CHECK_FAILS(ostraka_fsdp_module_unshard(module), OSTRAKA_INVALID_STATE, "finalize the context first");
  CHECK_FAILS(ostraka_fsdp_context_finish_backward(context), OSTRAKA_INVALID_STATE, "finalize the context first");
  CHECK_FAILS(ostraka_fsdp_context_fail_step(context, "x"), OSTRAKA_INVALID_STATE, "finalize the context first");
  CHECK_FAILS(ostraka_fsdp_context_set_last_microbatch(context, 1), OSTRAKA_INVALID_STATE, "finalize the context");
  CHECK_FAILS(ostraka_fsdp_context_zero_grad(context), OSTRAKA_INVALID_STATE, "finalize the context first");
  CHECK_FAILS(ostraka_fsdp_context_begin_inference(context), OSTRAKA_INVALID_STATE, "finalize the context first");
  CHECK_FAILS(ostraka_adamw_create(context, NULL, &optimizer), OSTRAKA_INVALID_STATE, "finalize the context first");
  CHECK_FAILS(ostraka_sgd_create(context, NULL, &optimizer), OSTRAKA_INVALID_STATE, "finalize the context first");

  /* After all that the context works. */
  const void* data = NULL;
  int64_t count = 0;
  CHECK_OK(ostraka_fsdp_module_set_parameter(module, "w", OSTRAKA_F64, values, 6));
  CHECK_OK(ostraka_fsdp_context_finalize(context));
  CHECK_FAILS(ostraka_fsdp_context_finalize(context), OSTRAKA_INVALID_STATE, "finalised already");
  CHECK_FAILS(ostraka_fsdp_context_add_module(context, "b", &none), OSTRAKA_INVALID_STATE, "is finalised");
  CHECK_OK(ostraka_fsdp_module_pre_forward(module));
  CHECK_OK(ostraka_fsdp_module_parameter(module, "w", OSTRAKA_F64, &data, &count));
  CHECK_INT(count, 6);
  for (int k = 0; k < 6; ++k)
    CHECK_NEAR(((const double*)data)[k], k, 0);
  CHECK_OK(ostraka_fsdp_module_post_forward(module));
  CHECK_OK(ostraka_fsdp_context_destroy(&context));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

/* Storage, hand-out and set types: f32 and bf16 come out as f32, values may be given in f64, f32 or bf16. */
static void types(void) {
  const struct {
    int32_t storage, handed_out;
  } cases[] = {{OSTRAKA_F64, OSTRAKA_F64}, {OSTRAKA_F32, OSTRAKA_F32}, {OSTRAKA_BF16, OSTRAKA_F32}};
  const double doubles[6] = {0, 1, 2, 3, 4, 5};
  const float floats[6] = {0, 1, 2, 3, 4, 5};
  const uint16_t halves[6] = {0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0}; /* bf16 of the same numbers */
  const struct {
    int32_t dtype;
    const void* values;
  } given[] = {{OSTRAKA_F64, doubles}, {OSTRAKA_F32, floats}, {OSTRAKA_BF16, halves}};
  ostraka_mesh_t mesh = make_mesh();
  for (int i = 0; i < 3; ++i)
    for (int from = 0; from < 3; ++from) {
      ostraka_fsdp_context_t context = NULL;
      CHECK_OK(ostraka_fsdp_context_create(mesh, NULL, &context));
      ostraka_fsdp_module_t module = add(context, "m");
      CHECK_OK(ostraka_fsdp_module_add_parameter(module, "w", shape, cases[i].storage, 1));
      CHECK_OK(ostraka_fsdp_module_build(module));
      CHECK_OK(ostraka_fsdp_module_set_parameter(module, "w", given[from].dtype, given[from].values, 6));
      CHECK_OK(ostraka_fsdp_context_finalize(context));
      const void* data = NULL;
      int64_t count = 0, found[8] = {0};
      int32_t ndim = 0;
      CHECK_OK(ostraka_fsdp_module_parameter_shape(module, "w", &ndim, found));
      CHECK(ndim == 2 && found[0] == 2 && found[1] == 3);
      CHECK_OK(ostraka_fsdp_module_unshard(module));
      CHECK_FAILS(ostraka_fsdp_module_parameter(module, "w", OSTRAKA_BF16, &data, &count), OSTRAKA_TYPE_MISMATCH,
                  "asked for bf16");
      if (CHECK_OK(ostraka_fsdp_module_parameter(module, "w", cases[i].handed_out, &data, &count)))
        for (int k = 0; k < 6; ++k)
          CHECK_NEAR(i == 0 ? ((const double*)data)[k] : (double)((const float*)data)[k], k, 0);
      CHECK_OK(ostraka_fsdp_module_reshard(module));
      CHECK_OK(ostraka_fsdp_context_destroy(&context));
    }
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

static void ranks_that_disagree(void) {
  if (check_ranks == 1)
    return;
  const int64_t other_extents[] = {2, 3 + check_rank};
  const ostraka_shape_t other = {2, other_extents};
  ostraka_mesh_t mesh = make_mesh();
  ostraka_fsdp_context_t context = NULL;
  CHECK_OK(ostraka_fsdp_context_create(mesh, NULL, &context));
  ostraka_fsdp_module_t module = add(context, "m"), named = add(context, check_rank == 0 ? "x" : "y");
  CHECK_OK(ostraka_fsdp_module_add_parameter(module, "w", other, OSTRAKA_F64, 1));
  CHECK_FAILS(ostraka_fsdp_module_build(module), OSTRAKA_RANKS_DISAGREE, "build of module 'm'");
  CHECK_INT(ostraka_fsdp_module_build(named), OSTRAKA_RANKS_DISAGREE);
  CHECK_OK(ostraka_fsdp_context_destroy(&context));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

/* NO_SHARD: whole weights on every rank are compared, or copied from rank 0. */
static void replicated_weights(int32_t broadcast) {
  const double values[6] = {check_rank, 1, 2, 3, 4, 5};
  ostraka_mesh_t mesh = make_mesh();
  ostraka_fsdp_context_t context = NULL;
  ostraka_fsdp_config_t config;
  CHECK_OK(ostraka_fsdp_config_init(&config));
  config.recipe = OSTRAKA_NO_SHARD;
  config.broadcast = broadcast;
  CHECK_OK(ostraka_fsdp_context_create(mesh, &config, &context));
  ostraka_fsdp_module_t module = add(context, "m");
  CHECK_OK(ostraka_fsdp_module_add_parameter(module, "w", shape, OSTRAKA_F64, 1));
  CHECK_OK(ostraka_fsdp_module_build(module));
  CHECK_OK(ostraka_fsdp_module_set_parameter(module, "w", OSTRAKA_F64, values, 6));
  if (!broadcast && check_ranks > 1) {
    CHECK_FAILS(ostraka_fsdp_context_finalize(context), OSTRAKA_RANKS_DISAGREE, "w");
    const double same[6] = {0, 1, 2, 3, 4, 5};
    CHECK_OK(ostraka_fsdp_module_set_parameter(module, "w", OSTRAKA_F64, same, 6));
  }
  CHECK_OK(ostraka_fsdp_context_finalize(context));
  const void* data = NULL;
  int64_t count = 0;
  CHECK_OK(ostraka_fsdp_module_pre_forward(module));
  if (CHECK_OK(ostraka_fsdp_module_parameter(module, "w", OSTRAKA_F64, &data, &count)))
    for (int k = 0; k < 6; ++k)
      CHECK_NEAR(((const double*)data)[k], k, 0);
  CHECK_OK(ostraka_fsdp_module_post_forward(module));
  CHECK_OK(ostraka_fsdp_context_destroy(&context));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

/* Weights in a type of the caller's choice: stored and handed out as bf16, or expanded to f64. */
static void compute_types(void) {
  const double values[6] = {0, 1, 2, 3, 4, 5};
  const uint16_t halves[6] = {0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0};
  const int32_t types[] = {OSTRAKA_BF16, OSTRAKA_F64};
  ostraka_mesh_t mesh = make_mesh();
  for (int i = 0; i < 2; ++i) {
    ostraka_fsdp_config_t config;
    CHECK_OK(ostraka_fsdp_config_init(&config));
    if (i == 0) /* of all modules; else of one */
      config.compute_dtype = types[i];
    ostraka_fsdp_context_t context = NULL;
    CHECK_OK(ostraka_fsdp_context_create(mesh, &config, &context));
    ostraka_fsdp_module_t module = add(context, "m");
    CHECK_OK(ostraka_fsdp_module_add_parameter(module, "w", shape, OSTRAKA_BF16, 1));
    CHECK_FAILS(ostraka_fsdp_module_set_precision(module, -1, OSTRAKA_U8, -1), OSTRAKA_TYPE_MISMATCH, "found u8");
    if (i == 1)
      CHECK_OK(ostraka_fsdp_module_set_precision(module, -1, types[i], -1));
    CHECK_OK(ostraka_fsdp_module_build(module));
    CHECK_FAILS(ostraka_fsdp_module_set_precision(module, -1, -1, -1), OSTRAKA_INVALID_STATE, "after build");
    CHECK_OK(ostraka_fsdp_module_set_parameter(module, "w", OSTRAKA_F64, values, 6));
    CHECK_OK(ostraka_fsdp_context_finalize(context));
    CHECK_OK(ostraka_fsdp_module_unshard(module));
    const void* data = NULL;
    int64_t count = 0;
    CHECK_FAILS(ostraka_fsdp_module_parameter(module, "w", OSTRAKA_F32, &data, &count), OSTRAKA_TYPE_MISMATCH,
                "asked for f32");
    if (CHECK_OK(ostraka_fsdp_module_parameter(module, "w", types[i], &data, &count)))
      CHECK(count == 6 && memcmp(data, i == 0 ? (const void*)halves : values, i == 0 ? 12 : 48) == 0);
    CHECK_OK(ostraka_fsdp_module_reshard(module));
    CHECK_OK(ostraka_fsdp_context_destroy(&context));
  }
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

/* All ranks of the test stand on one node: unless MPI carries everything they use one copy of the weights. */
static int shares_weights(void) {
  const char* backend = getenv("OSTRAKA_BACKEND");
  return check_ranks > 1 && (backend == NULL || strcmp(backend, "mpi") != 0);
}

static void node_memory(ostraka_fsdp_context_t context) {
  ostraka_memory_report_t own, node;
  CHECK_OK(ostraka_memory_report_init(&own));
  CHECK_OK(ostraka_memory_report_init(&node));
  CHECK_OK(ostraka_fsdp_context_memory(context, &own));
  CHECK_OK(ostraka_fsdp_context_node_memory(context, &node));
  int64_t sums[] = {own.parameters, own.gradients, own.transient_peak, own.reserved_bytes};
  MPI_Allreduce(MPI_IN_PLACE, sums, 4, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  CHECK_INT(node.parameters, sums[0]);
  CHECK_INT(node.gradients, sums[1]);
  CHECK_INT(node.transient_peak, sums[2]);
  CHECK_INT(node.reserved_bytes, sums[3]);
  CHECK(node.reserved_bytes >= node.parameters + node.gradients);
  CHECK_INT(node.num_elements, own.num_elements);
  CHECK_INT(node.struct_size, (int64_t)sizeof node);
}

static void memory(void) {
  model_t model = make_model();
  ostraka_memory_report_t before, after;
  CHECK_OK(ostraka_memory_report_init(&before));
  CHECK_OK(ostraka_fsdp_context_memory(model.context, &before));
  CHECK_INT(before.num_elements, MODEL_SIZE + 6);
  /* Shards of 5 and of 6 doubles, in segments of a multiple of 16 bytes. */
  const int64_t w = (MODEL_SIZE + check_ranks - 1) / check_ranks, fixed = (6 + check_ranks - 1) / check_ranks;
  CHECK(before.parameters >= 8 * (w + fixed) && before.parameters <= 8 * (w + fixed) + 256);
  CHECK(before.gradients >= 8 * w && before.gradients <= 8 * w + 128);
  CHECK_INT(before.optimizer_state, 0);
  CHECK_INT(before.transient, 0);
  CHECK(before.reserved_bytes > 0);
  train_step(&model);
  CHECK_OK(ostraka_memory_report_init(&after));
  CHECK_OK(ostraka_fsdp_context_memory(model.context, &after));
  CHECK_INT(after.parameters, before.parameters);
  CHECK_INT(after.transient, 0);
  CHECK(after.transient_peak >= 8 * MODEL_SIZE);
  CHECK_OK(ostraka_fsdp_module_unshard(model.module));
  CHECK_OK(ostraka_fsdp_context_memory(model.context, &after));
  CHECK(after.transient >= (shares_weights() ? 0 : 8 * (MODEL_SIZE + 6)));
  CHECK_OK(ostraka_fsdp_module_reshard(model.module));
  node_memory(model.context);
  destroy_model(&model);
}

void fsdp_suite(void) {
  set_up_refuses();
  types();
  compute_types();
  ranks_that_disagree();
  replicated_weights(0);
  replicated_weights(1);
  memory();
}
