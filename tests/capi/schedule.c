/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules inside modules, tied parameters, modules and micro-batches that ranks leave out, recomputation, schedules
 * without hooks, and initial weights from a function or from one rank.
 */
#include "suites.h"

enum { SIZE = 7 };

typedef struct {
  ostraka_mesh_t mesh;
  ostraka_fsdp_context_t context;
  ostraka_fsdp_module_t root, inner, spare; /* "root" without parameters around "inner" and "spare" */
} tree_t;

/* Element k is k + *user. */
static int32_t fill(void* user, int64_t first, int64_t count, void* out, int32_t dtype) {
  if (dtype != OSTRAKA_F64)
    return OSTRAKA_TYPE_MISMATCH;
  for (int64_t k = 0; k < count; ++k)
    ((double*)out)[k] = (double)(first + k) + *(const double*)user;
  return OSTRAKA_OK;
}

static int32_t fill_nothing(void* user, int64_t first, int64_t count, void* out, int32_t dtype) {
  (void)user, (void)first, (void)count, (void)out, (void)dtype;
  return 77;
}

static void check_whole(ostraka_fsdp_module_t module, const char* name, double first) {
  const void* data = NULL;
  int64_t count = 0;
  CHECK_OK(ostraka_fsdp_module_unshard(module));
  if (CHECK_OK(ostraka_fsdp_module_parameter(module, name, OSTRAKA_F64, &data, &count)))
    for (int64_t k = 0; k < count; ++k)
      CHECK_NEAR(((const double*)data)[k], first + (double)k, 0);
  CHECK_INT(count, SIZE);
  CHECK_OK(ostraka_fsdp_module_reshard(module));
}

static void set_up_inner(tree_t* tree) {
  const ostraka_shape_t shape = VECTOR(SIZE);
  const ostraka_fsdp_module_t inner = tree->inner;
  CHECK_OK(ostraka_fsdp_module_add_parameter(inner, "w", shape, OSTRAKA_F64, 1));
  CHECK_OK(ostraka_fsdp_module_tie_parameter(inner, "v", "w"));
  CHECK_FAILS(ostraka_fsdp_module_tie_parameter(inner, "w", "w"), OSTRAKA_INVALID_ARGUMENT, "exists already");
  CHECK_FAILS(ostraka_fsdp_module_tie_parameter(inner, NULL, "w"), OSTRAKA_INVALID_ARGUMENT, "'name' is null");
  CHECK_FAILS(ostraka_fsdp_module_tie_parameter(inner, "x", NULL), OSTRAKA_INVALID_ARGUMENT, "'existing' is null");
  CHECK_FAILS(ostraka_fsdp_module_tie_parameter(tree->spare, "x", "root.inner.w"), OSTRAKA_INVALID_ARGUMENT,
              "owned by module 'root.inner'");
  CHECK_FAILS(ostraka_fsdp_module_set_gradient_divisor(inner, 0), OSTRAKA_INVALID_ARGUMENT, "> 0, found 0");
  CHECK_FAILS(ostraka_fsdp_module_set_prefetch(inner, -2), OSTRAKA_INVALID_ARGUMENT, "found -2");
  CHECK_OK(ostraka_fsdp_module_set_gradient_divisor(inner, 2));
  CHECK_OK(ostraka_fsdp_module_set_prefetch(inner, -1));
  CHECK_OK(ostraka_fsdp_module_build(inner));
}

static void set_weights(tree_t* tree) {
  double from = 10;
  const double values[SIZE] = {3, 4, 5, 6, 7, 8, 9};
  const int root = check_ranks - 1;
  CHECK_FAILS(ostraka_fsdp_module_initialise(tree->inner, "w", NULL, NULL), OSTRAKA_INVALID_ARGUMENT, "'fill' is null");
  CHECK_OK(ostraka_fsdp_module_initialise(tree->inner, "v", fill, &from));
  CHECK_FAILS(ostraka_fsdp_module_set_from_root(tree->spare, "w", OSTRAKA_F64, values, SIZE, -1),
              OSTRAKA_INVALID_ARGUMENT, "found -1");
  CHECK_OK(
      ostraka_fsdp_module_set_from_root(tree->spare, "w", OSTRAKA_F64, check_rank == root ? values : NULL, SIZE, root));
}

static tree_t make_tree(void) {
  tree_t tree = {.mesh = make_mesh()};
  const ostraka_shape_t shape = VECTOR(SIZE);
  ostraka_fsdp_module_t twin = NULL;
  ostraka_fsdp_config_t config;
  CHECK_OK(ostraka_fsdp_config_init(&config));
  CHECK_INT(config.prefetch, -1);
  CHECK_INT(config.unified_stream, 0);
  config.reduction = OSTRAKA_SUM;
  config.unified_stream = 1;
  config.prefetch = 2 * SIZE;
  config.gradient_slots = 3;
  config.gradient_slot_bytes = 0; /* one slot */
  CHECK_OK(ostraka_fsdp_context_create(tree.mesh, &config, &tree.context));
  CHECK_OK(ostraka_fsdp_context_add_module(tree.context, "root", &tree.root));
  CHECK_OK(ostraka_fsdp_module_add_module(tree.root, "inner", &tree.inner));
  CHECK_FAILS(ostraka_fsdp_module_add_module(tree.root, "inner", &twin), OSTRAKA_INVALID_ARGUMENT, "'root.inner'");
  CHECK_FAILS(ostraka_fsdp_module_add_module(tree.root, NULL, &twin), OSTRAKA_INVALID_ARGUMENT, "'name' is null");
  CHECK_FAILS(ostraka_fsdp_module_add_module(tree.root, "x", NULL), OSTRAKA_INVALID_ARGUMENT, "'module' is null");
  CHECK_OK(ostraka_fsdp_module_add_module(tree.root, "spare", &tree.spare));
  set_up_inner(&tree);
  CHECK_OK(ostraka_fsdp_module_add_parameter(tree.spare, "w", shape, OSTRAKA_F64, 1));
  CHECK_OK(ostraka_fsdp_module_set_allow_unused(tree.spare, 1));
  CHECK_OK(ostraka_fsdp_module_build(tree.spare));
  set_weights(&tree);
  CHECK_OK(ostraka_fsdp_context_finalize(tree.context));
  check_whole(tree.inner, "w", 10);
  check_whole(tree.spare, "w", 3);
  return tree;
}

static void write(ostraka_fsdp_module_t module, const char* name, double value) {
  void* data = NULL;
  int64_t count = 0;
  double beta = -1;
  if (CHECK_OK(ostraka_fsdp_module_gradient(module, name, OSTRAKA_F64, &data, &count, &beta)))
    for (int64_t k = 0; k < count; ++k)
      ((double*)data)[k] = value + (beta == 0 ? 0 : ((double*)data)[k]);
}

static void check_gradient(ostraka_fsdp_module_t module, double expected) {
  const void* data = NULL;
  int64_t count = 0, offset = 0;
  if (CHECK_OK(ostraka_fsdp_module_main_gradient(module, "w", OSTRAKA_F64, &data, &count, &offset)))
    for (int64_t k = 0; k < count; ++k)
      CHECK_NEAR(((const double*)data)[k], expected, 0);
}

static void run_forward(ostraka_fsdp_module_t module) {
  CHECK_OK(ostraka_fsdp_module_pre_forward(module));
  CHECK_OK(ostraka_fsdp_module_post_forward(module));
}

/* Rank 0 does not compute "inner"; nobody runs "spare"; the others recompute "inner" and write under both names. */
static void skipped_unused_recomputed(const tree_t* tree) {
  CHECK_OK(ostraka_fsdp_context_zero_grad(tree->context));
  CHECK_OK(ostraka_fsdp_module_pre_forward(tree->root));
  if (check_rank == 0)
    CHECK_OK(ostraka_fsdp_module_skip_forward(tree->inner));
  else
    run_forward(tree->inner);
  CHECK_OK(ostraka_fsdp_module_post_forward(tree->root));
  CHECK_OK(ostraka_fsdp_context_begin_backward(tree->context));
  run_forward(tree->inner);
  CHECK_OK(ostraka_fsdp_module_pre_backward(tree->root));
  if (check_rank == 0) {
    CHECK_OK(ostraka_fsdp_module_skip_backward(tree->inner));
  } else {
    CHECK_OK(ostraka_fsdp_module_pre_backward(tree->inner));
    write(tree->inner, "w", 1);
    write(tree->inner, "v", 3);
    CHECK_OK(ostraka_fsdp_module_post_backward(tree->inner));
  }
  CHECK_OK(ostraka_fsdp_module_post_backward(tree->root));
  CHECK_OK(ostraka_fsdp_context_finish_backward(tree->context));
  check_gradient(tree->inner, 4.0 * (check_ranks - 1) / 2);
  check_gradient(tree->spare, 0);
}

/* Rank 0 has one micro-batch less. */
static void skipped_microbatch(const tree_t* tree) {
  CHECK_OK(ostraka_fsdp_context_zero_grad(tree->context));
  for (int k = 0; k < 2; ++k) {
    CHECK_OK(ostraka_fsdp_context_set_last_microbatch(tree->context, k == 1));
    if (check_rank == 0 && k == 1) {
      CHECK_OK(ostraka_fsdp_context_skip_microbatch(tree->context));
      continue;
    }
    run_forward(tree->inner);
    CHECK_OK(ostraka_fsdp_module_pre_backward(tree->inner));
    write(tree->inner, "w", 2);
    CHECK_OK(ostraka_fsdp_module_post_backward(tree->inner));
    CHECK_OK(ostraka_fsdp_context_finish_backward(tree->context));
  }
  check_gradient(tree->inner, 2 * check_ranks - 1);
  CHECK_OK(ostraka_fsdp_module_pre_forward(tree->inner));
  CHECK_FAILS(ostraka_fsdp_context_skip_microbatch(tree->context), OSTRAKA_INVALID_STATE, "hooks of this micro-batch");
  CHECK_FAILS(ostraka_fsdp_context_begin_backward(tree->context), OSTRAKA_INVALID_STATE, "post_forward");
  CHECK_OK(ostraka_fsdp_module_post_forward(tree->inner));
  CHECK_OK(ostraka_fsdp_context_finish_backward(tree->context));
}

static void without_hooks(const tree_t* tree) {
  CHECK_OK(ostraka_fsdp_context_zero_grad(tree->context));
  CHECK_FAILS(ostraka_fsdp_module_unshard_ahead(tree->inner, 3), OSTRAKA_INVALID_ARGUMENT, "found 3");
  for (int32_t ahead = OSTRAKA_AHEAD_NONE; ahead <= OSTRAKA_AHEAD_BACKWARD; ++ahead) {
    CHECK_OK(ostraka_fsdp_module_unshard_ahead(tree->inner, ahead));
    write(tree->inner, "w", 4);
    CHECK_FAILS(ostraka_fsdp_module_reshard(tree->inner), OSTRAKA_INVALID_STATE, "reduce_gradients first");
    CHECK_OK(ostraka_fsdp_module_reduce_gradients(tree->inner));
    CHECK_OK(ostraka_fsdp_module_reshard(tree->inner));
  }
  CHECK_OK(ostraka_fsdp_context_finish_backward(tree->context));
  check_gradient(tree->inner, 6 * check_ranks);
}

static void late_weights(const tree_t* tree) {
  double from = -5;
  if (ostraka_fsdp_module_initialise(tree->inner, "w", fill_nothing, NULL) != OSTRAKA_OK) /* a rank may own nothing */
    CHECK_FAILS(ostraka_fsdp_module_initialise(tree->inner, "w", fill_nothing, NULL), OSTRAKA_USER_FAILURE, "77");
  else
    CHECK_OK(ostraka_fsdp_module_initialise(tree->inner, "w", fill_nothing, NULL));
  CHECK_OK(ostraka_fsdp_module_initialise(tree->inner, "w", fill, &from));
  check_whole(tree->inner, "v", -5);
}

void schedule_suite(void) {
  tree_t tree = make_tree();
  for (int step = 0; step < 2; ++step)
    skipped_unused_recomputed(&tree);
  skipped_microbatch(&tree);
  without_hooks(&tree);
  late_weights(&tree);
  const ostraka_fsdp_module_t inner = tree.inner;
  CHECK_OK(ostraka_fsdp_context_destroy(&tree.context));
  CHECK_FAILS(ostraka_fsdp_module_pre_forward(inner), OSTRAKA_INVALID_HANDLE, "module");
  CHECK_OK(ostraka_mesh_destroy(&tree.mesh));
}
