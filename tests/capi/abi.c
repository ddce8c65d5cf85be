/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers and struct layouts that compiled programs rely on, written out: a change here breaks binary
 * compatibility.
 */
#include "suites.h"

#include <assert.h>
#include <stddef.h>

static_assert(sizeof(ostraka_status_t) == 4 && (ostraka_status_t)-1 < 0, "status type");
static_assert(OSTRAKA_OK == 0 && OSTRAKA_INVALID_ARGUMENT == 10 && OSTRAKA_INVALID_STATE == 11, "status");
static_assert(OSTRAKA_INVALID_HANDLE == 12 && OSTRAKA_SHAPE_MISMATCH == 13 && OSTRAKA_TYPE_MISMATCH == 14, "status");
static_assert(OSTRAKA_NOT_SUPPORTED == 20 && OSTRAKA_OUT_OF_MEMORY == 30 && OSTRAKA_INPUT_OUTPUT == 40, "status");
static_assert(OSTRAKA_COMMUNICATION == 50 && OSTRAKA_RANKS_DISAGREE == 51 && OSTRAKA_TIME_OUT == 52, "status");
static_assert(OSTRAKA_USER_FAILURE == 53 && OSTRAKA_FAILED == 60 && OSTRAKA_INTERNAL == 90, "status");

static_assert(OSTRAKA_F64 == 0 && OSTRAKA_F32 == 1 && OSTRAKA_BF16 == 2 && OSTRAKA_F16 == 3, "types");
static_assert(OSTRAKA_I64 == 4 && OSTRAKA_I32 == 5 && OSTRAKA_U8 == 6, "types");
static_assert(OSTRAKA_REPLICATE == 0 && OSTRAKA_SHARD == 1 && OSTRAKA_PARTIAL == 2, "placements");
static_assert(OSTRAKA_SUM == 0 && OSTRAKA_MEAN == 1 && OSTRAKA_MAX == 2, "reductions");
static_assert(OSTRAKA_MIN == 3 && OSTRAKA_PROD == 4, "reductions");
static_assert(OSTRAKA_REFERENCE == 0 && OSTRAKA_PLANNED == 1 && OSTRAKA_RAGGED == 2, "policies");
static_assert(OSTRAKA_FLAT == 3 && OSTRAKA_TENSOR_ATOMIC == 4 && OSTRAKA_AUTOMATIC == 5, "policies");
static_assert(OSTRAKA_ATOM_ELEMENT == 0 && OSTRAKA_ATOM_LAST_DIMS == 1 && OSTRAKA_ATOM_ROW == 2, "atoms");
static_assert(OSTRAKA_ATOM_BLOCK == 3 && OSTRAKA_ATOM_TENSOR == 4, "atoms");
static_assert(OSTRAKA_NO_SHARD == 0 && OSTRAKA_ZERO_1 == 1 && OSTRAKA_ZERO_2 == 2 && OSTRAKA_ZERO_3 == 3, "recipes");
static_assert(OSTRAKA_HSDP == 4 && OSTRAKA_HFSDP == 5 && OSTRAKA_ZERO_1_ZERO_2 == 6, "recipes");
static_assert(OSTRAKA_MEMORY_OTHER == 0 && OSTRAKA_MEMORY_PARAMETERS == 1 && OSTRAKA_MEMORY_GRADIENTS == 2, "memory");
static_assert(OSTRAKA_DEVICE_HOST == 0 && OSTRAKA_DEVICE_CUDA == 1, "devices");
static_assert(OSTRAKA_MEMORY_OPTIMIZER_STATE == 3 && OSTRAKA_MEMORY_TRANSIENT == 4, "memory");
static_assert(OSTRAKA_FSDP_CONFIG_VERSION == 4 && OSTRAKA_ADAMW_CONFIG_VERSION == 1, "versions");
static_assert(OSTRAKA_SCALING_MEAN == 0 && OSTRAKA_SCALING_PRE_SCALE == 1 && OSTRAKA_SCALING_SUM == 2, "scaling");
static_assert(OSTRAKA_ARRANGEMENT_PACKED == 0 && OSTRAKA_ARRANGEMENT_LAYER_WISE == 1, "arrangements");
static_assert(OSTRAKA_DDP_FROZEN == 1 && OSTRAKA_DDP_EXPERT == 2 && OSTRAKA_DDP_SHARED_EMBEDDING == 4, "flags");
static_assert(OSTRAKA_USES_AUTO == -1 && OSTRAKA_DDP_CONFIG_VERSION == 1, "ddp");
static_assert(OSTRAKA_SGD_CONFIG_VERSION == 1 && OSTRAKA_MEMORY_REPORT_VERSION == 2, "versions");

static_assert(sizeof(ostraka_placement_t) == 8 && offsetof(ostraka_placement_t, op) == 4, "placement");
static_assert(sizeof(ostraka_atom_t) == 8 && offsetof(ostraka_atom_t, kind) == 0, "atom");
static_assert(offsetof(ostraka_atom_t, count) == 4, "atom");
static_assert(sizeof(ostraka_shape_t) == 16 && offsetof(ostraka_shape_t, extents) == 8, "shape");
static_assert(sizeof(ostraka_mesh_t) == 8 && sizeof(ostraka_layout_t) == 8 && sizeof(ostraka_buffer_t) == 8, "handles");
static_assert(sizeof(ostraka_flat_buffer_t) == 8 && sizeof(ostraka_ddp_t) == 8 && sizeof(ostraka_plan_t) == 8,
              "handles");

static_assert(sizeof(ostraka_fsdp_config_t) == 88, "fsdp config");
static_assert(offsetof(ostraka_fsdp_config_t, struct_size) == 0 && offsetof(ostraka_fsdp_config_t, version) == 8 &&
                  offsetof(ostraka_fsdp_config_t, recipe) == 12 && offsetof(ostraka_fsdp_config_t, reduction) == 16 &&
                  offsetof(ostraka_fsdp_config_t, gradient_slots) == 20 &&
                  offsetof(ostraka_fsdp_config_t, broadcast) == 24 &&
                  offsetof(ostraka_fsdp_config_t, main_dtype) == 28 &&
                  offsetof(ostraka_fsdp_config_t, compute_dtype) == 32 &&
                  offsetof(ostraka_fsdp_config_t, parameter_placements) == 40 &&
                  offsetof(ostraka_fsdp_config_t, gradient_placements) == 48 &&
                  offsetof(ostraka_fsdp_config_t, optimizer_placements) == 56 &&
                  offsetof(ostraka_fsdp_config_t, reduction_dtype) == 64 &&
                  offsetof(ostraka_fsdp_config_t, unified_stream) == 68 &&
                  offsetof(ostraka_fsdp_config_t, prefetch) == 72 &&
                  offsetof(ostraka_fsdp_config_t, gradient_slot_bytes) == 80,
              "fsdp config");
static_assert(sizeof(ostraka_ddp_config_t) == 80, "ddp config");
static_assert(offsetof(ostraka_ddp_config_t, struct_size) == 0 && offsetof(ostraka_ddp_config_t, version) == 8 &&
                  offsetof(ostraka_ddp_config_t, scaling) == 12 && offsetof(ostraka_ddp_config_t, bucket_size) == 16 &&
                  offsetof(ostraka_ddp_config_t, num_buckets) == 24 &&
                  offsetof(ostraka_ddp_config_t, disable_bucketing) == 28 &&
                  offsetof(ostraka_ddp_config_t, sharded_optimizer) == 32 &&
                  offsetof(ostraka_ddp_config_t, pad_for_bandwidth) == 36 &&
                  offsetof(ostraka_ddp_config_t, arrangement) == 40 &&
                  offsetof(ostraka_ddp_config_t, overlap_grad_reduce) == 44 &&
                  offsetof(ostraka_ddp_config_t, overlap_param_gather) == 48 &&
                  offsetof(ostraka_ddp_config_t, uses) == 52 && offsetof(ostraka_ddp_config_t, main_dtype) == 56 &&
                  offsetof(ostraka_ddp_config_t, gradient_dtype) == 60 &&
                  offsetof(ostraka_ddp_config_t, num_f32_accumulators) == 64 &&
                  offsetof(ostraka_ddp_config_t, f32_accumulators) == 72,
              "ddp config");
static_assert(sizeof(ostraka_adamw_config_t) == 56, "adamw config");
static_assert(offsetof(ostraka_adamw_config_t, struct_size) == 0 && offsetof(ostraka_adamw_config_t, version) == 8 &&
                  offsetof(ostraka_adamw_config_t, learning_rate) == 16 &&
                  offsetof(ostraka_adamw_config_t, beta1) == 24 && offsetof(ostraka_adamw_config_t, beta2) == 32 &&
                  offsetof(ostraka_adamw_config_t, epsilon) == 40 &&
                  offsetof(ostraka_adamw_config_t, weight_decay) == 48,
              "adamw config");
static_assert(sizeof(ostraka_sgd_config_t) == 40, "sgd config");
static_assert(offsetof(ostraka_sgd_config_t, struct_size) == 0 && offsetof(ostraka_sgd_config_t, version) == 8 &&
                  offsetof(ostraka_sgd_config_t, learning_rate) == 16 &&
                  offsetof(ostraka_sgd_config_t, momentum) == 24 && offsetof(ostraka_sgd_config_t, weight_decay) == 32,
              "sgd config");
static_assert(sizeof(ostraka_group_options_t) == 32, "group options");
static_assert(offsetof(ostraka_group_options_t, struct_size) == 0 && offsetof(ostraka_group_options_t, version) == 8 &&
                  offsetof(ostraka_group_options_t, max_dims) == 12 &&
                  offsetof(ostraka_group_options_t, learning_rate_factor) == 16 &&
                  offsetof(ostraka_group_options_t, weight_decay) == 24,
              "group options");
static_assert(OSTRAKA_GROUP_OPTIONS_VERSION == 1, "versions");
static_assert(OSTRAKA_AHEAD_NONE == 0 && OSTRAKA_AHEAD_FORWARD == 1 && OSTRAKA_AHEAD_BACKWARD == 2, "ahead");
static_assert(OSTRAKA_NORM_L1 == 1 && OSTRAKA_NORM_L2 == 2 && OSTRAKA_NORM_MAX == 3, "norms");
static_assert(sizeof(ostraka_memory_report_t) == 72, "memory report");
static_assert(offsetof(ostraka_memory_report_t, struct_size) == 0 && offsetof(ostraka_memory_report_t, version) == 8 &&
                  offsetof(ostraka_memory_report_t, parameters) == 16 &&
                  offsetof(ostraka_memory_report_t, gradients) == 24 &&
                  offsetof(ostraka_memory_report_t, optimizer_state) == 32 &&
                  offsetof(ostraka_memory_report_t, transient) == 40 &&
                  offsetof(ostraka_memory_report_t, transient_peak) == 48 &&
                  offsetof(ostraka_memory_report_t, num_elements) == 56 &&
                  offsetof(ostraka_memory_report_t, reserved_bytes) == 64,
              "memory report");
static_assert(OSTRAKA_SAVE_OPTIONS_VERSION == 1 && OSTRAKA_LOAD_OPTIONS_VERSION == 1, "versions");
static_assert(sizeof(ostraka_save_options_t) == 16, "save options");
static_assert(offsetof(ostraka_save_options_t, struct_size) == 0 && offsetof(ostraka_save_options_t, version) == 8 &&
                  offsetof(ostraka_save_options_t, sync) == 12,
              "save options");
static_assert(sizeof(ostraka_load_options_t) == 40, "load options");
static_assert(offsetof(ostraka_load_options_t, struct_size) == 0 && offsetof(ostraka_load_options_t, version) == 8 &&
                  offsetof(ostraka_load_options_t, strict) == 12 && offsetof(ostraka_load_options_t, state) == 16 &&
                  offsetof(ostraka_load_options_t, verify) == 20 &&
                  offsetof(ostraka_load_options_t, num_patterns) == 24 &&
                  offsetof(ostraka_load_options_t, patterns) == 32,
              "load options");

static_assert(sizeof(ostraka_plan_config_t) == 88, "plan config");
static_assert(offsetof(ostraka_plan_config_t, struct_size) == 0 && offsetof(ostraka_plan_config_t, version) == 8 &&
                  offsetof(ostraka_plan_config_t, backend) == 12 &&
                  offsetof(ostraka_plan_config_t, ranks_per_node) == 16 &&
                  offsetof(ostraka_plan_config_t, micro_batches) == 20 &&
                  offsetof(ostraka_plan_config_t, optimizer) == 24 &&
                  offsetof(ostraka_plan_config_t, fuse_with_reduction) == 28 &&
                  offsetof(ostraka_plan_config_t, rank) == 32 && offsetof(ostraka_plan_config_t, cache_bytes) == 40 &&
                  offsetof(ostraka_plan_config_t, network_latency_s) == 48 &&
                  offsetof(ostraka_plan_config_t, network_bandwidth) == 56 &&
                  offsetof(ostraka_plan_config_t, node_latency_s) == 64 &&
                  offsetof(ostraka_plan_config_t, node_bandwidth) == 72 &&
                  offsetof(ostraka_plan_config_t, memory_bandwidth) == 80,
              "plan config");
static_assert(sizeof(ostraka_plan_bytes_t) == 112, "plan bytes");
static_assert(
    offsetof(ostraka_plan_bytes_t, struct_size) == 0 && offsetof(ostraka_plan_bytes_t, version) == 8 &&
        offsetof(ostraka_plan_bytes_t, model_weights) == 16 && offsetof(ostraka_plan_bytes_t, main_weights) == 24 &&
        offsetof(ostraka_plan_bytes_t, main_gradients) == 32 && offsetof(ostraka_plan_bytes_t, addends) == 40 &&
        offsetof(ostraka_plan_bytes_t, moments) == 48 && offsetof(ostraka_plan_bytes_t, slots_peak) == 56 &&
        offsetof(ostraka_plan_bytes_t, gathered_peak) == 64 && offsetof(ostraka_plan_bytes_t, scratch_peak) == 72 &&
        offsetof(ostraka_plan_bytes_t, transient_peak) == 80 && offsetof(ostraka_plan_bytes_t, shared_memory) == 88 &&
        offsetof(ostraka_plan_bytes_t, total) == 96 && offsetof(ostraka_plan_bytes_t, peak) == 104,
    "plan bytes");
static_assert(sizeof(ostraka_plan_traffic_t) == 72, "plan traffic");
static_assert(offsetof(ostraka_plan_traffic_t, struct_size) == 0 && offsetof(ostraka_plan_traffic_t, version) == 8 &&
                  offsetof(ostraka_plan_traffic_t, size) == 12 && offsetof(ostraka_plan_traffic_t, allgathers) == 16 &&
                  offsetof(ostraka_plan_traffic_t, reduce_scatters) == 24 &&
                  offsetof(ostraka_plan_traffic_t, allreduces) == 32 &&
                  offsetof(ostraka_plan_traffic_t, agreements) == 40 && offsetof(ostraka_plan_traffic_t, sent) == 48 &&
                  offsetof(ostraka_plan_traffic_t, received) == 56 && offsetof(ostraka_plan_traffic_t, moved) == 64,
              "plan traffic");
static_assert(sizeof(ostraka_plan_summary_t) == 88, "plan summary");
static_assert(offsetof(ostraka_plan_summary_t, struct_size) == 0 && offsetof(ostraka_plan_summary_t, version) == 8 &&
                  offsetof(ostraka_plan_summary_t, recipe) == 12 && offsetof(ostraka_plan_summary_t, rank) == 16 &&
                  offsetof(ostraka_plan_summary_t, node) == 20 && offsetof(ostraka_plan_summary_t, node_ranks) == 24 &&
                  offsetof(ostraka_plan_summary_t, gradient_slots) == 28 &&
                  offsetof(ostraka_plan_summary_t, num_elements) == 32 &&
                  offsetof(ostraka_plan_summary_t, padding_elements) == 40 &&
                  offsetof(ostraka_plan_summary_t, bytes_per_parameter) == 48 &&
                  offsetof(ostraka_plan_summary_t, formula_bytes_per_parameter) == 56 &&
                  offsetof(ostraka_plan_summary_t, step_s) == 64 &&
                  offsetof(ostraka_plan_summary_t, arithmetic_s) == 72 &&
                  offsetof(ostraka_plan_summary_t, exposed_s) == 80,
              "plan summary");
static_assert(OSTRAKA_BACKEND_MPI == 0 && OSTRAKA_BACKEND_NODE == 1 && OSTRAKA_BACKEND_NCCL == 2, "plans");
static_assert(OSTRAKA_UPDATE_NONE == 0 && OSTRAKA_UPDATE_SGD == 1 && OSTRAKA_UPDATE_SGD_MOMENTUM == 2, "plans");
static_assert(OSTRAKA_UPDATE_ADAMW == 3 && OSTRAKA_PLAN_CONFIG_VERSION == 1 && OSTRAKA_PLAN_BYTES_VERSION == 1,
              "plans");
static_assert(OSTRAKA_PLAN_TRAFFIC_VERSION == 1 && OSTRAKA_PLAN_SUMMARY_VERSION == 1, "plans");

void abi_suite(void) {
  ostraka_fsdp_config_t fsdp;
  CHECK_OK(ostraka_fsdp_config_init(&fsdp));
  CHECK_INT(fsdp.struct_size, 88);
  CHECK_INT(fsdp.version, 4);
  CHECK_INT(fsdp.gradient_slot_bytes, -1);
  CHECK_INT(fsdp.reduction_dtype, -1);
  CHECK(fsdp.parameter_placements == NULL && fsdp.gradient_placements == NULL && fsdp.optimizer_placements == NULL);
  CHECK_INT(fsdp.compute_dtype, -1);
  CHECK_INT(fsdp.recipe, 3);
  CHECK_INT(fsdp.reduction, 1);
  CHECK_INT(fsdp.gradient_slots, 2);
  CHECK_INT(fsdp.broadcast, 0);
  CHECK_INT(fsdp.main_dtype, -1);

  ostraka_ddp_config_t ddp;
  CHECK_OK(ostraka_ddp_config_init(&ddp));
  CHECK_INT(ddp.struct_size, 80);
  CHECK_INT(ddp.version, 1);
  CHECK_INT(ddp.scaling, 0);
  CHECK_INT(ddp.bucket_size, -1);
  CHECK_INT(ddp.num_buckets, -1);
  CHECK(ddp.disable_bucketing == 0 && ddp.sharded_optimizer == 0 && ddp.pad_for_bandwidth == 0);
  CHECK(ddp.arrangement == 0 && ddp.overlap_grad_reduce == 1 && ddp.overlap_param_gather == 0);
  CHECK_INT(ddp.uses, 1);
  CHECK(ddp.main_dtype == -1 && ddp.gradient_dtype == -1);
  CHECK(ddp.num_f32_accumulators == 0 && ddp.f32_accumulators == NULL);

  ostraka_group_options_t group;
  CHECK_OK(ostraka_group_options_init(&group));
  CHECK_INT(group.struct_size, 32);
  CHECK_INT(group.version, 1);
  CHECK_INT(group.max_dims, -1);
  CHECK_NEAR(group.learning_rate_factor, -1, 0);
  CHECK_NEAR(group.weight_decay, -1, 0);
  ostraka_adamw_config_t adamw;
  CHECK_OK(ostraka_adamw_config_init(&adamw));
  CHECK_INT(adamw.struct_size, 56);
  CHECK_INT(adamw.version, 1);
  CHECK_NEAR(adamw.learning_rate, 1e-3, 0);
  CHECK_NEAR(adamw.beta1, 0.9, 0);
  CHECK_NEAR(adamw.beta2, 0.999, 0);
  CHECK_NEAR(adamw.epsilon, 1e-8, 0);
  CHECK_NEAR(adamw.weight_decay, 1e-2, 0);

  ostraka_sgd_config_t sgd;
  CHECK_OK(ostraka_sgd_config_init(&sgd));
  CHECK_INT(sgd.struct_size, 40);
  CHECK_INT(sgd.version, 1);
  CHECK_NEAR(sgd.learning_rate, 1e-3, 0);
  CHECK_NEAR(sgd.momentum, 0, 0);
  CHECK_NEAR(sgd.weight_decay, 0, 0);

  ostraka_memory_report_t report = {.num_elements = 7};
  CHECK_OK(ostraka_memory_report_init(&report));
  CHECK_INT(report.struct_size, 72);
  CHECK_INT(report.version, 2);
  CHECK_INT(report.num_elements, 0);

  ostraka_save_options_t save;
  CHECK_OK(ostraka_save_options_init(&save));
  CHECK_INT(save.struct_size, 16);
  CHECK_INT(save.version, 1);
  CHECK_INT(save.sync, 1);
  ostraka_load_options_t load;
  CHECK_OK(ostraka_load_options_init(&load));
  CHECK_INT(load.struct_size, 40);
  CHECK_INT(load.version, 1);
  CHECK(load.strict == 1 && load.state == 1 && load.verify == 1 && load.num_patterns == 0 && load.patterns == NULL);

  ostraka_plan_config_t plan;
  CHECK_OK(ostraka_plan_config_init(&plan));
  CHECK_INT(plan.struct_size, 88);
  CHECK(plan.version == 1 && plan.backend == 1 && plan.ranks_per_node == 0 && plan.micro_batches == 1);
  CHECK(plan.optimizer == 3 && plan.fuse_with_reduction == 0 && plan.rank == -1 && plan.cache_bytes == -1);
  CHECK(plan.network_latency_s > 0 && plan.network_bandwidth > 0 && plan.node_latency_s > 0);
  CHECK(plan.node_bandwidth > 0 && plan.memory_bandwidth > 0);
}
