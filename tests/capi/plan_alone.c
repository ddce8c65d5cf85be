/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of its own, started without mpiexec: plans need neither MPI nor ostraka_initialize. Numbers are worked out
 * by hand; what is refused changes nothing.
 */
#include "suites.h"

#include <mpi.h>
#include <string.h>

enum { RANKS = 4, UNITS = 3, SIZE = 1024 }; /* f64; a part of a rank is a multiple of 64 bytes */
static const int64_t whole = 8 * SIZE;      /* bytes of a unit */
static const int32_t line[] = {RANKS};

static ostraka_plan_t make_plan(int32_t recipe, const ostraka_plan_config_t* config) {
  ostraka_plan_t plan = NULL;
  ostraka_fsdp_config_t context;
  const ostraka_shape_t shape = MATRIX(SIZE / 4, 4);
  int32_t unit = -1;
  CHECK_OK(ostraka_fsdp_config_init(&context));
  context.recipe = recipe;
  CHECK_OK(ostraka_plan_create(1, line, NULL, &context, config, &plan));
  CHECK_OK(ostraka_plan_add_unit(plan, "layer", UNITS, -1, &unit));
  CHECK_INT(unit, 0);
  CHECK_OK(ostraka_plan_add_parameter(plan, unit, "weight", shape, OSTRAKA_F64, 1));
  return plan;
}

static ostraka_plan_config_t messages(void) {
  ostraka_plan_config_t config;
  CHECK_OK(ostraka_plan_config_init(&config));
  config.backend = OSTRAKA_BACKEND_MPI;
  return config;
}

static ostraka_plan_bytes_t bytes_of(ostraka_plan_t plan) {
  ostraka_plan_bytes_t bytes;
  CHECK_OK(ostraka_plan_bytes_init(&bytes));
  CHECK_OK(ostraka_plan_bytes(plan, &bytes));
  return bytes;
}

static ostraka_plan_summary_t summary_of(ostraka_plan_t plan) {
  ostraka_plan_summary_t summary;
  CHECK_OK(ostraka_plan_summary_init(&summary));
  CHECK_OK(ostraka_plan_summary(plan, &summary));
  return summary;
}

static ostraka_plan_traffic_t traffic_of(ostraka_plan_t plan) {
  ostraka_plan_traffic_t traffic;
  CHECK_OK(ostraka_plan_traffic_init(&traffic));
  CHECK_OK(ostraka_plan_traffic(plan, 0, &traffic));
  return traffic;
}

/* Over messages: AdamW on f64 weights, which are main weights. */
static void zero_3_by_hand(void) {
  const ostraka_plan_config_t config = messages();
  ostraka_plan_t plan = make_plan(OSTRAKA_ZERO_3, &config);
  CHECK_OK(ostraka_plan_compute(plan));
  const ostraka_plan_bytes_t bytes = bytes_of(plan);
  CHECK_INT(bytes.model_weights, UNITS * whole / RANKS);
  CHECK_INT(bytes.main_weights, 0);
  CHECK_INT(bytes.main_gradients, UNITS * whole / RANKS);
  CHECK_INT(bytes.moments, 2 * UNITS * whole / RANKS);
  CHECK_INT(bytes.addends + bytes.scratch_peak + bytes.shared_memory, 0);
  CHECK_INT(bytes.slots_peak, 2 * whole);
  CHECK_INT(bytes.gathered_peak, 2 * whole); /* a module and the next one */
  CHECK_INT(bytes.total, UNITS * whole);
  CHECK_INT(bytes.peak, bytes.total + bytes.transient_peak);
  const ostraka_plan_summary_t summary = summary_of(plan);
  CHECK_INT(summary.recipe, OSTRAKA_ZERO_3);
  CHECK_INT(summary.num_elements, UNITS * SIZE);
  CHECK_INT(summary.padding_elements, 0);
  CHECK_INT(summary.node_ranks, RANKS);
  CHECK_INT(summary.gradient_slots, 2);
  CHECK_NEAR(summary.bytes_per_parameter, 32.0 / RANKS, 1e-12);
  CHECK_NEAR(summary.formula_bytes_per_parameter, 32.0 / RANKS, 1e-12);
  const ostraka_plan_traffic_t traffic = traffic_of(plan);
  CHECK_INT(traffic.size, RANKS);
  CHECK_INT(traffic.allgathers, 2 * UNITS); /* forward and backward */
  CHECK_INT(traffic.reduce_scatters, UNITS);
  CHECK_INT(traffic.allreduces, 0);
  CHECK_INT(traffic.sent, 3 * UNITS * whole * (RANKS - 1) / RANKS);
  CHECK_INT(traffic.received, traffic.sent);
  CHECK_INT(traffic.moved, 3 * UNITS * whole);
  const char* carrier = NULL;
  CHECK_OK(ostraka_plan_carrier(plan, 0, &carrier));
  CHECK(carrier != NULL && strcmp(carrier, "mpi") == 0);
  CHECK_OK(ostraka_plan_destroy(&plan));
}

/* On a node: one copy of the weights, and reductions where nothing is sent. */
static void node_by_hand(void) {
  ostraka_plan_config_t config;
  CHECK_OK(ostraka_plan_config_init(&config));
  config.optimizer = OSTRAKA_UPDATE_NONE;
  config.cache_bytes = RANKS * whole; /* room for one slot of each rank */
  ostraka_plan_t plan = make_plan(OSTRAKA_NO_SHARD, &config);
  CHECK_OK(ostraka_plan_compute(plan));
  ostraka_plan_bytes_t node;
  CHECK_OK(ostraka_plan_bytes_init(&node));
  CHECK_OK(ostraka_plan_node_bytes(plan, &node));
  CHECK_INT(node.model_weights, UNITS * whole);
  CHECK_INT(node.moments, 0);
  CHECK_INT(bytes_of(plan).model_weights, UNITS * whole / RANKS);
  CHECK_INT(traffic_of(plan).sent, 0);
  CHECK_OK(ostraka_plan_destroy(&plan));

  plan = make_plan(OSTRAKA_ZERO_3, &config);
  CHECK_OK(ostraka_plan_compute(plan));
  CHECK_INT(summary_of(plan).gradient_slots, 1);
  CHECK_OK(ostraka_plan_destroy(&plan));
}

/* With a network that takes no time and no update, a step is its arithmetic; a slow one is exposed. */
static void times(void) {
  ostraka_plan_config_t config = messages();
  config.optimizer = OSTRAKA_UPDATE_NONE;
  config.micro_batches = 2;
  config.network_latency_s = 0;
  config.network_bandwidth = 1e30;
  config.memory_bandwidth = 1e30;
  ostraka_plan_t plan = make_plan(OSTRAKA_ZERO_3, &config);
  CHECK_OK(ostraka_plan_set_times(plan, 0, 0.5, 1.5));
  CHECK_OK(ostraka_plan_compute(plan));
  CHECK_NEAR(summary_of(plan).arithmetic_s, 2 * UNITS * 2.0, 1e-9);
  CHECK_NEAR(summary_of(plan).step_s, 2 * UNITS * 2.0, 1e-9);
  CHECK_NEAR(summary_of(plan).exposed_s, 0, 1e-9);
  CHECK_OK(ostraka_plan_set_link(plan, 0, 0, 1e3));
  CHECK_OK(ostraka_plan_compute(plan));
  CHECK(summary_of(plan).exposed_s > 10);
  CHECK_NEAR(summary_of(plan).step_s, summary_of(plan).arithmetic_s + summary_of(plan).exposed_s, 1e-9);
  CHECK_OK(ostraka_plan_destroy(&plan));
}

/* Of all recipes the one with least bytes fits alone; HSDP needs a second axis. */
static void choices(void) {
  static const int32_t recipes[] = {OSTRAKA_NO_SHARD, OSTRAKA_ZERO_3, OSTRAKA_HSDP};
  const ostraka_plan_config_t config = messages();
  ostraka_plan_t plan = make_plan(OSTRAKA_ZERO_2, &config), plans[3] = {NULL, NULL, NULL};
  int32_t fits = -1, index = -2, count = -1;
  CHECK_OK(ostraka_plan_compare(plan, 3, recipes, plans));
  const ostraka_plan_bytes_t zero_3 = bytes_of(plans[1]);
  ostraka_plan_bytes_t none;
  CHECK_OK(ostraka_plan_bytes_init(&none));
  CHECK_INT(bytes_of(plans[0]).total, 4 * UNITS * whole); /* all whole on every rank */
  CHECK_INT(zero_3.total, UNITS * whole);
  CHECK_INT(summary_of(plans[1]).recipe, OSTRAKA_ZERO_3);
  CHECK_FAILS(ostraka_plan_bytes(plans[2], &none), OSTRAKA_INVALID_ARGUMENT, "two axes");
  CHECK_OK(ostraka_plan_fits(plans[1], zero_3.peak, -1, &fits));
  CHECK_INT(fits, 1);
  CHECK_OK(ostraka_plan_fits(plans[1], zero_3.peak - 1, -1, &fits));
  CHECK_INT(fits, 0);
  CHECK_OK(ostraka_plan_fits(plans[1], -1, zero_3.peak, &fits)); /* the node holds four of it */
  CHECK_INT(fits, 0);
  CHECK_OK(ostraka_plan_cheapest(3, plans, zero_3.peak, -1, &index));
  CHECK_INT(index, 1);
  CHECK_OK(ostraka_plan_cheapest(3, plans, zero_3.total, -1, &index));
  CHECK_INT(index, -1);
  CHECK_OK(ostraka_plan_cheapest(0, NULL, -1, -1, &index));
  CHECK_INT(index, -1);
  CHECK_OK(ostraka_plan_largest(plans[1], 0, zero_3.peak + whole - 1, -1, &count)); /* one more takes `whole` */
  CHECK_INT(count, UNITS);
  CHECK_OK(ostraka_plan_largest(plans[1], 0, zero_3.peak + whole, -1, &count));
  CHECK_INT(count, UNITS + 1);
  CHECK_OK(ostraka_plan_largest(plans[1], 0, 10, -1, &count));
  CHECK_INT(count, 0);
  CHECK_FAILS(ostraka_plan_fits(plans[1], -2, -1, &fits), OSTRAKA_INVALID_ARGUMENT, "found -2");
  CHECK_FAILS(ostraka_plan_cheapest(1, NULL, -1, -1, &index), OSTRAKA_INVALID_ARGUMENT, "'plans' is null");
  CHECK_FAILS(ostraka_plan_cheapest(1, &plan, -1, -1, &index), OSTRAKA_INVALID_STATE, "ostraka_plan_compute first");
  CHECK_FAILS(ostraka_plan_largest(plans[1], 1, -1, -1, &count), OSTRAKA_INVALID_ARGUMENT, "unit");
  CHECK_FAILS(ostraka_plan_largest(plans[1], 0, -1, -1, &count), OSTRAKA_INVALID_ARGUMENT, "found no limit");
  CHECK_FAILS(ostraka_plan_compare(plan, 1, NULL, plans), OSTRAKA_INVALID_ARGUMENT, "'recipes' is null");
  CHECK_FAILS(ostraka_plan_compare(plan, 3, recipes, NULL), OSTRAKA_INVALID_ARGUMENT, "'plans' is null");
  for (int i = 0; i < 3; ++i)
    CHECK_OK(ostraka_plan_destroy(&plans[i]));
  CHECK_OK(ostraka_plan_destroy(&plan));
}

/* A unit inside another one, settings of units, and ranks on nodes by number. */
static void units(void) {
  const ostraka_plan_config_t config = messages();
  const ostraka_shape_t shape = VECTOR(SIZE);
  const int32_t nodes[RANKS] = {0, 1, 1, 1};
  ostraka_plan_t plan = NULL;
  int32_t block = -1, inner = -1;
  CHECK_OK(ostraka_plan_create(1, line, NULL, NULL, &config, &plan));
  CHECK_OK(ostraka_plan_add_unit(plan, "block", 1, -1, &block));
  CHECK_OK(ostraka_plan_add_unit(plan, "inner", 2, block, &inner));
  CHECK_OK(ostraka_plan_add_parameter(plan, block, "w", shape, OSTRAKA_F64, 1));
  CHECK_OK(ostraka_plan_add_parameter(plan, inner, "w", shape, OSTRAKA_F32, 1));
  CHECK_OK(ostraka_plan_add_parameter(plan, inner, "fixed", shape, OSTRAKA_F32, 0));
  CHECK_OK(ostraka_plan_set_precision(plan, inner, OSTRAKA_F64, -1, -1));
  CHECK_OK(ostraka_plan_set_prefetch(plan, inner, 0));
  CHECK_OK(ostraka_plan_set_gradient_divisor(plan, inner, 2));
  CHECK_OK(ostraka_plan_set_nodes(plan, RANKS, nodes));
  CHECK_OK(ostraka_plan_compute(plan));
  const ostraka_plan_bytes_t bytes = bytes_of(plan);
  CHECK_INT(bytes.model_weights, (8 + 2 * 2 * 4) * SIZE / RANKS);
  CHECK_INT(bytes.main_gradients, (8 + 2 * 8) * SIZE / RANKS);
  CHECK_INT(bytes.moments, 2 * (8 + 2 * 8) * SIZE / RANKS);
  CHECK(bytes.main_weights >= 2 * 8 * SIZE / RANKS); /* trainable ones at least */
  CHECK(summary_of(plan).node_ranks == 1 || summary_of(plan).node_ranks == 3);
  CHECK_OK(ostraka_plan_destroy(&plan));
}

static void refused(void) {
  static const int32_t none[] = {0};
  static const char* const twice[] = {"a", "a"};
  static const int32_t two[] = {2, 2}, negative[] = {0, 0, 0, -1};
  const ostraka_shape_t shape = VECTOR(SIZE), bad = VECTOR(-4);
  ostraka_plan_config_t config = messages();
  ostraka_fsdp_config_t context;
  ostraka_plan_t plan = NULL, other = NULL;
  int32_t unit = -7;
  CHECK_FAILS(ostraka_plan_create(1, line, NULL, NULL, NULL, NULL), OSTRAKA_INVALID_ARGUMENT, "'plan' is null");
  CHECK_FAILS(ostraka_plan_create(0, line, NULL, NULL, NULL, &plan), OSTRAKA_INVALID_ARGUMENT, "axes >= 1, found 0");
  CHECK_FAILS(ostraka_plan_create(1, NULL, NULL, NULL, NULL, &plan), OSTRAKA_INVALID_ARGUMENT, "'sizes' is null");
  CHECK_OK(ostraka_fsdp_config_init(&context));
  context.version = 99;
  CHECK_FAILS(ostraka_plan_create(1, line, NULL, &context, NULL, &plan), OSTRAKA_INVALID_ARGUMENT, "found 99");
  CHECK(plan == NULL);

  /* What only compute can see. */
#define COMPUTE_REFUSES(dims, sizes, names, status, words)                                                             \
  do {                                                                                                                 \
    CHECK_OK(ostraka_plan_create(dims, sizes, names, &context, &config, &plan));                                       \
    CHECK_OK(ostraka_plan_add_unit(plan, "u", 1, -1, &unit));                                                          \
    CHECK_OK(ostraka_plan_add_parameter(plan, unit, "w", shape, OSTRAKA_F64, 1));                                      \
    CHECK_FAILS(ostraka_plan_compute(plan), status, words);                                                            \
    CHECK_OK(ostraka_plan_destroy(&plan));                                                                             \
  } while (0)
#define MEMBER_REFUSED(of, init, member, value, status, words)                                                         \
  do {                                                                                                                 \
    of.member = value;                                                                                                 \
    COMPUTE_REFUSES(1, line, NULL, status, words);                                                                     \
    CHECK_OK(init(&of));                                                                                               \
  } while (0)
#define CONTEXT_REFUSED(member, value, status, words)                                                                  \
  MEMBER_REFUSED(context, ostraka_fsdp_config_init, member, value, status, words)
#define CONFIG_REFUSED(member, value, status, words)                                                                   \
  MEMBER_REFUSED(config, ostraka_plan_config_init, member, value, status, words)
  CHECK_OK(ostraka_fsdp_config_init(&context));
  COMPUTE_REFUSES(1, none, NULL, OSTRAKA_INVALID_ARGUMENT, "0");
  COMPUTE_REFUSES(2, two, twice, OSTRAKA_INVALID_ARGUMENT, "'a'");
  CONTEXT_REFUSED(recipe, 7, OSTRAKA_INVALID_ARGUMENT, "found 7");
  CONTEXT_REFUSED(recipe, OSTRAKA_HSDP, OSTRAKA_INVALID_ARGUMENT, "two axes");
  CONTEXT_REFUSED(gradient_slots, 0, OSTRAKA_INVALID_ARGUMENT, "gradient_slots");
  CONTEXT_REFUSED(main_dtype, OSTRAKA_BF16, OSTRAKA_TYPE_MISMATCH, "bf16");
  CONTEXT_REFUSED(prefetch, -2, OSTRAKA_INVALID_ARGUMENT, "prefetch");
  CONFIG_REFUSED(backend, 3, OSTRAKA_INVALID_ARGUMENT, "found 3");
  CONFIG_REFUSED(ranks_per_node, -1, OSTRAKA_INVALID_ARGUMENT, "ranks_per_node");
  CONFIG_REFUSED(micro_batches, 0, OSTRAKA_INVALID_ARGUMENT, "micro_batches");
  CONFIG_REFUSED(optimizer, 4, OSTRAKA_INVALID_ARGUMENT, "found 4");
  CONFIG_REFUSED(rank, RANKS, OSTRAKA_INVALID_ARGUMENT, "rank");
  CONFIG_REFUSED(network_bandwidth, 0, OSTRAKA_INVALID_ARGUMENT, "bandwidth");
  CONFIG_REFUSED(memory_bandwidth, -1, OSTRAKA_INVALID_ARGUMENT, "bandwidth");
  CONFIG_REFUSED(overlap, 2, OSTRAKA_INVALID_ARGUMENT, "overlap");
  CONFIG_REFUSED(node_latency_s, -1, OSTRAKA_INVALID_ARGUMENT, "latency");

  /* What a plan refuses is as if it had not been asked. */
  plan = make_plan(OSTRAKA_ZERO_3, &config);
  CHECK_FAILS(ostraka_plan_add_unit(plan, NULL, 1, -1, &unit), OSTRAKA_INVALID_ARGUMENT, "'name' is null");
  CHECK_FAILS(ostraka_plan_add_unit(plan, "u", 1, -1, NULL), OSTRAKA_INVALID_ARGUMENT, "'unit' is null");
  CHECK_FAILS(ostraka_plan_add_parameter(plan, 1, "w", shape, OSTRAKA_F64, 1), OSTRAKA_INVALID_ARGUMENT,
              "a unit from 0 to 0, found 1 (in Fortran from 1 to 1, found 2)");
  CHECK_FAILS(ostraka_plan_add_parameter(plan, 0, NULL, shape, OSTRAKA_F64, 1), OSTRAKA_INVALID_ARGUMENT,
              "'name' is null");
  CHECK_FAILS(ostraka_plan_add_parameter(plan, 0, "w", shape, 99, 1), OSTRAKA_INVALID_ARGUMENT, "99");
  CHECK_FAILS(ostraka_plan_set_times(plan, -1, 0, 0), OSTRAKA_INVALID_ARGUMENT, "found -1");
  CHECK_FAILS(ostraka_plan_set_precision(plan, 0, 99, -1, -1), OSTRAKA_INVALID_ARGUMENT, "99");
  CHECK_FAILS(ostraka_plan_set_link(plan, 1, 0, 1), OSTRAKA_INVALID_ARGUMENT, "an axis from 0 to 0, found 1");
  CHECK_FAILS(ostraka_plan_set_nodes(plan, 2, NULL), OSTRAKA_INVALID_ARGUMENT, "'nodes' is null");
  ostraka_plan_summary_t summary;
  CHECK_OK(ostraka_plan_summary_init(&summary));
  CHECK_FAILS(ostraka_plan_summary(plan, &summary), OSTRAKA_INVALID_STATE, "ostraka_plan_compute first");
  CHECK_OK(ostraka_plan_compute(plan));
  CHECK_FAILS(ostraka_plan_summary(plan, NULL), OSTRAKA_INVALID_ARGUMENT, "is null");
  CHECK_OK(ostraka_plan_summary(plan, &summary));

  /* What is added makes what was computed stale. */
#define STALE(call, status, words)                                                                                     \
  do {                                                                                                                 \
    ostraka_plan_t now = make_plan(OSTRAKA_ZERO_3, &config);                                                           \
    CHECK_OK(ostraka_plan_compute(now));                                                                               \
    CHECK_OK(call);                                                                                                    \
    CHECK_FAILS(ostraka_plan_summary(now, &summary), OSTRAKA_INVALID_STATE, "ostraka_plan_compute first");             \
    CHECK_FAILS(ostraka_plan_compute(now), status, words);                                                             \
    CHECK_OK(ostraka_plan_destroy(&now));                                                                              \
  } while (0)
  STALE(ostraka_plan_add_parameter(now, 0, "weight", shape, OSTRAKA_F64, 1), OSTRAKA_INVALID_ARGUMENT, "'weight'");
  STALE(ostraka_plan_add_parameter(now, 0, "w", bad, OSTRAKA_F64, 1), OSTRAKA_INVALID_ARGUMENT, "-4");
  STALE(ostraka_plan_add_parameter(now, 0, "w", shape, OSTRAKA_I32, 1), OSTRAKA_TYPE_MISMATCH, "i32");
  STALE(ostraka_plan_add_unit(now, "layer", 2, -1, &unit), OSTRAKA_INVALID_ARGUMENT, "layer");
  STALE(ostraka_plan_add_unit(now, "", 1, -1, &unit), OSTRAKA_INVALID_ARGUMENT, "empty");
  STALE(ostraka_plan_add_unit(now, "u", 0, -1, &unit), OSTRAKA_INVALID_ARGUMENT, "count");
  STALE(ostraka_plan_add_unit(now, "u", 1, 0, &unit), OSTRAKA_INVALID_ARGUMENT, "several modules");
  STALE(ostraka_plan_add_unit(now, "u", 1, 5, &unit), OSTRAKA_INVALID_ARGUMENT, "5");
  STALE(ostraka_plan_set_times(now, 0, -1, 0), OSTRAKA_INVALID_ARGUMENT, "forward_s");
  STALE(ostraka_plan_set_prefetch(now, 0, -2), OSTRAKA_INVALID_ARGUMENT, "prefetch >= 0");
  STALE(ostraka_plan_set_gradient_divisor(now, 0, 0), OSTRAKA_INVALID_ARGUMENT, "0");
  STALE(ostraka_plan_set_precision(now, 0, OSTRAKA_BF16, -1, -1), OSTRAKA_TYPE_MISMATCH, "bf16");
  STALE(ostraka_plan_set_nodes(now, 2, two), OSTRAKA_INVALID_ARGUMENT, "nodes");
  STALE(ostraka_plan_set_nodes(now, RANKS, negative), OSTRAKA_INVALID_ARGUMENT, "-1");
  STALE(ostraka_plan_set_link(now, 0, -1, 1), OSTRAKA_INVALID_ARGUMENT, "latency");

  CHECK_OK(ostraka_plan_destroy(&plan));
  CHECK(plan == NULL);
  CHECK_OK(ostraka_plan_destroy(&plan));
  CHECK_FAILS(ostraka_plan_compute(plan), OSTRAKA_INVALID_HANDLE, "plan handle is null");
  CHECK_FAILS(ostraka_plan_compute(other), OSTRAKA_INVALID_HANDLE, "plan handle is null");
}

int main(void) {
  zero_3_by_hand();
  node_by_hand();
  times();
  choices();
  units();
  refused();
  int started = 1;
  CHECK_INT(MPI_Initialized(&started), MPI_SUCCESS);
  CHECK_INT(started, 0);
  CHECK_INT(ostraka_is_initialized(), 0);
  return check_finish_alone();
}
