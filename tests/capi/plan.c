/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of its own: what a plan foresees is what a context says that was created with the same configuration and
 * has made steps, for the shapes of the steam network. The environment says which back end and which nodes.
 */
#include "suites.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 4, STEPS = 2, MOST_DIMS = 2 };
static const int64_t width[LAYERS + 1] = {2, 64, 64, 64, 3};
static const char* const names[LAYERS] = {"layer 1", "layer 2", "layer 3", "layer 4"};

typedef struct {
  int32_t dims, sizes[MOST_DIMS];
  int32_t dtype, micro_batches;
  ostraka_fsdp_config_t config;
} run_t;

static int64_t number(const char* variable, int64_t otherwise) {
  const char* text = getenv(variable);
  return text != NULL ? strtoll(text, NULL, 10) : otherwise;
}

static int is_mpi(void) {
  const char* backend = getenv("OSTRAKA_BACKEND");
  return backend != NULL && strcmp(backend, "mpi") == 0;
}

static ostraka_plan_t make_plan(const run_t* run) {
  ostraka_plan_t plan = NULL;
  ostraka_plan_config_t config;
  CHECK_OK(ostraka_plan_config_init(&config));
  config.backend = is_mpi() ? OSTRAKA_BACKEND_MPI : OSTRAKA_BACKEND_NODE;
  config.ranks_per_node = (int32_t)number("OSTRAKA_RANKS_PER_NODE", 0);
  config.micro_batches = run->micro_batches;
  config.rank = check_rank;
  CHECK_OK(ostraka_plan_create(run->dims, run->sizes, NULL, &run->config, &config, &plan));
  for (int layer = 0; layer < LAYERS; ++layer) {
    const ostraka_shape_t weight = MATRIX(width[layer + 1], width[layer]), bias = VECTOR(width[layer + 1]);
    int32_t unit = -1;
    CHECK_OK(ostraka_plan_add_unit(plan, names[layer], 1, -1, &unit));
    CHECK_INT(unit, layer);
    CHECK_OK(ostraka_plan_add_parameter(plan, unit, "weight", weight, run->dtype, 1));
    CHECK_OK(ostraka_plan_add_parameter(plan, unit, "bias", bias, run->dtype, 1));
  }
  CHECK_OK(ostraka_plan_compute(plan));
  return plan;
}

static void write(ostraka_fsdp_module_t module, const char* name, int32_t dtype) {
  void* data = NULL;
  int64_t count = 0;
  double beta = 0;
  if (CHECK_OK(ostraka_fsdp_module_gradient(module, name, dtype, &data, &count, &beta)) && beta == 0)
    memset(data, 0, (size_t)count * (dtype == OSTRAKA_F64 ? 8 : 4));
}

static void pass(ostraka_fsdp_context_t context, const ostraka_fsdp_module_t* modules, int32_t dtype) {
  const int32_t handed_out = dtype == OSTRAKA_F64 ? OSTRAKA_F64 : OSTRAKA_F32;
  for (int layer = 0; layer < LAYERS; ++layer) {
    CHECK_OK(ostraka_fsdp_module_pre_forward(modules[layer]));
    CHECK_OK(ostraka_fsdp_module_post_forward(modules[layer]));
  }
  for (int layer = LAYERS - 1; layer >= 0; --layer) {
    CHECK_OK(ostraka_fsdp_module_pre_backward(modules[layer]));
    write(modules[layer], "weight", handed_out);
    write(modules[layer], "bias", handed_out);
    CHECK_OK(ostraka_fsdp_module_post_backward(modules[layer]));
  }
  CHECK_OK(ostraka_fsdp_context_finish_backward(context));
}

static void compare(const ostraka_memory_report_t* plan, const ostraka_memory_report_t* context) {
  CHECK_INT(plan->parameters, context->parameters);
  CHECK_INT(plan->gradients, context->gradients);
  CHECK_INT(plan->optimizer_state, context->optimizer_state);
  CHECK_INT(plan->transient, context->transient);
  CHECK_INT(plan->transient_peak, context->transient_peak);
  CHECK_INT(plan->num_elements, context->num_elements);
  CHECK_INT(plan->reserved_bytes, context->reserved_bytes);
}

static void compare_reports(ostraka_plan_t plan, ostraka_fsdp_context_t context) {
  ostraka_memory_report_t expected, found;
  CHECK_OK(ostraka_memory_report_init(&expected));
  CHECK_OK(ostraka_memory_report_init(&found));
  CHECK_OK(ostraka_fsdp_context_memory(context, &found));
  CHECK_OK(ostraka_plan_memory(plan, &expected));
  compare(&expected, &found);
  CHECK_OK(ostraka_fsdp_context_node_memory(context, &found));
  CHECK_OK(ostraka_plan_node_memory(plan, &expected));
  compare(&expected, &found);
}

static void make_steps(const run_t* run, ostraka_plan_t plan) {
  ostraka_mesh_t mesh = NULL;
  ostraka_fsdp_context_t context = NULL;
  ostraka_fsdp_module_t modules[LAYERS];
  ostraka_optimizer_t adamw = NULL;
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, run->dims, run->sizes, NULL, &mesh));
  CHECK_OK(ostraka_fsdp_context_create(mesh, &run->config, &context));
  for (int layer = 0; layer < LAYERS; ++layer) {
    const ostraka_shape_t weight = MATRIX(width[layer + 1], width[layer]), bias = VECTOR(width[layer + 1]);
    CHECK_OK(ostraka_fsdp_context_add_module(context, names[layer], &modules[layer]));
    CHECK_OK(ostraka_fsdp_module_add_parameter(modules[layer], "weight", weight, run->dtype, 1));
    CHECK_OK(ostraka_fsdp_module_add_parameter(modules[layer], "bias", bias, run->dtype, 1));
    CHECK_OK(ostraka_fsdp_module_build(modules[layer]));
  }
  CHECK_OK(ostraka_fsdp_context_finalize(context));
  CHECK_OK(ostraka_adamw_create(context, NULL, &adamw));
  for (int step = 0; step < STEPS; ++step) {
    CHECK_OK(ostraka_fsdp_context_zero_grad(context));
    for (int32_t batch = 1; batch <= run->micro_batches; ++batch) {
      CHECK_OK(ostraka_fsdp_context_set_last_microbatch(context, batch == run->micro_batches));
      pass(context, modules, run->dtype);
    }
    CHECK_OK(ostraka_optimizer_step(adamw));
  }
  compare_reports(plan, context);
  CHECK_OK(ostraka_optimizer_destroy(&adamw));
  CHECK_OK(ostraka_fsdp_context_destroy(&context));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

static void check_run(const run_t* run) {
  ostraka_plan_t plan = make_plan(run);
  make_steps(run, plan);
  CHECK_OK(ostraka_plan_destroy(&plan));
}

static run_t make_run(int32_t outer, int32_t recipe, int32_t dtype, int32_t micro_batches) {
  run_t run = {1, {check_ranks, 0}, dtype, micro_batches, {0}};
  if (outer > 0) {
    run.dims = 2;
    run.sizes[0] = outer;
    run.sizes[1] = check_ranks / outer;
  }
  CHECK_OK(ostraka_fsdp_config_init(&run.config));
  run.config.recipe = recipe;
  return run;
}

static void all_recipes(void) {
  static const int32_t types[] = {OSTRAKA_F64, OSTRAKA_F32, OSTRAKA_BF16};
  for (int32_t recipe = OSTRAKA_NO_SHARD; recipe <= OSTRAKA_ZERO_1_ZERO_2; ++recipe)
    for (int which = 0; which < 3; ++which) {
      const int needs_two = recipe >= OSTRAKA_HSDP;
      const run_t run = make_run(needs_two ? (check_ranks % 2 == 0 ? 2 : 1) : 0, recipe, types[which], 1 + which % 2);
      check_run(&run);
    }
}

/* The members of the configuration, one by one. */
static void settings(void) {
  run_t run = make_run(0, OSTRAKA_ZERO_3, OSTRAKA_F64, 2);
  run.config.prefetch = 0;
  check_run(&run);
  run.config.prefetch = 100000;
  run.config.unified_stream = 1;
  run.config.gradient_slots = 1;
  check_run(&run);
  run.config.gradient_slots = 4;
  run.config.gradient_slot_bytes = 100000; /* two of the ring on one rank, one on more */
  check_run(&run);
  run.dtype = OSTRAKA_F32;
  run.config.main_dtype = OSTRAKA_F64;
  run.config.reduction_dtype = OSTRAKA_F32;
  check_run(&run);
  const ostraka_placement_t replicate = {OSTRAKA_REPLICATE, 0}, shard = {OSTRAKA_SHARD, 0};
  run = make_run(0, OSTRAKA_ZERO_3, OSTRAKA_F64, 1);
  run.config.parameter_placements = &replicate;
  run.config.gradient_placements = run.config.optimizer_placements = &shard; /* ZeRO-2 by hand */
  check_run(&run);
}

int main(int argc, char** argv) {
  check_start(&argc, &argv);
  CHECK_OK(ostraka_initialize());
  all_recipes();
  settings();
  CHECK_OK(ostraka_finalize());
  return check_finish();
}
