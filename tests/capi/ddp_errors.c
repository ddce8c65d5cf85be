/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes at every point of a step of a ddp, one at a time: refused with what was found and what to do; the step in
 * which it is made gives the right weights, and so does the next. Then what finish_grad_sync tells all ranks, and
 * mistakes of set-up.
 */
#include "ddp_model.h"

enum { A_WEIGHT = 0, A_BIAS = 1, FIXED = 2, B_WEIGHT = 3, B_SCALE = 4 };

typedef struct {
  ostraka_ddp_t ddp;
  ostraka_optimizer_t sgd;
  int step;
  ddp_values_t expected;
} net_t;

static net_t make_net(ostraka_mesh_t mesh, const ostraka_ddp_config_t* config) {
  net_t n = {.ddp = make_ddp(mesh, config)};
  CHECK_OK(ostraka_sgd_create_ddp(n.ddp, NULL, &n.sgd));
  CHECK_OK(ostraka_optimizer_set_learning_rate(n.sgd, 1));
  ddp_first_values(n.expected);
  return n;
}

static void destroy_net(net_t* n) {
  CHECK_OK(ostraka_optimizer_destroy(&n->sgd));
  CHECK_OK(ostraka_ddp_destroy(&n->ddp));
}

/* --- one mistake in a step; the numbers of the mistakes are their order below */

static int chosen, mistakes;
#define MISTAKE(call, status, words)                                                                                   \
  do                                                                                                                   \
    if (mistakes++ == chosen)                                                                                          \
      CHECK_FAILS(call, status, words);                                                                                \
  while (0)
#define STATE(call, words) MISTAKE(call, OSTRAKA_INVALID_STATE, words)
#define ARGUMENT(call, words) MISTAKE(call, OSTRAKA_INVALID_ARGUMENT, words)

static void* data;
static const void* found;
static int64_t count, offset;
static double beta;

static void between_steps(const net_t* n) {
  int32_t k = 0;
  STATE(ostraka_ddp_add_parameter(n->ddp, "x", ddp_shape(A_BIAS), OSTRAKA_F64, 0), "'x'): call it before finalize");
  STATE(ostraka_ddp_finalize(n->ddp), "it was called already");
  STATE(ostraka_ddp_end_no_sync(n->ddp), "there was no begin_no_sync");
  STATE(ostraka_ddp_restore_grad_buffers(n->ddp), "they are not offloaded");
  STATE(ostraka_ddp_enable_forward_pre_hook(n->ddp), "hooks are enabled already");
  STATE(ostraka_ddp_main_gradient(n->ddp, "a.bias", OSTRAKA_F64, &found, &count, &offset), "there is none");
  STATE(ostraka_ddp_main_gradient(n->ddp, "a.fixed", OSTRAKA_F64, &found, &count, &offset), "the parameter is frozen");
  STATE(ostraka_ddp_gradient(n->ddp, "a.fixed", OSTRAKA_F64, &data, &count, &beta), "the parameter is frozen");
  STATE(ostraka_ddp_gradient_ready(n->ddp, "a.bias"), "'a.bias': nobody asked for its gradient");
  STATE(ostraka_optimizer_step(n->sgd), "has no complete gradient");
  ARGUMENT(ostraka_ddp_parameter(n->ddp, "a.wait", OSTRAKA_F64, &data, &count), "there are 'a.weight', 'a.bias'");
  ARGUMENT(ostraka_ddp_parameter_shape(n->ddp, "a.wait", &k, NULL), "there is no parameter 'a.wait'");
  ARGUMENT(ostraka_ddp_set_parameter(n->ddp, "x", OSTRAKA_F64, n->expected, 1), "there is no parameter 'x'");
  ARGUMENT(ostraka_ddp_gradient(n->ddp, "x", OSTRAKA_F64, &data, &count, &beta), "there is no parameter 'x'");
  ARGUMENT(ostraka_ddp_gradient_dtype(n->ddp, "x", &k), "there is no parameter 'x'");
  ARGUMENT(ostraka_ddp_gradient_ready(n->ddp, "x"), "there is no parameter 'x'");
  ARGUMENT(ostraka_ddp_main_gradient(n->ddp, "x", OSTRAKA_F64, &found, &count, &offset), "there is no parameter 'x'");
  ARGUMENT(ostraka_ddp_ensure_ready(n->ddp, "x"), "there is no parameter 'x'");
  ARGUMENT(ostraka_ddp_set_uses(n->ddp, "x", 1), "there is no parameter 'x'");
  ARGUMENT(ostraka_ddp_set_uses(n->ddp, "a.bias", -2), "'a.bias': expected uses >= 0 or uses_auto (-1), found -2");
  ARGUMENT(ostraka_ddp_pre_forward(n->ddp, "c"), "no parameter belongs to a module 'c'");
  ARGUMENT(ostraka_ddp_parameter(n->ddp, "a.bias", 99, &data, &count), "99");
  MISTAKE(ostraka_ddp_parameter(n->ddp, "a.bias", OSTRAKA_F32, &data, &count), OSTRAKA_TYPE_MISMATCH,
          "stored as f64, asked for f32");
  MISTAKE(ostraka_ddp_set_parameter(n->ddp, "a.bias", OSTRAKA_F64, n->expected, 3), OSTRAKA_SHAPE_MISMATCH, "found 3");
  MISTAKE(ostraka_ddp_set_parameter(n->ddp, "a.bias", OSTRAKA_I32, n->expected, 4), OSTRAKA_TYPE_MISMATCH, "i32");
}

static void null_addresses(const net_t* n) {
  ARGUMENT(ostraka_ddp_parameter(n->ddp, NULL, OSTRAKA_F64, &data, &count), "'name' is null");
  ARGUMENT(ostraka_ddp_parameter(n->ddp, "a.bias", OSTRAKA_F64, NULL, &count), "'data' is null");
  ARGUMENT(ostraka_ddp_parameter(n->ddp, "a.bias", OSTRAKA_F64, &data, NULL), "'count' is null");
  ARGUMENT(ostraka_ddp_set_parameter(n->ddp, "a.bias", OSTRAKA_F64, NULL, 4), "null");
  ARGUMENT(ostraka_ddp_gradient(n->ddp, "a.bias", OSTRAKA_F64, NULL, &count, &beta), "'data' is null");
  ARGUMENT(ostraka_ddp_gradient(n->ddp, "a.bias", OSTRAKA_F64, &data, NULL, &beta), "'count' is null");
  ARGUMENT(ostraka_ddp_gradient(n->ddp, "a.bias", OSTRAKA_F64, &data, &count, NULL), "'beta' is null");
  ARGUMENT(ostraka_ddp_gradient_dtype(n->ddp, "a.bias", NULL), "'dtype' is null");
  ARGUMENT(ostraka_ddp_is_syncing(n->ddp, NULL), "'is_syncing' is null");
  ARGUMENT(ostraka_ddp_has_forward_pre_hook(n->ddp, NULL), "'has_hook' is null");
  ARGUMENT(ostraka_ddp_pre_forward(n->ddp, NULL), "'module' is null");
  ARGUMENT(ostraka_ddp_memory(n->ddp, NULL), "'report' is null");
  ARGUMENT(ostraka_sgd_create_ddp(n->ddp, NULL, NULL), "'optimizer' is null");
  ARGUMENT(ostraka_adamw_create_ddp(n->ddp, NULL, NULL), "'optimizer' is null");
}

/* Some buckets are in flight. */
static void in_backward(const net_t* n) {
  STATE(ostraka_ddp_zero_grad_buffer(n->ddp), "gradients are being reduced; call finish_grad_sync first");
  STATE(ostraka_ddp_scale_gradients(n->ddp, 2), "gradients are being reduced; call finish_grad_sync first");
  STATE(ostraka_ddp_offload_grad_buffers(n->ddp), "gradients are being reduced; call finish_grad_sync first");
  STATE(ostraka_ddp_set_uses(n->ddp, "b.weight", 2), "'b.weight': its gradient is being contributed");
  STATE(ostraka_optimizer_step(n->sgd), "has no complete gradient");
  MISTAKE(ostraka_ddp_gradient(n->ddp, "a.bias", OSTRAKA_F32, &data, &count, &beta), OSTRAKA_TYPE_MISMATCH,
          "kept as f64, asked for f32");
}

static void in_no_sync(const net_t* n) {
  STATE(ostraka_ddp_start_grad_sync(n->ddp), "not inside no_sync");
  STATE(ostraka_ddp_finish_grad_sync(n->ddp, 0), "not inside no_sync");
}

static void after_backward(const net_t* n) {
  STATE(ostraka_ddp_gradient(n->ddp, "a.bias", OSTRAKA_F64, &data, &count, &beta), "call zero_grad_buffer before");
  STATE(ostraka_ddp_gradient_ready(n->ddp, "a.bias"), "call zero_grad_buffer before the next backward pass");
  MISTAKE(ostraka_ddp_main_gradient(n->ddp, "a.bias", OSTRAKA_F32, &found, &count, &offset), OSTRAKA_TYPE_MISMATCH,
          "kept as f64, asked for f32");
}

static void while_offloaded(const net_t* n) {
  STATE(ostraka_ddp_gradient(n->ddp, "a.bias", OSTRAKA_F64, &data, &count, &beta), "call restore_grad_buffers first");
  STATE(ostraka_ddp_finish_grad_sync(n->ddp, 0), "gradients are offloaded");
  STATE(ostraka_ddp_start_grad_sync(n->ddp), "gradients are offloaded");
  STATE(ostraka_ddp_zero_grad_buffer(n->ddp), "gradients are offloaded");
  STATE(ostraka_ddp_scale_gradients(n->ddp, 1), "gradients are offloaded");
  STATE(ostraka_ddp_offload_grad_buffers(n->ddp), "gradients are offloaded");
  STATE(ostraka_optimizer_step(n->sgd), "has no complete gradient");
}

static void contribute(const net_t* n, int microbatch, int p) {
  ddp_contribute(n->ddp, n->step, microbatch, p, n->expected[p]);
}

static void contribute_all(const net_t* n) {
  for (int p = B_SCALE; p >= 0; --p)
    if (p != FIXED)
      contribute(n, 0, p);
}

static void step_with(net_t* n, int mistake) {
  static const ddp_case_t c = {.scaling = OSTRAKA_SCALING_MEAN, .microbatches = 2};
  ddp_values_t g;
  chosen = mistake;
  mistakes = 0;
  between_steps(n);
  null_addresses(n);
  CHECK_OK(ostraka_ddp_begin_no_sync(n->ddp));
  contribute_all(n);
  in_no_sync(n);
  CHECK_OK(ostraka_ddp_end_no_sync(n->ddp));
  contribute(n, 1, B_SCALE);
  contribute(n, 1, B_WEIGHT);
  in_backward(n);
  contribute(n, 1, A_BIAS);
  contribute(n, 1, A_WEIGHT);
  CHECK_OK(ostraka_ddp_finish_grad_sync(n->ddp, 0));
  after_backward(n);
  ddp_expected_gradients(&c, n->step, n->expected, g);
  ddp_check_gradients(n->ddp, 1, g);
  CHECK_OK(ostraka_optimizer_step(n->sgd));
  STATE(ostraka_optimizer_step(n->sgd), "no parameter has a new gradient");
  CHECK_OK(ostraka_ddp_offload_grad_buffers(n->ddp));
  while_offloaded(n);
  CHECK_OK(ostraka_ddp_restore_grad_buffers(n->ddp));
  for (int p = 0; p < DDP_PARAMETERS; ++p)
    for (int k = 0; p != FIXED && k < ddp_sizes[p]; ++k)
      n->expected[p][k] -= 1 * g[p][k];
  ddp_check_weights(n->ddp, n->expected);
  ddp_first_values(n->expected); /* numbers would grow */
  for (int p = 0; p < DDP_PARAMETERS; ++p)
    CHECK_OK(ostraka_ddp_set_parameter(n->ddp, ddp_names[p], OSTRAKA_F64, n->expected[p], ddp_sizes[p]));
  ++n->step;
}

static void train(net_t* n) { step_with(n, -1); }

static void every_mistake(ostraka_mesh_t mesh) {
  ostraka_ddp_config_t config = ddp_small_buckets();
  config.sharded_optimizer = config.overlap_param_gather = 1;
  net_t n = make_net(mesh, &config);
  train(&n);
  for (int mistake = 0, all = mistakes; mistake < all; ++mistake) {
    step_with(&n, mistake);
    train(&n);
  }
  CHECK(mistakes > 55);
  destroy_net(&n);
}

/* --- what finish_grad_sync tells all ranks; training goes on */

static void expect_finish_fails(net_t* n, ostraka_status_t status, const char* words) {
  CHECK_FAILS(ostraka_ddp_finish_grad_sync(n->ddp, 0), status, words);
  CHECK_FAILS(ostraka_optimizer_step(n->sgd), OSTRAKA_INVALID_STATE, "has no complete gradient");
  train(n);
}

static void told_to_all(ostraka_mesh_t mesh) {
  ostraka_ddp_config_t config = ddp_small_buckets();
  config.sharded_optimizer = config.overlap_param_gather = 1;
  net_t n = make_net(mesh, &config);
  const int last = check_ranks - 1;
  if (check_rank == last) /* one rank gives up */
    CHECK_OK(ostraka_ddp_fail_step(n.ddp, "no convergence"));
  else
    contribute_all(&n);
  expect_finish_fails(&n, OSTRAKA_USER_FAILURE, "no convergence");
  if (check_rank == last)
    CHECK_OK(ostraka_ddp_fail_step(n.ddp, NULL));
  else
    contribute_all(&n);
  expect_finish_fails(&n, OSTRAKA_USER_FAILURE, "the caller reported a failure");
  for (int p = B_SCALE; p >= 0; --p) /* one rank leaves one out */
    if (p != FIXED && (check_rank != last || p != B_WEIGHT))
      contribute(&n, 0, p);
  expect_finish_fails(&n, OSTRAKA_INVALID_STATE, "no gradient was contributed for 'b.weight'");
  contribute(&n, 0, B_SCALE);
  contribute(&n, 0, B_WEIGHT);
  if (check_rank == last)
    CHECK_FAILS(ostraka_ddp_gradient(n.ddp, "b.weight", OSTRAKA_F64, &data, &count, &beta), OSTRAKA_INVALID_STATE,
                "after 1 of 1 declared; say set_uses('b.weight', 2)");
  contribute(&n, 0, A_BIAS);
  contribute(&n, 0, A_WEIGHT);
  expect_finish_fails(&n, OSTRAKA_INVALID_STATE, "'b.weight'");
  destroy_net(&n);
}

/* The first finish_grad_sync compares weights. */
static void different_weights(ostraka_mesh_t mesh) {
  ostraka_ddp_config_t config = ddp_small_buckets();
  config.sharded_optimizer = config.overlap_param_gather = 1;
  net_t n = make_net(mesh, &config);
  const double other[4] = {7 + check_rank};
  if (check_ranks > 1) {
    CHECK_OK(ostraka_ddp_set_parameter(n.ddp, "a.bias", OSTRAKA_F64, other, 4));
    contribute_all(&n);
    CHECK_FAILS(ostraka_ddp_finish_grad_sync(n.ddp, 0), OSTRAKA_RANKS_DISAGREE, "broadcast_params");
    CHECK_OK(ostraka_ddp_set_parameter(n.ddp, "a.bias", OSTRAKA_F64, n.expected[A_BIAS], 4));
  }
  train(&n);
  destroy_net(&n);
}

/* --- set-up */

static void before_finalize(ostraka_ddp_t ddp) {
  int32_t k = 0;
  ostraka_optimizer_t optimizer = NULL;
#define TOO_EARLY(call) CHECK_FAILS(call, OSTRAKA_INVALID_STATE, "call finalize first")
  TOO_EARLY(ostraka_ddp_parameter(ddp, "w", OSTRAKA_F64, &data, &count));
  TOO_EARLY(ostraka_ddp_parameter_shape(ddp, "w", &k, NULL));
  TOO_EARLY(ostraka_ddp_set_parameter(ddp, "w", OSTRAKA_F64, &count, 1));
  TOO_EARLY(ostraka_ddp_broadcast_params(ddp));
  TOO_EARLY(ostraka_ddp_gradient(ddp, "w", OSTRAKA_F64, &data, &count, &beta));
  TOO_EARLY(ostraka_ddp_gradient_ready(ddp, "w"));
  TOO_EARLY(ostraka_ddp_begin_no_sync(ddp));
  TOO_EARLY(ostraka_ddp_start_grad_sync(ddp));
  TOO_EARLY(ostraka_ddp_finish_grad_sync(ddp, 0));
  TOO_EARLY(ostraka_ddp_fail_step(ddp, "why"));
  TOO_EARLY(ostraka_ddp_zero_grad_buffer(ddp));
  TOO_EARLY(ostraka_ddp_offload_grad_buffers(ddp));
  TOO_EARLY(ostraka_ddp_restore_grad_buffers(ddp));
  TOO_EARLY(ostraka_ddp_start_param_sync(ddp, 0, 0));
  TOO_EARLY(ostraka_ddp_pre_forward(ddp, "w"));
  TOO_EARLY(ostraka_ddp_enable_forward_pre_hook(ddp));
  TOO_EARLY(ostraka_ddp_disable_forward_pre_hook(ddp, 1));
  TOO_EARLY(ostraka_ddp_reset_param_sync_dispatch_state(ddp));
  TOO_EARLY(ostraka_ddp_free_overlap_buffers(ddp));
  TOO_EARLY(ostraka_sgd_create_ddp(ddp, NULL, &optimizer));
  TOO_EARLY(ostraka_adamw_create_ddp(ddp, NULL, &optimizer));
  CHECK(optimizer == NULL && k == 0);
}

static void set_up(ostraka_mesh_t mesh) {
  ostraka_ddp_t ddp = NULL;
  const ostraka_shape_t shape = VECTOR(3), negative = VECTOR(-1);
  CHECK_OK(ostraka_ddp_create(mesh, NULL, NULL, &ddp));
  CHECK_OK(ostraka_ddp_add_parameter(ddp, "w", shape, OSTRAKA_F64, 0));
#define REFUSED(name, extents, dtype, flags, status, words)                                                            \
  CHECK_FAILS(ostraka_ddp_add_parameter(ddp, name, extents, dtype, flags), status, words)
  REFUSED("w", shape, OSTRAKA_F64, 0, OSTRAKA_INVALID_ARGUMENT, "there is a parameter 'w' already");
  REFUSED("", shape, OSTRAKA_F64, 0, OSTRAKA_INVALID_ARGUMENT, "expected a name");
  REFUSED(NULL, shape, OSTRAKA_F64, 0, OSTRAKA_INVALID_ARGUMENT, "'name' is null");
  REFUSED("x", negative, OSTRAKA_F64, 0, OSTRAKA_INVALID_ARGUMENT, "-1");
  REFUSED("x", shape, OSTRAKA_I32, 0, OSTRAKA_TYPE_MISMATCH, "found i32");
  REFUSED("x", shape, 99, 0, OSTRAKA_INVALID_ARGUMENT, "99");
  REFUSED("x", shape, OSTRAKA_F64, 8, OSTRAKA_INVALID_ARGUMENT, "flags from 0 to 7, found 8");
  REFUSED("x", shape, OSTRAKA_F64, OSTRAKA_DDP_EXPERT, OSTRAKA_INVALID_ARGUMENT, "an expert needs the expert mesh");
  before_finalize(ddp);
  if (check_ranks > 1) {
    CHECK_OK(ostraka_ddp_add_parameter(ddp, check_rank == 0 ? "x" : "y", shape, OSTRAKA_F64, 0));
    CHECK_FAILS(ostraka_ddp_finalize(ddp), OSTRAKA_RANKS_DISAGREE, "parameter 2 (here '");
  } else {
    CHECK_OK(ostraka_ddp_finalize(ddp));
  }
  CHECK_OK(ostraka_ddp_destroy(&ddp));
}

void ddp_error_suite(void) {
  ostraka_mesh_t mesh = make_mesh();
  every_mistake(mesh);
  told_to_all(mesh);
  different_weights(mesh);
  set_up(mesh);
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}
