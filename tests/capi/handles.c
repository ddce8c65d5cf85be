/* SPDX-License-Identifier: Apache-2.0
 *
 * Every function that takes a handle, with a null one, a destroyed one, one that never was, and those of all other
 * kinds.
 */
#include "suites.h"

#include <string.h>

enum { MESH, LAYOUT, BUFFER, FLAT_BUFFER, CONTEXT, MODULE, DDP, OPTIMIZER, KINDS };
static void *alive[KINDS], *destroyed[KINDS];
static model_t model;

static const int64_t extents[] = {4};
static const ostraka_shape_t shape = {1, extents};
static const ostraka_placement_t shard = {OSTRAKA_SHARD, 0};

static void make_handles(void) {
  model_t gone = make_model();
  model = make_model();
  ostraka_layout_t layouts[2];
  ostraka_buffer_t buffers[2];
  ostraka_flat_buffer_t flats[2];
  ostraka_ddp_t ddps[2];
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(ostraka_layout_build(OSTRAKA_PLANNED, 1, &shape, 0, NULL, check_ranks, 1, 1, &layouts[i]));
    CHECK_OK(ostraka_buffer_create(model.mesh, &shard, layouts[i], OSTRAKA_F64, &buffers[i]));
    CHECK_OK(ostraka_flat_buffer_create(model.mesh, 0, 1, &shape, OSTRAKA_F64, &flats[i]));
    CHECK_OK(ostraka_ddp_create(model.mesh, NULL, NULL, &ddps[i]));
  }
  void* const first[] = {model.mesh, layouts[0], buffers[0], flats[0], model.context, model.module, ddps[0], model.sgd};
  void* const second[] = {gone.mesh, layouts[1], buffers[1], flats[1], gone.context, gone.module, ddps[1], gone.sgd};
  memcpy(alive, first, sizeof alive);
  memcpy(destroyed, second, sizeof destroyed);
  CHECK_OK(ostraka_buffer_destroy(&buffers[1]));
  CHECK_OK(ostraka_flat_buffer_destroy(&flats[1]));
  CHECK_OK(ostraka_layout_destroy(&layouts[1]));
  CHECK_OK(ostraka_ddp_destroy(&ddps[1]));
  destroy_model(&gone);
}

/* Handle number `i` that is no living one of `kind`, and what the message says about it. */
static void* bad_handle(int kind, int i, const char** words) {
  if (i == 0) {
    *words = "handle is null";
    return NULL;
  }
  *words = "was destroyed or was never created";
  if (i == 1)
    return destroyed[kind];
  if (i == 2)
    return (void*)(uintptr_t)0xdeadbeef;
  *words = "found one of another kind";
  return alive[(kind + i - 2) % KINDS];
}
enum { BAD_HANDLES = 3 + KINDS - 1 };

#define REFUSES(kind, type, call)                                                                                      \
  do {                                                                                                                 \
    for (int i = 0; i < BAD_HANDLES; ++i) {                                                                            \
      const char* words = NULL;                                                                                        \
      const type handle = (type)bad_handle(kind, i, &words);                                                           \
      CHECK_FAILS(call, OSTRAKA_INVALID_HANDLE, words);                                                                \
    }                                                                                                                  \
  } while (0)

static void mesh_functions(void) {
  int32_t n = 0;
  int64_t bytes = 0;
  ostraka_buffer_t buffer = NULL;
  ostraka_flat_buffer_t flat = NULL;
  ostraka_fsdp_context_t context = NULL;
  ostraka_ddp_t ddp = NULL;
  double values[4] = {0};
  const void* const tensors[] = {values};
  const ostraka_layout_t layout = alive[LAYOUT];
  REFUSES(MESH, ostraka_mesh_t, ostraka_mesh_dims(handle, &n));
  REFUSES(MESH, ostraka_mesh_t, ostraka_mesh_rank(handle, &n));
  REFUSES(MESH, ostraka_mesh_t, ostraka_mesh_size(handle, &n));
  REFUSES(MESH, ostraka_mesh_t, ostraka_mesh_axis(handle, "axis0", &n));
  REFUSES(MESH, ostraka_mesh_t, ostraka_mesh_axis_size(handle, 0, &n));
  REFUSES(MESH, ostraka_mesh_t, ostraka_mesh_coordinate(handle, 0, &n));
  REFUSES(MESH, ostraka_mesh_t, ostraka_mesh_memory(handle, 0, &bytes, &bytes));
  REFUSES(MESH, ostraka_mesh_t, ostraka_buffer_create(handle, &shard, layout, 0, &buffer));
  REFUSES(MESH, ostraka_mesh_t, ostraka_buffer_empty(handle, &shard, 1, &shape, 0, &buffer));
  REFUSES(MESH, ostraka_mesh_t, ostraka_buffer_from_local(handle, &shard, layout, 0, values, 4, 1, &buffer));
  REFUSES(MESH, ostraka_mesh_t, ostraka_buffer_distribute(handle, &shard, NULL, 1, &shape, 0, tensors, &buffer));
  REFUSES(MESH, ostraka_mesh_t, ostraka_flat_buffer_create(handle, 0, 1, &shape, 0, &flat));
  REFUSES(MESH, ostraka_mesh_t, ostraka_fsdp_context_create(handle, NULL, &context));
  REFUSES(MESH, ostraka_mesh_t, ostraka_ddp_create(handle, NULL, NULL, &ddp));
  CHECK_FAILS(ostraka_ddp_create(alive[MESH], NULL, destroyed[MESH], &ddp), OSTRAKA_INVALID_HANDLE, "destroyed");
  CHECK_FAILS(ostraka_ddp_create(alive[MESH], NULL, alive[BUFFER], &ddp), OSTRAKA_INVALID_HANDLE, "another kind");
  CHECK(buffer == NULL && flat == NULL && context == NULL && ddp == NULL);
}

static void layout_functions(void) {
  int64_t n = 0, m = 0, extent[8];
  int32_t k = 0, owners[2] = {7, 7};
  const char* text = NULL;
  double values[4] = {0};
  ostraka_buffer_t buffer = NULL;
  const ostraka_mesh_t mesh = alive[MESH];
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_size(handle, &n));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_payload(handle, &n));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_segment_size(handle, &n));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_num_tensors(handle, &k));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_tensor_shape(handle, 0, &k, extent));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_tensor_range(handle, 0, &n, &m));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_report(handle, &text));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_report_json(handle, &text));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_policy(handle, &k));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_num_segments(handle, &k));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_segment_range(handle, 0, &n, &m));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_owners(handle, 0, &k, &k));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_local_range(handle, 1, &shard, &check_ranks, &k, &n, &m));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_row_chunk(handle, 0, 0, 1, &n, &m));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_boxes(handle, 0, 0, 1, 1, &n, &m, &k));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_validate(handle, 0, NULL));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_hash(handle, &n));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_layout_plan_owners(1, &handle, 5, &k));
  CHECK_FAILS(ostraka_layout_plan_owners(2, (const ostraka_layout_t[]){alive[LAYOUT], destroyed[LAYOUT]}, 5, owners),
              OSTRAKA_INVALID_HANDLE, "destroyed");
  CHECK(n == 0 && m == 0 && k == 0 && text == NULL && owners[0] == 7 && owners[1] == 7);
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_buffer_create(mesh, &shard, handle, 0, &buffer));
  REFUSES(LAYOUT, ostraka_layout_t, ostraka_buffer_from_local(mesh, &shard, handle, 0, values, 4, 1, &buffer));
  CHECK(buffer == NULL);
  /* NULL means a reference layout here. */
  const void* const tensors[] = {values};
  CHECK_FAILS(ostraka_buffer_distribute(mesh, &shard, destroyed[LAYOUT], 1, &shape, 0, tensors, &buffer),
              OSTRAKA_INVALID_HANDLE, "destroyed");
  CHECK_FAILS(ostraka_buffer_distribute(mesh, &shard, alive[MODULE], 1, &shape, 0, tensors, &buffer),
              OSTRAKA_INVALID_HANDLE, "another kind");
}

static void buffer_functions(void) {
  int64_t n = 0, m = 0;
  int32_t k = 0;
  void* data = NULL;
  ostraka_buffer_t result = NULL;
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_copy_from(handle, 0, &n, 1));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_view(handle, &shard, &result));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_cast(handle, 1, NULL, &result));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_allgather(handle, 0, NULL, &result));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_reduce_scatter(handle, 0, NULL, &result));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_allreduce(handle, 0, NULL, &result));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_redistribute(handle, &shard, NULL, &result));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_redistribute_into(handle, alive[BUFFER]));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_redistribute_into(alive[BUFFER], handle));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_set_name(handle, "name"));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_local(handle, &data, &n, &m));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_tensor_view(handle, 0, &data, &n, &m));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_tensor_range(handle, 0, &data, &n, &m));
  ostraka_layout_t layout = NULL;
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_layout(handle, &layout));
  CHECK(layout == NULL);
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_num_tensors(handle, &k));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_tensor_shape(handle, 0, &k, NULL));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_dtype(handle, &k));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_mesh_dims(handle, &k));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_release_storage(handle));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_reallocate_storage(handle));
  REFUSES(BUFFER, ostraka_buffer_t, ostraka_buffer_is_allocated(handle, &k));
  const ostraka_buffer_t buffer = alive[BUFFER]; /* as `out`, where NULL is welcome */
  CHECK_FAILS(ostraka_buffer_cast(buffer, 0, destroyed[BUFFER], &result), OSTRAKA_INVALID_HANDLE, "destroyed");
  CHECK_FAILS(ostraka_buffer_allgather(buffer, 0, alive[MESH], &result), OSTRAKA_INVALID_HANDLE, "another kind");
  CHECK_FAILS(ostraka_buffer_reduce_scatter(buffer, 0, alive[MESH], &result), OSTRAKA_INVALID_HANDLE, "another kind");
  CHECK_FAILS(ostraka_buffer_allreduce(buffer, 0, alive[MESH], &result), OSTRAKA_INVALID_HANDLE, "another kind");
  CHECK_FAILS(ostraka_buffer_redistribute(buffer, &shard, alive[MESH], &result), OSTRAKA_INVALID_HANDLE,
              "another kind");
  CHECK(result == NULL);
}

static void flat_buffer_functions(void) {
  int64_t n = 0;
  int32_t k = 0;
  void* data = NULL;
#define FLAT_REFUSES(call) REFUSES(FLAT_BUFFER, ostraka_flat_buffer_t, call)
  FLAT_REFUSES(ostraka_flat_buffer_num_tensors(handle, &k));
  FLAT_REFUSES(ostraka_flat_buffer_dtype(handle, &k));
  FLAT_REFUSES(ostraka_flat_buffer_tensor_shape(handle, 0, &k, NULL));
  FLAT_REFUSES(ostraka_flat_buffer_view(handle, 0, &data, &n));
  FLAT_REFUSES(ostraka_flat_buffer_local_shard(handle, &data, &n));
  FLAT_REFUSES(ostraka_flat_buffer_data(handle, &data, &n));
  FLAT_REFUSES(ostraka_flat_buffer_reduce_scatter(handle));
  FLAT_REFUSES(ostraka_flat_buffer_all_gather(handle));
  CHECK(n == 0 && k == 0 && data == NULL);
}

static void context_functions(void) {
  ostraka_fsdp_module_t module = NULL;
  ostraka_optimizer_t optimizer = NULL;
  ostraka_memory_report_t report;
  CHECK_OK(ostraka_memory_report_init(&report));
#define CONTEXT_REFUSES(call) REFUSES(CONTEXT, ostraka_fsdp_context_t, call)
  CONTEXT_REFUSES(ostraka_fsdp_context_add_module(handle, "m", &module));
  CONTEXT_REFUSES(ostraka_fsdp_context_finalize(handle));
  CONTEXT_REFUSES(ostraka_fsdp_context_finish_backward(handle));
  CONTEXT_REFUSES(ostraka_fsdp_context_begin_backward(handle));
  CONTEXT_REFUSES(ostraka_fsdp_context_skip_microbatch(handle));
  CONTEXT_REFUSES(ostraka_fsdp_context_fail_step(handle, "why"));
  CONTEXT_REFUSES(ostraka_fsdp_context_set_last_microbatch(handle, 1));
  CONTEXT_REFUSES(ostraka_fsdp_context_zero_grad(handle));
  CONTEXT_REFUSES(ostraka_fsdp_context_begin_inference(handle));
  CONTEXT_REFUSES(ostraka_fsdp_context_end_inference(handle));
  CONTEXT_REFUSES(ostraka_fsdp_context_memory(handle, &report));
  CONTEXT_REFUSES(ostraka_adamw_create(handle, NULL, &optimizer));
  CONTEXT_REFUSES(ostraka_sgd_create(handle, NULL, &optimizer));
  CHECK(module == NULL && optimizer == NULL);
}

static void module_functions(void) {
  ostraka_group_options_t group;
  CHECK_OK(ostraka_group_options_init(&group));
  const void* data = NULL;
  void* gradient = NULL;
  int64_t n = 0, m = 0;
  int32_t k = 0;
  double beta = 0;
  ostraka_fsdp_module_t child = NULL;
#define MODULE_REFUSES(call) REFUSES(MODULE, ostraka_fsdp_module_t, call)
  MODULE_REFUSES(ostraka_fsdp_module_add_parameter(handle, "w", shape, 0, 1));
  MODULE_REFUSES(ostraka_fsdp_module_add_module(handle, "m", &child));
  MODULE_REFUSES(ostraka_fsdp_module_tie_parameter(handle, "v", "w"));
  MODULE_REFUSES(ostraka_fsdp_module_set_allow_unused(handle, 1));
  MODULE_REFUSES(ostraka_fsdp_module_set_prefetch(handle, 0));
  MODULE_REFUSES(ostraka_fsdp_module_set_gradient_divisor(handle, 2));
  MODULE_REFUSES(ostraka_fsdp_module_set_from_root(handle, "w", 0, &n, 1, 0));
  MODULE_REFUSES(ostraka_fsdp_module_initialise(handle, "w", NULL, NULL));
  MODULE_REFUSES(ostraka_fsdp_module_skip_forward(handle));
  MODULE_REFUSES(ostraka_fsdp_module_skip_backward(handle));
  MODULE_REFUSES(ostraka_fsdp_module_unshard_ahead(handle, 1));
  MODULE_REFUSES(ostraka_fsdp_module_reduce_gradients(handle));
  MODULE_REFUSES(ostraka_fsdp_module_build(handle));
  MODULE_REFUSES(ostraka_fsdp_module_set_parameter(handle, "w", 0, &n, 1));
  MODULE_REFUSES(ostraka_fsdp_module_pre_forward(handle));
  MODULE_REFUSES(ostraka_fsdp_module_post_forward(handle));
  MODULE_REFUSES(ostraka_fsdp_module_pre_backward(handle));
  MODULE_REFUSES(ostraka_fsdp_module_post_backward(handle));
  MODULE_REFUSES(ostraka_fsdp_module_parameter(handle, "w", 0, &data, &n));
  MODULE_REFUSES(ostraka_fsdp_module_gradient(handle, "w", 0, &gradient, &n, &beta));
  MODULE_REFUSES(ostraka_fsdp_module_parameter_shape(handle, "w", &k, NULL));
  MODULE_REFUSES(ostraka_fsdp_module_main_gradient(handle, "w", 0, &data, &n, &m));
  MODULE_REFUSES(ostraka_fsdp_module_unshard(handle));
  MODULE_REFUSES(ostraka_fsdp_module_reshard(handle));
  REFUSES(OPTIMIZER, ostraka_optimizer_t, ostraka_optimizer_step(handle));
  REFUSES(OPTIMIZER, ostraka_optimizer_t, ostraka_optimizer_set_learning_rate(handle, 1));
  REFUSES(OPTIMIZER, ostraka_optimizer_t, ostraka_optimizer_steps(handle, &n));
  REFUSES(OPTIMIZER, ostraka_optimizer_t, ostraka_optimizer_set_steps(handle, 1));
  REFUSES(OPTIMIZER, ostraka_optimizer_t, ostraka_optimizer_set_group(handle, "*", &group));
  REFUSES(OPTIMIZER, ostraka_optimizer_t, ostraka_optimizer_gradient_norm(handle, OSTRAKA_NORM_L2, &beta));
  REFUSES(OPTIMIZER, ostraka_optimizer_t, ostraka_optimizer_clip_gradients(handle, 1, &beta));
  REFUSES(OPTIMIZER, ostraka_optimizer_t, ostraka_optimizer_scale_gradients(handle, 1));
  REFUSES(OPTIMIZER, ostraka_optimizer_t, ostraka_optimizer_check_finite(handle));
  REFUSES(OPTIMIZER, ostraka_optimizer_t, ostraka_optimizer_is_finite(handle, &k));
}

static void ddp_functions(void) {
  void* data = NULL;
  const void* found = NULL;
  int64_t n = 0, m = 0;
  int32_t k = 0;
  double beta = 0;
  ostraka_optimizer_t optimizer = NULL;
  ostraka_memory_report_t report;
  CHECK_OK(ostraka_memory_report_init(&report));
#define DDP_REFUSES(call) REFUSES(DDP, ostraka_ddp_t, call)
  DDP_REFUSES(ostraka_ddp_add_parameter(handle, "w", shape, 0, 0));
  DDP_REFUSES(ostraka_ddp_finalize(handle));
  DDP_REFUSES(ostraka_ddp_set_parameter(handle, "w", 0, &n, 1));
  DDP_REFUSES(ostraka_ddp_parameter(handle, "w", 0, &data, &n));
  DDP_REFUSES(ostraka_ddp_parameter_shape(handle, "w", &k, NULL));
  DDP_REFUSES(ostraka_ddp_broadcast_params(handle));
  DDP_REFUSES(ostraka_ddp_gradient(handle, "w", 0, &data, &n, &beta));
  DDP_REFUSES(ostraka_ddp_gradient_dtype(handle, "w", &k));
  DDP_REFUSES(ostraka_ddp_gradient_ready(handle, "w"));
  DDP_REFUSES(ostraka_ddp_set_uses(handle, "w", 1));
  DDP_REFUSES(ostraka_ddp_begin_no_sync(handle));
  DDP_REFUSES(ostraka_ddp_end_no_sync(handle));
  DDP_REFUSES(ostraka_ddp_is_syncing(handle, &k));
  DDP_REFUSES(ostraka_ddp_start_grad_sync(handle));
  DDP_REFUSES(ostraka_ddp_finish_grad_sync(handle, 0));
  DDP_REFUSES(ostraka_ddp_fail_step(handle, "why"));
  DDP_REFUSES(ostraka_ddp_zero_grad_buffer(handle));
  DDP_REFUSES(ostraka_ddp_scale_gradients(handle, 1));
  DDP_REFUSES(ostraka_ddp_main_gradient(handle, "w", 0, &found, &n, &m));
  DDP_REFUSES(ostraka_ddp_offload_grad_buffers(handle));
  DDP_REFUSES(ostraka_ddp_restore_grad_buffers(handle));
  DDP_REFUSES(ostraka_ddp_start_param_sync(handle, 0, 0));
  DDP_REFUSES(ostraka_ddp_pre_forward(handle, "m"));
  DDP_REFUSES(ostraka_ddp_enable_forward_pre_hook(handle));
  DDP_REFUSES(ostraka_ddp_disable_forward_pre_hook(handle, 0));
  DDP_REFUSES(ostraka_ddp_has_forward_pre_hook(handle, &k));
  DDP_REFUSES(ostraka_ddp_ensure_ready(handle, "w"));
  DDP_REFUSES(ostraka_ddp_reset_param_sync_dispatch_state(handle));
  DDP_REFUSES(ostraka_ddp_free_overlap_buffers(handle));
  DDP_REFUSES(ostraka_ddp_memory(handle, &report));
  DDP_REFUSES(ostraka_adamw_create_ddp(handle, NULL, &optimizer));
  DDP_REFUSES(ostraka_sgd_create_ddp(handle, NULL, &optimizer));
  CHECK(data == NULL && found == NULL && n == 0 && m == 0 && k == 0 && optimizer == NULL);
}

/* Null is fine and stays null; a copy of a destroyed handle, or another kind, is not, and keeps its value. */
#define DESTROYS(kind, type, function)                                                                                 \
  do {                                                                                                                 \
    type handle = NULL;                                                                                                \
    CHECK_OK(function(&handle));                                                                                       \
    CHECK(handle == NULL);                                                                                             \
    for (int i = 1; i < BAD_HANDLES; ++i) {                                                                            \
      const char* words = NULL;                                                                                        \
      handle = (type)bad_handle(kind, i, &words);                                                                      \
      const type before = handle;                                                                                      \
      CHECK_FAILS(function(&handle), OSTRAKA_INVALID_HANDLE, words);                                                   \
      CHECK(handle == before);                                                                                         \
    }                                                                                                                  \
    CHECK_FAILS(function(NULL), OSTRAKA_INVALID_ARGUMENT, "handle is null");                                           \
  } while (0)

static void destroy_functions(void) {
  DESTROYS(MESH, ostraka_mesh_t, ostraka_mesh_destroy);
  DESTROYS(LAYOUT, ostraka_layout_t, ostraka_layout_destroy);
  DESTROYS(BUFFER, ostraka_buffer_t, ostraka_buffer_destroy);
  DESTROYS(FLAT_BUFFER, ostraka_flat_buffer_t, ostraka_flat_buffer_destroy);
  DESTROYS(CONTEXT, ostraka_fsdp_context_t, ostraka_fsdp_context_destroy);
  DESTROYS(DDP, ostraka_ddp_t, ostraka_ddp_destroy);
  DESTROYS(OPTIMIZER, ostraka_optimizer_t, ostraka_optimizer_destroy);
}

/* Modules end with their context; an optimizer outlives it but cannot step. */
static void a_context_takes_its_modules_along(void) {
  model_t other = make_model();
  train_step(&other);
  CHECK_OK(ostraka_fsdp_context_destroy(&other.context));
  CHECK_FAILS(ostraka_fsdp_module_pre_forward(other.module), OSTRAKA_INVALID_HANDLE, "module handle was destroyed");
  CHECK_FAILS(ostraka_optimizer_step(other.sgd), OSTRAKA_INVALID_STATE, "context of its parameters is destroyed");
  CHECK_OK(ostraka_optimizer_set_learning_rate(other.sgd, 0.25));
  destroy_model(&other);
}

void handle_suite(void) {
  make_handles();
  mesh_functions();
  layout_functions();
  buffer_functions();
  flat_buffer_functions();
  context_functions();
  module_functions();
  ddp_functions();
  destroy_functions();
  a_context_takes_its_modules_along();
  train_step(&model); /* what was alive still works */
  ostraka_buffer_t buffer = alive[BUFFER], whole = NULL;
  ostraka_flat_buffer_t flat = alive[FLAT_BUFFER];
  ostraka_layout_t layout = alive[LAYOUT];
  ostraka_ddp_t ddp = alive[DDP];
  CHECK_OK(ostraka_ddp_destroy(&ddp));
  CHECK_OK(ostraka_flat_buffer_all_gather(flat));
  CHECK_OK(ostraka_flat_buffer_destroy(&flat));
  CHECK_OK(ostraka_buffer_allgather(buffer, 0, NULL, &whole));
  CHECK_OK(ostraka_buffer_destroy(&whole));
  CHECK_OK(ostraka_buffer_destroy(&buffer));
  CHECK_OK(ostraka_layout_destroy(&layout));
  destroy_model(&model);
}
