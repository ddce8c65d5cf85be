/* SPDX-License-Identifier: Apache-2.0
 *
 * The heads of the config and report structs: size, version, garbage.
 */
#include "suites.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { WRONG = 5, GARBAGE = 0xA5 };

/* A wrong size or version, refused without a change. */
typedef struct {
  int64_t size;
  int32_t version;
  char words[40];
} head_t;

/* The k-th for a struct that has `first_size` bytes in version 1 and `size` in the newest. */
static head_t wrong(int k, int64_t first_size, int64_t size, int32_t newest) {
  head_t head = {k == 0 ? first_size - 8 : k == 1 ? size + 8 : size, newest, "bytes, found"};
  if (k < 2)
    return head;
  head.version = k == 2 ? newest + 1 : 3 - k; /* the next one, 0, -1 */
  snprintf(head.words, sizeof head.words, "expected version 1 to %d, found %d", (int)newest, (int)head.version);
  return head;
}

#define INIT_REFUSES(type, function, first_size, newest)                                                               \
  do {                                                                                                                 \
    type config, before;                                                                                               \
    memset(&config, GARBAGE, sizeof config);                                                                           \
    memcpy(&before, &config, sizeof config);                                                                           \
    for (int i = 0; i < WRONG; ++i) {                                                                                  \
      const head_t head = wrong(i, first_size, (int64_t)sizeof config, newest);                                        \
      CHECK_FAILS(function##_versioned(&config, head.size, head.version), OSTRAKA_INVALID_ARGUMENT, head.words);       \
      CHECK(memcmp(&before, &config, sizeof config) == 0);                                                             \
    }                                                                                                                  \
    CHECK_FAILS(function##_versioned(NULL, (int64_t)sizeof config, 1), OSTRAKA_INVALID_ARGUMENT, "is null");           \
    CHECK_FAILS(function(NULL), OSTRAKA_INVALID_ARGUMENT, "is null");                                                  \
    CHECK_OK(function##_versioned(&config, (int64_t)sizeof config, 1));                                                \
    CHECK_INT(config.struct_size, (int64_t)sizeof config);                                                             \
  } while (0)

/* `call` uses `config`, a struct of `type`. */
#define USE_REFUSES(type, function, first_size, newest, call)                                                          \
  do {                                                                                                                 \
    type config;                                                                                                       \
    memset(&config, GARBAGE, sizeof config);                                                                           \
    CHECK_FAILS(call, OSTRAKA_INVALID_ARGUMENT, "initialise the struct with its _init function");                      \
    memset(&config, 0, sizeof config);                                                                                 \
    CHECK_FAILS(call, OSTRAKA_INVALID_ARGUMENT, "initialise the struct with its _init function");                      \
    for (int i = 0; i < WRONG; ++i) {                                                                                  \
      const head_t head = wrong(i, first_size, (int64_t)sizeof config, newest);                                        \
      CHECK_OK(function(&config));                                                                                     \
      config.struct_size = head.size;                                                                                  \
      config.version = head.version;                                                                                   \
      CHECK_FAILS(call, OSTRAKA_INVALID_ARGUMENT, head.words);                                                         \
    }                                                                                                                  \
  } while (0)

static void fsdp_members(ostraka_mesh_t mesh) {
  ostraka_fsdp_context_t context = NULL;
  ostraka_fsdp_config_t config;
#define MEMBER_REFUSED(member, value, status, words)                                                                   \
  do {                                                                                                                 \
    CHECK_OK(ostraka_fsdp_config_init(&config));                                                                       \
    config.member = value;                                                                                             \
    CHECK_FAILS(ostraka_fsdp_context_create(mesh, &config, &context), status, words);                                  \
  } while (0)
  MEMBER_REFUSED(recipe, 7, OSTRAKA_INVALID_ARGUMENT, "found 7");
  MEMBER_REFUSED(recipe, OSTRAKA_HSDP, OSTRAKA_INVALID_ARGUMENT, "at least two axes");
  MEMBER_REFUSED(reduction, 2, OSTRAKA_INVALID_ARGUMENT, "found 2");
  MEMBER_REFUSED(gradient_slots, 0, OSTRAKA_INVALID_ARGUMENT, "gradient_slots >= 1, found 0");
  MEMBER_REFUSED(gradient_slot_bytes, -2, OSTRAKA_INVALID_ARGUMENT, "gradient_slot_bytes >= 0, or none, found -2");
  MEMBER_REFUSED(prefetch, -2, OSTRAKA_INVALID_ARGUMENT, "prefetch >= 0 elements, or none, found -2");
  MEMBER_REFUSED(main_dtype, 99, OSTRAKA_INVALID_ARGUMENT, "99");
  MEMBER_REFUSED(main_dtype, OSTRAKA_BF16, OSTRAKA_TYPE_MISMATCH, "found bf16");
  MEMBER_REFUSED(reduction_dtype, OSTRAKA_F16, OSTRAKA_TYPE_MISMATCH, "reduction type of f64, f32 or bf16, found f16");
  const ostraka_placement_t shard = {OSTRAKA_SHARD, 0}, replicate = {OSTRAKA_REPLICATE, 0};
  MEMBER_REFUSED(parameter_placements, &shard, OSTRAKA_INVALID_ARGUMENT, "'gradient_placements' is null; expected all");
  config.gradient_placements = &shard;
  config.optimizer_placements = &replicate;
  CHECK_FAILS(ostraka_fsdp_context_create(mesh, &config, &context), OSTRAKA_INVALID_ARGUMENT, "shards weights");
  MEMBER_REFUSED(compute_dtype, OSTRAKA_I32, OSTRAKA_TYPE_MISMATCH, "compute type of f64, f32 or bf16, found i32");
  if (check_ranks > 1) { /* one rank alone differs, or is wrong: all get the same answer */
    MEMBER_REFUSED(gradient_slots, 2 + check_rank, OSTRAKA_RANKS_DISAGREE, "configuration: gradient_slots (here");
    MEMBER_REFUSED(gradient_slot_bytes, check_rank, OSTRAKA_RANKS_DISAGREE, "configuration: gradient_slot_bytes (here");
    MEMBER_REFUSED(gradient_slots, check_rank == 1 ? 0 : 2, OSTRAKA_INVALID_ARGUMENT, "rank 1: ");
  }
  CHECK(context == NULL);
}

static void ddp_members(ostraka_mesh_t mesh) {
  ostraka_ddp_t ddp = NULL;
  ostraka_ddp_config_t config;
  const char* const pattern = NULL;
#define DDP_REFUSED(member, value, status, words)                                                                      \
  do {                                                                                                                 \
    CHECK_OK(ostraka_ddp_config_init(&config));                                                                        \
    config.member = value;                                                                                             \
    CHECK_FAILS(ostraka_ddp_create(mesh, &config, NULL, &ddp), status, words);                                         \
  } while (0)
  DDP_REFUSED(scaling, 3, OSTRAKA_INVALID_ARGUMENT, "or sum (2), found 3");
  DDP_REFUSED(bucket_size, 0, OSTRAKA_INVALID_ARGUMENT, "bucket_size");
  DDP_REFUSED(num_buckets, 0, OSTRAKA_INVALID_ARGUMENT, "num_buckets");
  DDP_REFUSED(arrangement, 2, OSTRAKA_INVALID_ARGUMENT, "arrangement");
  DDP_REFUSED(arrangement, OSTRAKA_ARRANGEMENT_LAYER_WISE, OSTRAKA_INVALID_ARGUMENT, "sharded_optimizer");
  DDP_REFUSED(overlap_param_gather, 1, OSTRAKA_INVALID_ARGUMENT, "needs sharded_optimizer");
  DDP_REFUSED(uses, -2, OSTRAKA_INVALID_ARGUMENT, "found -2");
  DDP_REFUSED(main_dtype, 99, OSTRAKA_INVALID_ARGUMENT, "99");
  DDP_REFUSED(main_dtype, OSTRAKA_BF16, OSTRAKA_TYPE_MISMATCH, "main_dtype f64 or f32, found bf16");
  DDP_REFUSED(gradient_dtype, OSTRAKA_F16, OSTRAKA_TYPE_MISMATCH, "gradient_dtype f64, f32 or bf16, found f16");
  DDP_REFUSED(num_f32_accumulators, -1, OSTRAKA_INVALID_ARGUMENT, "number of f32_accumulators >= 0, found -1");
  DDP_REFUSED(num_f32_accumulators, 1, OSTRAKA_INVALID_ARGUMENT, "'f32_accumulators' is null, expected 1");
  config.f32_accumulators = &pattern;
  CHECK_FAILS(ostraka_ddp_create(mesh, &config, NULL, &ddp), OSTRAKA_INVALID_ARGUMENT, "'f32_accumulators' is null");
  if (check_ranks > 1) { /* one rank alone differs, or is wrong: all get the same answer */
    DDP_REFUSED(bucket_size, 2 + check_rank, OSTRAKA_RANKS_DISAGREE, "ddp: configuration: bucket_size (here");
    DDP_REFUSED(scaling, check_rank == 1 ? 7 : 0, OSTRAKA_INVALID_ARGUMENT, "rank 1: ");
  }
  CHECK_FAILS(ostraka_ddp_create(mesh, NULL, NULL, NULL), OSTRAKA_INVALID_ARGUMENT, "'ddp' is null");
  CHECK(ddp == NULL);
}

static void adamw_members(ostraka_fsdp_context_t context) {
  ostraka_optimizer_t optimizer = NULL;
  ostraka_adamw_config_t config;
#define ADAMW_REFUSED(member, value)                                                                                   \
  do {                                                                                                                 \
    CHECK_OK(ostraka_adamw_config_init(&config));                                                                      \
    config.member = value;                                                                                             \
    CHECK_FAILS(ostraka_adamw_create(context, &config, &optimizer), OSTRAKA_INVALID_ARGUMENT, #member);                \
  } while (0)
  ADAMW_REFUSED(learning_rate, -1);
  ADAMW_REFUSED(beta1, 1);
  ADAMW_REFUSED(beta2, -0.1);
  ADAMW_REFUSED(epsilon, -1e-8);
  ADAMW_REFUSED(weight_decay, -1);
  CHECK(optimizer == NULL);
}

static void sgd_members(ostraka_fsdp_context_t context) {
  ostraka_optimizer_t optimizer = NULL;
  ostraka_sgd_config_t config;
#define SGD_REFUSED(member, value)                                                                                     \
  do {                                                                                                                 \
    CHECK_OK(ostraka_sgd_config_init(&config));                                                                        \
    config.member = value;                                                                                             \
    CHECK_FAILS(ostraka_sgd_create(context, &config, &optimizer), OSTRAKA_INVALID_ARGUMENT, #member);                  \
  } while (0)
  SGD_REFUSED(learning_rate, -1);
  SGD_REFUSED(momentum, 1);
  SGD_REFUSED(weight_decay, -1);
  CHECK(optimizer == NULL);
}

static void placements_by_hand(void) {
  const int32_t sizes[] = {1, check_ranks};
  const ostraka_placement_t kept[] = {{OSTRAKA_REPLICATE, 0}, {OSTRAKA_SHARD, 0}};
  const ostraka_placement_t gradient[] = {{OSTRAKA_PARTIAL, OSTRAKA_MEAN}, {OSTRAKA_SHARD, 0}};
  const ostraka_placement_t wrong[] = {{OSTRAKA_PARTIAL, OSTRAKA_SUM}, {OSTRAKA_SHARD, 0}};
  ostraka_mesh_t plane = NULL;
  ostraka_fsdp_context_t context = NULL;
  ostraka_fsdp_config_t config;
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, 2, sizes, NULL, &plane));
  CHECK_OK(ostraka_fsdp_config_init(&config));
  config.parameter_placements = config.optimizer_placements = kept;
  config.gradient_placements = wrong;
  CHECK_FAILS(ostraka_fsdp_context_create(plane, &config, &context), OSTRAKA_INVALID_ARGUMENT, "Partial(sum)");
  config.gradient_placements = gradient;
  CHECK_OK(ostraka_fsdp_context_create(plane, &config, &context));
  CHECK_OK(ostraka_fsdp_context_destroy(&context));
  CHECK_OK(ostraka_mesh_destroy(&plane));
}

/* A caller compiled with version 1, whose struct ends behind num_elements. */
static void report_of_version_1(ostraka_fsdp_context_t context) {
  const int64_t first_size = 64;
  ostraka_memory_report_t report, node;
  memset(&report, GARBAGE, sizeof report);
  const int64_t garbage = report.reserved_bytes;
  CHECK_INT((int64_t)offsetof(ostraka_memory_report_t, num_elements), first_size - 8);
  CHECK_OK(ostraka_memory_report_init_versioned(&report, first_size, 1));
  node = report;
  CHECK_OK(ostraka_fsdp_context_memory(context, &report));
  CHECK_OK(ostraka_fsdp_context_node_memory(context, &node));
  CHECK_INT(report.struct_size, first_size);
  CHECK_INT(report.version, 1);
  CHECK_INT(report.num_elements, MODEL_SIZE + 6);
  CHECK_INT(node.num_elements, MODEL_SIZE + 6);
  CHECK(report.parameters > 0 && node.parameters >= 8 * (MODEL_SIZE + 6));
  CHECK(report.reserved_bytes == garbage && node.reserved_bytes == garbage);
}

/* What a caller of version 3 does not know is not read: garbage stands there. */
static void config_of_version_3(ostraka_mesh_t mesh) {
  ostraka_fsdp_context_t context = NULL;
  ostraka_fsdp_config_t config;
  memset(&config, 0x80, sizeof config);
  const int64_t size = (int64_t)offsetof(ostraka_fsdp_config_t, gradient_slot_bytes),
                garbage = config.gradient_slot_bytes;
  CHECK_OK(ostraka_fsdp_config_init_versioned(&config, size, 3));
  CHECK(config.prefetch == -1 && config.gradient_slot_bytes == garbage && garbage < -1);
  CHECK_OK(ostraka_fsdp_context_create(mesh, &config, &context));
  CHECK_OK(ostraka_fsdp_context_destroy(&context));
}

static void plan_structs(void) {
  const int32_t sizes[] = {2};
  ostraka_plan_t plan = NULL;
  USE_REFUSES(ostraka_plan_config_t, ostraka_plan_config_init, 96, 1,
              ostraka_plan_create(1, sizes, NULL, NULL, &config, &plan));
  USE_REFUSES(ostraka_fsdp_config_t, ostraka_fsdp_config_init, 32, 4,
              ostraka_plan_create(1, sizes, NULL, &config, NULL, &plan));
  CHECK_OK(ostraka_plan_create(1, sizes, NULL, NULL, NULL, &plan));
  int32_t unit = -1;
  CHECK_OK(ostraka_plan_add_unit(plan, "empty", 1, -1, &unit));
  CHECK_OK(ostraka_plan_compute(plan));
  USE_REFUSES(ostraka_memory_report_t, ostraka_memory_report_init, 64, 2, ostraka_plan_memory(plan, &config));
  USE_REFUSES(ostraka_memory_report_t, ostraka_memory_report_init, 64, 2, ostraka_plan_node_memory(plan, &config));
  USE_REFUSES(ostraka_plan_bytes_t, ostraka_plan_bytes_init, 112, 1, ostraka_plan_bytes(plan, &config));
  USE_REFUSES(ostraka_plan_bytes_t, ostraka_plan_bytes_init, 112, 1, ostraka_plan_node_bytes(plan, &config));
  USE_REFUSES(ostraka_plan_traffic_t, ostraka_plan_traffic_init, 72, 1, ostraka_plan_traffic(plan, 0, &config));
  USE_REFUSES(ostraka_plan_summary_t, ostraka_plan_summary_init, 88, 1, ostraka_plan_summary(plan, &config));
  CHECK_OK(ostraka_plan_destroy(&plan));
}

void config_suite(void) {
  INIT_REFUSES(ostraka_fsdp_config_t, ostraka_fsdp_config_init, 32, 4);
  INIT_REFUSES(ostraka_ddp_config_t, ostraka_ddp_config_init, 80, 1);
  INIT_REFUSES(ostraka_adamw_config_t, ostraka_adamw_config_init, 56, 1);
  INIT_REFUSES(ostraka_group_options_t, ostraka_group_options_init, 32, 1);
  INIT_REFUSES(ostraka_sgd_config_t, ostraka_sgd_config_init, 40, 1);
  INIT_REFUSES(ostraka_memory_report_t, ostraka_memory_report_init, 64, 2);
  INIT_REFUSES(ostraka_save_options_t, ostraka_save_options_init, 16, 1);
  INIT_REFUSES(ostraka_load_options_t, ostraka_load_options_init, 40, 1);
  INIT_REFUSES(ostraka_plan_config_t, ostraka_plan_config_init, 96, 1);
  INIT_REFUSES(ostraka_plan_bytes_t, ostraka_plan_bytes_init, 112, 1);
  INIT_REFUSES(ostraka_plan_traffic_t, ostraka_plan_traffic_init, 72, 1);
  INIT_REFUSES(ostraka_plan_summary_t, ostraka_plan_summary_init, 88, 1);

  model_t model = make_model();
  ostraka_fsdp_context_t context = NULL;
  ostraka_ddp_t ddp = NULL;
  ostraka_optimizer_t optimizer = NULL;
  USE_REFUSES(ostraka_fsdp_config_t, ostraka_fsdp_config_init, 32, 4,
              ostraka_fsdp_context_create(model.mesh, &config, &context));
  USE_REFUSES(ostraka_ddp_config_t, ostraka_ddp_config_init, 80, 1,
              ostraka_ddp_create(model.mesh, &config, NULL, &ddp));
  USE_REFUSES(ostraka_adamw_config_t, ostraka_adamw_config_init, 56, 1,
              ostraka_adamw_create(model.context, &config, &optimizer));
  USE_REFUSES(ostraka_group_options_t, ostraka_group_options_init, 32, 1,
              ostraka_optimizer_set_group(model.sgd, "*", &config));
  USE_REFUSES(ostraka_sgd_config_t, ostraka_sgd_config_init, 40, 1,
              ostraka_sgd_create(model.context, &config, &optimizer));
  USE_REFUSES(ostraka_memory_report_t, ostraka_memory_report_init, 64, 2,
              ostraka_fsdp_context_memory(model.context, &config));
  USE_REFUSES(ostraka_memory_report_t, ostraka_memory_report_init, 64, 2,
              ostraka_fsdp_context_node_memory(model.context, &config));
  USE_REFUSES(ostraka_save_options_t, ostraka_save_options_init, 16, 1,
              ostraka_save("refused.h5", model.context, NULL, NULL, &config));
  USE_REFUSES(ostraka_load_options_t, ostraka_load_options_init, 40, 1,
              ostraka_load("refused.h5", model.context, NULL, NULL, &config));
  plan_structs();
  report_of_version_1(model.context);
  config_of_version_3(model.mesh);
  CHECK(context == NULL && optimizer == NULL && ddp == NULL);
  fsdp_members(model.mesh);
  ddp_members(model.mesh);
  adamw_members(model.context);
  sgd_members(model.context);
  placements_by_hand();
  CHECK_FAILS(ostraka_fsdp_context_create(model.mesh, NULL, NULL), OSTRAKA_INVALID_ARGUMENT, "'context' is null");
  CHECK_FAILS(ostraka_adamw_create(model.context, NULL, NULL), OSTRAKA_INVALID_ARGUMENT, "'optimizer' is null");
  CHECK_FAILS(ostraka_sgd_create(model.context, NULL, NULL), OSTRAKA_INVALID_ARGUMENT, "'optimizer' is null");
  CHECK_FAILS(ostraka_fsdp_context_memory(model.context, NULL), OSTRAKA_INVALID_ARGUMENT, "'report' is null");
  CHECK_FAILS(ostraka_fsdp_context_node_memory(model.context, NULL), OSTRAKA_INVALID_ARGUMENT, "'report' is null");
  train_step(&model);
  destroy_model(&model);
}
