/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes at every point of a step, one at a time: refused with what was found and what to do; the step in which it is
 * made gives the right weights, and so does the next. Then what finish_backward reports, mistakes of set-up, and a
 * context that has lost its order.
 */
#include "suites.h"

enum { SIZE = 5 };

/* "net" without parameters around "a" ("w", also called "v", and the frozen "fixed"), "b" ("w") and "spare", which is
 * never used. Every rank contributes 1, so a step of rate 1 lowers weights by the number of ranks. */
typedef struct {
  ostraka_mesh_t mesh;
  ostraka_fsdp_context_t context;
  ostraka_fsdp_module_t net, a, b, spare;
  ostraka_optimizer_t sgd;
  double expected;
} net_t;

static const ostraka_shape_t shape = VECTOR(SIZE);
static const double zeros[SIZE] = {0};

static int32_t fill_zero(void* user, int64_t first, int64_t count, void* out, int32_t dtype) {
  (void)user, (void)first, (void)dtype;
  for (int64_t k = 0; k < count; ++k)
    ((double*)out)[k] = 0;
  return OSTRAKA_OK;
}

static void add_modules(net_t* n, int32_t recipe) {
  ostraka_fsdp_config_t config;
  CHECK_OK(ostraka_fsdp_config_init(&config));
  config.recipe = recipe;
  config.reduction = OSTRAKA_SUM;
  CHECK_OK(ostraka_fsdp_context_create(n->mesh, &config, &n->context));
  CHECK_OK(ostraka_fsdp_context_add_module(n->context, "net", &n->net));
  CHECK_OK(ostraka_fsdp_module_add_module(n->net, "a", &n->a));
  CHECK_OK(ostraka_fsdp_module_add_module(n->net, "b", &n->b));
  CHECK_OK(ostraka_fsdp_module_add_module(n->net, "spare", &n->spare));
  CHECK_OK(ostraka_fsdp_module_set_allow_unused(n->spare, 1));
  CHECK_OK(ostraka_fsdp_module_add_parameter(n->a, "fixed", shape, OSTRAKA_F64, 0));
  CHECK_OK(ostraka_fsdp_module_add_parameter(n->a, "w", shape, OSTRAKA_F64, 1));
  CHECK_OK(ostraka_fsdp_module_tie_parameter(n->a, "v", "w"));
  CHECK_OK(ostraka_fsdp_module_add_parameter(n->b, "w", shape, OSTRAKA_F64, 1));
  CHECK_OK(ostraka_fsdp_module_build(n->b));
  CHECK_OK(ostraka_fsdp_module_add_parameter(n->spare, "w", shape, OSTRAKA_F64, 1));
  CHECK_OK(ostraka_fsdp_module_build(n->spare));
}

static void complete(net_t* n) {
  ostraka_sgd_config_t config;
  CHECK_OK(ostraka_fsdp_module_build(n->a));
  CHECK_OK(ostraka_fsdp_context_finalize(n->context));
  CHECK_OK(ostraka_sgd_config_init(&config));
  config.learning_rate = 1;
  CHECK_OK(ostraka_sgd_create(n->context, &config, &n->sgd));
}

static void destroy(net_t* n) {
  CHECK_OK(ostraka_optimizer_destroy(&n->sgd));
  CHECK_OK(ostraka_fsdp_context_destroy(&n->context));
  n->expected = 0;
}

static void run_forward(ostraka_fsdp_module_t module) {
  CHECK_OK(ostraka_fsdp_module_pre_forward(module));
  CHECK_OK(ostraka_fsdp_module_post_forward(module));
}

static void write_one(ostraka_fsdp_module_t module) {
  void* data = NULL;
  int64_t count = 0;
  double beta = -1;
  if (CHECK_OK(ostraka_fsdp_module_gradient(module, "w", OSTRAKA_F64, &data, &count, &beta)))
    for (int64_t k = 0; k < count; ++k)
      ((double*)data)[k] = 1 + (beta == 0 ? 0 : ((double*)data)[k]);
}

static void run_backward(ostraka_fsdp_module_t module) {
  CHECK_OK(ostraka_fsdp_module_pre_backward(module));
  write_one(module);
  CHECK_OK(ostraka_fsdp_module_post_backward(module));
}

static void expect_weights(ostraka_fsdp_module_t module, double expected) {
  const void* data = NULL;
  int64_t count = 0;
  CHECK_OK(ostraka_fsdp_module_unshard(module));
  if (CHECK_OK(ostraka_fsdp_module_parameter(module, "w", OSTRAKA_F64, &data, &count)))
    for (int64_t k = 0; k < count; ++k)
      CHECK_NEAR(((const double*)data)[k], expected, 0);
  CHECK_INT(count, SIZE);
  CHECK_OK(ostraka_fsdp_module_reshard(module));
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

static void in_use(const net_t* n, const char* words) {
  STATE(ostraka_fsdp_module_set_parameter(n->a, "w", OSTRAKA_F64, zeros, SIZE), words);
  STATE(ostraka_fsdp_module_set_from_root(n->a, "w", OSTRAKA_F64, zeros, SIZE, 0), words);
  STATE(ostraka_fsdp_module_initialise(n->a, "v", fill_zero, NULL), words);
  STATE(ostraka_optimizer_step(n->sgd), words);
}

static void set_up_too_late(const net_t* n) {
  ostraka_fsdp_module_t late = NULL;
  STATE(ostraka_fsdp_context_finalize(n->context), "finalised already");
  STATE(ostraka_fsdp_context_add_module(n->context, "x", &late), "finalised; add modules before");
  STATE(ostraka_fsdp_module_add_module(n->a, "x", &late), "finalised; add modules before");
  STATE(ostraka_fsdp_module_build(n->a), "'net.a': build was called twice");
  STATE(ostraka_fsdp_module_add_parameter(n->net, "x", shape, OSTRAKA_F64, 1), "'net': the context is finalised");
  STATE(ostraka_fsdp_module_tie_parameter(n->a, "x", "w"), "'net.a': tie_parameter('x') after build");
  STATE(ostraka_fsdp_module_set_precision(n->a, -1, -1, -1), "'net.a': set_precision after build");
  STATE(ostraka_fsdp_module_set_allow_unused(n->a, 1), "'net.a': the context is finalised; call it before");
  STATE(ostraka_fsdp_module_set_prefetch(n->a, 0), "'net.a': the context is finalised; call it before");
  STATE(ostraka_fsdp_module_set_gradient_divisor(n->a, 2), "'net.a': the context is finalised; call it before");
  ARGUMENT(ostraka_fsdp_module_set_from_root(n->a, "w", OSTRAKA_F64, zeros, SIZE, check_ranks), "a root from 0 to");
  ARGUMENT(ostraka_fsdp_module_initialise(n->a, "x", fill_zero, NULL), "has no parameter 'x'; it has 'fixed', 'w'");
  const int32_t odd_type = check_rank == check_ranks - 1 ? 99 : OSTRAKA_F64;
  ARGUMENT(ostraka_fsdp_module_set_from_root(n->a, "w", odd_type, zeros, SIZE, 0), "99"); /* on all ranks */
  MISTAKE(ostraka_fsdp_module_set_from_root(n->a, "w", OSTRAKA_F64, zeros, 4, 0), OSTRAKA_SHAPE_MISMATCH,
          "has 5 elements, found 4");
}

static void at_rest(const net_t* n) {
  STATE(ostraka_fsdp_module_skip_backward(n->a), "'net.a': it has no forward pass");
  STATE(ostraka_fsdp_module_reshard(n->a), "'net.a': it was not unsharded; call unshard first");
  ARGUMENT(ostraka_fsdp_module_unshard_ahead(n->a, 7), "backward (2), found 7");
  STATE(ostraka_optimizer_step(n->sgd), "'net.a.w' has no complete gradient; call finish_backward");
  STATE(ostraka_optimizer_check_finite(n->sgd), "'net.a.w' has no complete gradient");
}

static void in_forward(const net_t* n) {
  STATE(ostraka_fsdp_module_skip_forward(n->a), "expected the resting phase, found forward; call post_forward");
  STATE(ostraka_fsdp_module_skip_backward(n->a), "expected the resting phase, found forward");
  STATE(ostraka_fsdp_module_reduce_gradients(n->a), "expected the resting phase, found forward");
  STATE(ostraka_fsdp_context_begin_backward(n->context), "call post_forward first");
  STATE(ostraka_fsdp_context_skip_microbatch(n->context), "hooks of this micro-batch have run");
  in_use(n, "'net.a' are in use (forward)");
}

static void recomputed(const net_t* n) {
  STATE(ostraka_fsdp_module_pre_forward(n->a), "'net.a': it is being recomputed; call post_forward");
  STATE(ostraka_fsdp_module_pre_forward(n->b), "'net.b': a backward pass has begun");
  STATE(ostraka_fsdp_context_zero_grad(n->context), "in a backward pass; call finish_backward first");
}

static void in_backward(const net_t* n) {
  STATE(ostraka_fsdp_module_skip_forward(n->b), "call finish_backward after the backward pass of each");
  STATE(ostraka_fsdp_module_reduce_gradients(n->a), "found backward; call post_backward first");
  STATE(ostraka_fsdp_context_skip_microbatch(n->context), "hooks of this micro-batch have run");
  in_use(n, "'net.a' are in use (backward)");
}

static void in_inference(const net_t* n) {
  STATE(ostraka_fsdp_context_begin_backward(n->context), "between begin_inference and end_inference");
  STATE(ostraka_fsdp_context_skip_microbatch(n->context), "between begin_inference and end_inference");
  STATE(ostraka_fsdp_module_reduce_gradients(n->a), "between begin_inference and end_inference");
  STATE(ostraka_fsdp_module_skip_backward(n->a), "between begin_inference and end_inference");
  in_use(n, "'net.a' are in use (inference)");
}

static void step_with(net_t* n, int mistake) {
  chosen = mistake;
  mistakes = 0;
  CHECK_OK(ostraka_fsdp_context_zero_grad(n->context));
  set_up_too_late(n);
  at_rest(n);
  CHECK_OK(ostraka_fsdp_module_pre_forward(n->a));
  in_forward(n);
  CHECK_OK(ostraka_fsdp_module_post_forward(n->a));
  run_forward(n->b);
  run_backward(n->b);
  CHECK_OK(ostraka_fsdp_module_pre_forward(n->a));
  recomputed(n);
  CHECK_OK(ostraka_fsdp_module_post_forward(n->a));
  CHECK_OK(ostraka_fsdp_module_pre_backward(n->a));
  in_backward(n);
  write_one(n->a);
  CHECK_OK(ostraka_fsdp_module_post_backward(n->a));
  STATE(ostraka_optimizer_step(n->sgd), "'net.a.w' has no complete gradient; call finish_backward");
  CHECK_OK(ostraka_fsdp_context_finish_backward(n->context));
  CHECK_OK(ostraka_optimizer_step(n->sgd));
  STATE(ostraka_optimizer_step(n->sgd), "no parameter has a new gradient since the last one; run a backward pass");
  n->expected -= check_ranks;
  CHECK_OK(ostraka_fsdp_context_begin_inference(n->context));
  in_inference(n);
  CHECK_OK(ostraka_fsdp_context_end_inference(n->context));
  CHECK_OK(ostraka_fsdp_module_unshard(n->a));
  in_use(n, "'net.a' are in use (unshard without reshard)");
  CHECK_OK(ostraka_fsdp_module_reshard(n->a));
  expect_weights(n->a, n->expected);
  expect_weights(n->b, n->expected);
}

static void train(net_t* n) { step_with(n, -1); }

static void every_mistake(net_t* n, int32_t recipe) {
  add_modules(n, recipe);
  complete(n);
  train(n);
  for (int mistake = 0, all = mistakes; mistake < all; ++mistake) {
    step_with(n, mistake);
    train(n);
  }
  CHECK(mistakes > 45);
  destroy(n);
}

/* --- what finish_backward reports on all ranks */

static void expect_finish_fails(net_t* n, const char* words) {
  CHECK_FAILS(ostraka_fsdp_context_finish_backward(n->context), OSTRAKA_INVALID_STATE, words);
  CHECK_FAILS(ostraka_optimizer_step(n->sgd), OSTRAKA_INVALID_STATE, "no complete gradient");
  train(n);
  CHECK_OK(ostraka_fsdp_context_zero_grad(n->context));
}

static void reported_at_the_end(net_t* n) {
  add_modules(n, OSTRAKA_ZERO_3);
  complete(n);
  run_forward(n->a);
  run_backward(n->a);
  expect_finish_fails(n, "module 'net.b' ran neither forward nor backward");
  run_forward(n->a);
  run_forward(n->b);
  run_backward(n->b);
  expect_finish_fails(n, "module 'net.a' went forward 1 times but backward 0 times");
  run_forward(n->a);
  run_forward(n->b);
  if (check_rank == 0)
    CHECK_OK(ostraka_fsdp_module_skip_backward(n->b));
  else
    run_backward(n->b);
  CHECK_OK(ostraka_fsdp_module_pre_backward(n->a));
  if (check_rank != check_ranks - 1)
    write_one(n->a);
  CHECK_OK(ostraka_fsdp_module_post_backward(n->a));
  expect_finish_fails(n, "module 'net.a': parameter 'w' got no gradient; ask for it and write it");
  CHECK_OK(ostraka_fsdp_module_reduce_gradients(n->a));
  CHECK_OK(ostraka_fsdp_module_reduce_gradients(n->b));
  expect_finish_fails(n, "reduce_gradients of module 'net.a': parameter 'w' got no gradient");
  CHECK_OK(ostraka_fsdp_module_unshard(n->a));
  write_one(n->a);
  CHECK_FAILS(ostraka_fsdp_module_reshard(n->a), OSTRAKA_INVALID_STATE, "call reduce_gradients first");
  CHECK_FAILS(ostraka_fsdp_context_finish_backward(n->context), OSTRAKA_INVALID_STATE, "call reduce_gradients");
  CHECK_OK(ostraka_fsdp_module_reshard(n->a));
  train(n);
  destroy(n);
}

/* --- other mistakes, each in a context of its own */

static void set_up(net_t* n) {
  static const char* const differs = "finalize: settings: allow_unused of 'net.a'";
#define REFUSED(call, status, words)                                                                                   \
  do {                                                                                                                 \
    add_modules(n, OSTRAKA_ZERO_3);                                                                                    \
    CHECK_FAILS(call, status, words);                                                                                  \
    CHECK_OK(ostraka_fsdp_module_set_allow_unused(n->a, 0));                                                           \
    complete(n);                                                                                                       \
    train(n);                                                                                                          \
    destroy(n);                                                                                                        \
  } while (0)
  REFUSED(ostraka_fsdp_module_tie_parameter(n->a, "w", "fixed"), OSTRAKA_INVALID_ARGUMENT, "'w' exists already");
  REFUSED(ostraka_fsdp_module_tie_parameter(n->a, "x", "y"), OSTRAKA_INVALID_ARGUMENT, "it has 'fixed', 'w'");
  REFUSED(ostraka_fsdp_module_tie_parameter(n->a, "x", "net.b.w"), OSTRAKA_INVALID_ARGUMENT, "owned by module 'net.b'");
  REFUSED(ostraka_fsdp_module_set_precision(n->a, OSTRAKA_BF16, -1, -1), OSTRAKA_TYPE_MISMATCH, "'net.a': expected a");
  REFUSED(ostraka_fsdp_module_set_precision(n->a, -1, 99, -1), OSTRAKA_INVALID_ARGUMENT, "99");
  REFUSED(ostraka_fsdp_module_set_precision(n->a, -1, -1, OSTRAKA_F16), OSTRAKA_TYPE_MISMATCH, "found f16");
  REFUSED(ostraka_fsdp_module_set_prefetch(n->a, -7), OSTRAKA_INVALID_ARGUMENT, "'net.a': expected elements >= 0");
  REFUSED(ostraka_fsdp_module_set_gradient_divisor(n->a, -1), OSTRAKA_INVALID_ARGUMENT, "divisor > 0, found -1");
  REFUSED(ostraka_fsdp_context_finalize(n->context), OSTRAKA_INVALID_STATE, "'net.a' is not built");
  REFUSED(ostraka_fsdp_context_begin_backward(n->context), OSTRAKA_INVALID_STATE, "finalize the context first");
  REFUSED(ostraka_fsdp_context_skip_microbatch(n->context), OSTRAKA_INVALID_STATE, "finalize the context first");
  REFUSED(ostraka_fsdp_module_skip_forward(n->b), OSTRAKA_INVALID_STATE, "finalize the context first");
  REFUSED(ostraka_fsdp_module_reduce_gradients(n->b), OSTRAKA_INVALID_STATE, "finalize the context first");
  REFUSED(ostraka_fsdp_module_initialise(n->a, "w", fill_zero, NULL), OSTRAKA_INVALID_STATE, "before build");
  REFUSED(ostraka_fsdp_module_set_from_root(n->a, "w", OSTRAKA_F64, zeros, SIZE, 0), OSTRAKA_INVALID_STATE, "build");
  if (check_ranks == 1)
    return;
  add_modules(n, OSTRAKA_ZERO_3);
  CHECK_OK(ostraka_fsdp_module_build(n->a));
  CHECK_OK(ostraka_fsdp_module_set_allow_unused(n->a, check_rank == 0));
  CHECK_FAILS(ostraka_fsdp_context_finalize(n->context), OSTRAKA_RANKS_DISAGREE, differs);
  CHECK_OK(ostraka_fsdp_context_destroy(&n->context));
}

static void two_fused_optimizers(net_t* n) {
  ostraka_optimizer_t other = NULL;
  add_modules(n, OSTRAKA_ZERO_3);
  complete(n);
  CHECK_OK(ostraka_adamw_create(n->context, NULL, &other));
  CHECK_OK(ostraka_optimizer_fuse_with_reduction(n->sgd));
  CHECK_FAILS(ostraka_optimizer_fuse_with_reduction(other), OSTRAKA_INVALID_STATE,
              "another optimizer updates 'net.a.w'");
  run_forward(n->a);
  run_forward(n->b);
  run_backward(n->b);
  run_backward(n->a);
  CHECK_OK(ostraka_fsdp_context_finish_backward(n->context));
  CHECK_FAILS(ostraka_optimizer_step(other), OSTRAKA_INVALID_STATE, "(fuse_with_reduction)");
#define AFTER_STEP(call) CHECK_FAILS(call, OSTRAKA_INVALID_STATE, "call the optimizer's step first")
  AFTER_STEP(ostraka_fsdp_module_set_parameter(n->a, "w", OSTRAKA_F64, zeros, SIZE));
  AFTER_STEP(ostraka_fsdp_module_set_from_root(n->a, "w", OSTRAKA_F64, zeros, SIZE, 0));
  AFTER_STEP(ostraka_fsdp_module_initialise(n->a, "w", fill_zero, NULL));
  AFTER_STEP(ostraka_fsdp_module_unshard(n->a));
  AFTER_STEP(ostraka_fsdp_context_begin_inference(n->context));
  const void* gradient = NULL;
  int64_t count = 0, offset = 0;
  CHECK_FAILS(ostraka_fsdp_module_main_gradient(n->a, "w", OSTRAKA_F64, &gradient, &count, &offset),
              OSTRAKA_INVALID_STATE, "it went into the weights");
  CHECK_OK(ostraka_optimizer_step(n->sgd));
  n->expected -= check_ranks;
  expect_weights(n->a, n->expected);
  CHECK_OK(ostraka_optimizer_destroy(&other));
  train(n);
  destroy(n);
}

/* Gradients that are whole until the last micro-batch are reduced once. */
static void reduced_once(net_t* n) {
  add_modules(n, OSTRAKA_NO_SHARD);
  CHECK_OK(ostraka_fsdp_module_set_precision(n->a, OSTRAKA_F32, -1, -1));
  CHECK_FAILS(ostraka_fsdp_module_build(n->a), OSTRAKA_NOT_SUPPORTED, "the main type must be f64, found f32");
  CHECK_OK(ostraka_fsdp_context_destroy(&n->context));
  add_modules(n, OSTRAKA_NO_SHARD);
  complete(n);
  train(n);
  run_forward(n->a);
  run_forward(n->b);
  CHECK_FAILS(ostraka_fsdp_module_pre_backward(n->b), OSTRAKA_INVALID_STATE, "call zero_grad before the next");
  CHECK_OK(ostraka_fsdp_context_zero_grad(n->context));
  run_backward(n->b);
  run_backward(n->a);
  CHECK_OK(ostraka_fsdp_context_finish_backward(n->context));
  CHECK_OK(ostraka_optimizer_step(n->sgd));
  n->expected -= check_ranks;
  expect_weights(n->a, n->expected);
  train(n);
  destroy(n);
}

/* Only a new context helps. */
static void lost_order(net_t* n) {
  if (check_ranks == 1)
    return;
  add_modules(n, OSTRAKA_ZERO_3);
  complete(n);
  train(n);
  CHECK_OK(ostraka_fsdp_context_set_last_microbatch(n->context, check_rank == 0));
  run_forward(n->a);
  run_forward(n->b);
  run_backward(n->b);
  run_backward(n->a);
  CHECK_FAILS(ostraka_fsdp_context_finish_backward(n->context), OSTRAKA_RANKS_DISAGREE, "set_last_microbatch");
#define LOST(call) CHECK_FAILS(call, OSTRAKA_FAILED, "can only be destroyed: finish_backward: ranks ran modules")
  LOST(ostraka_fsdp_module_pre_forward(n->a));
  LOST(ostraka_fsdp_context_zero_grad(n->context));
  LOST(ostraka_fsdp_context_begin_inference(n->context));
  LOST(ostraka_fsdp_module_set_parameter(n->a, "w", OSTRAKA_F64, zeros, SIZE));
  LOST(ostraka_optimizer_step(n->sgd));
  destroy(n);
  add_modules(n, OSTRAKA_ZERO_3);
  complete(n);
  train(n);
  destroy(n);
}

void fsdp_error_suite(void) {
  net_t net = {.mesh = make_mesh()};
  every_mistake(&net, OSTRAKA_ZERO_3);
  every_mistake(&net, OSTRAKA_NO_SHARD);
  reported_at_the_end(&net);
  set_up(&net);
  two_fused_optimizers(&net);
  reduced_once(&net);
  lost_order(&net);
  CHECK_OK(ostraka_mesh_destroy(&net.mesh));
}
