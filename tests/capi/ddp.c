/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallelism with whole weights: training against the same updates in plain loops; what is done to weights, and
 * optimizers.
 */
#include "ddp_model.h"

#include <math.h>

enum { STEPS = 4 };

static double updated(ddp_update_t update, int step, double w, double g, double* m, double* v) {
  if (update == BY_HAND)
    return w - 0.1 * g;
  if (update == MOMENTUM) {
    *m = 0.9 * *m + g + 0.01 * w;
    return w - 0.05 * *m;
  }
  *m = 0.8 * *m + 0.2 * g;
  *v = 0.95 * *v + 0.05 * g * g;
  return w - 0.02 * 0.1 * w - 0.02 * (*m / (1 - pow(0.8, step + 1))) / (sqrt(*v / (1 - pow(0.95, step + 1))) + 1e-6);
}

static ostraka_optimizer_t make_optimizer(ostraka_ddp_t ddp, ddp_update_t update) {
  ostraka_optimizer_t optimizer = NULL;
  ostraka_sgd_config_t sgd;
  ostraka_adamw_config_t adamw;
  CHECK_OK(ostraka_sgd_config_init(&sgd));
  sgd.learning_rate = 0.05;
  sgd.momentum = 0.9;
  sgd.weight_decay = 0.01;
  CHECK_OK(ostraka_adamw_config_init(&adamw));
  adamw.learning_rate = 0.02;
  adamw.beta1 = 0.8;
  adamw.beta2 = 0.95;
  adamw.epsilon = 1e-6;
  adamw.weight_decay = 0.1;
  if (update == MOMENTUM)
    CHECK_OK(ostraka_sgd_create_ddp(ddp, &sgd, &optimizer));
  if (update == ADAMW)
    CHECK_OK(ostraka_adamw_create_ddp(ddp, &adamw, &optimizer));
  return optimizer;
}

static void update_by_hand(ostraka_ddp_t ddp) {
  for (int p = 0; p < DDP_PARAMETERS; ++p) {
    const void* data = NULL;
    int64_t count = 0, offset = 0;
    double* w = ddp_weight(ddp, p);
    if (p != DDP_FROZEN && CHECK_OK(ostraka_ddp_main_gradient(ddp, ddp_names[p], OSTRAKA_F64, &data, &count, &offset)))
      for (int k = 0; k < count; ++k)
        w[k] -= 0.1 * ((const double*)data)[k];
  }
}

static void train(ostraka_mesh_t mesh, const ddp_case_t* c) {
  ostraka_ddp_config_t config = ddp_small_buckets();
  config.scaling = c->scaling;
  config.sharded_optimizer = c->sharded;
  config.overlap_grad_reduce = c->overlap_reduce;
  config.overlap_param_gather = c->overlap_gather;
  ostraka_ddp_t ddp = make_ddp(mesh, &config);
  ostraka_optimizer_t optimizer = make_optimizer(ddp, c->update);
  ddp_values_t w, g, m = {{0}}, v = {{0}};
  ddp_first_values(w);
  for (int step = 0; step < STEPS; ++step) {
    ddp_run_passes(ddp, step, c->microbatches);
    CHECK_OK(ostraka_ddp_finish_grad_sync(ddp, 0));
    ddp_expected_gradients(c, step, w, g);
    ddp_check_gradients(ddp, c->sharded, g);
    if (c->update == BY_HAND)
      update_by_hand(ddp);
    else
      CHECK_OK(ostraka_optimizer_step(optimizer));
    CHECK_OK(ostraka_ddp_zero_grad_buffer(ddp));
    for (int p = 0; p < DDP_PARAMETERS; ++p)
      for (int k = 0; p != DDP_FROZEN && k < ddp_sizes[p]; ++k)
        w[p][k] = updated(c->update, step, w[p][k], g[p][k], &m[p][k], &v[p][k]);
    ddp_check_weights(ddp, w);
  }
  CHECK_OK(ostraka_optimizer_destroy(&optimizer));
  CHECK_OK(ostraka_ddp_destroy(&ddp));
}

static void training(ostraka_mesh_t mesh) {
  static const ddp_case_t cases[] = {
      {OSTRAKA_SCALING_MEAN, 0, 1, 0, 1, BY_HAND},      {OSTRAKA_SCALING_MEAN, 0, 1, 0, 3, MOMENTUM},
      {OSTRAKA_SCALING_SUM, 0, 0, 0, 1, ADAMW},         {OSTRAKA_SCALING_PRE_SCALE, 0, 0, 0, 3, BY_HAND},
      {OSTRAKA_SCALING_MEAN, 1, 1, 0, 3, ADAMW},        {OSTRAKA_SCALING_PRE_SCALE, 1, 1, 1, 1, ADAMW},
      {OSTRAKA_SCALING_SUM, 1, 0, 1, 3, MOMENTUM},      {OSTRAKA_SCALING_MEAN, 1, 0, 0, 1, MOMENTUM},
      {OSTRAKA_SCALING_PRE_SCALE, 1, 1, 1, 3, MOMENTUM}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
    train(mesh, &cases[i]);
}

/* --- weights */

/* Rank 0 has the weights; the others get them. */
static void broadcast(ostraka_mesh_t mesh) {
  const ostraka_ddp_config_t config = ddp_small_buckets();
  ostraka_ddp_t ddp = make_ddp(mesh, &config);
  ddp_values_t w;
  const double other[DDP_MOST] = {7};
  ddp_first_values(w);
  int64_t extents[8] = {0};
  int32_t dims = -1;
  CHECK_OK(ostraka_ddp_parameter_shape(ddp, "b.weight", &dims, extents));
  CHECK(dims == 2 && extents[0] == 3 && extents[1] == 4);
  CHECK_OK(ostraka_ddp_parameter_shape(ddp, "b.scale", &dims, NULL));
  CHECK_INT(dims, 0);
  if (check_rank > 0)
    for (int p = 0; p < DDP_PARAMETERS; ++p)
      CHECK_OK(ostraka_ddp_set_parameter(ddp, ddp_names[p], OSTRAKA_F64, other, ddp_sizes[p]));
  CHECK_OK(ostraka_ddp_broadcast_params(ddp));
  ddp_check_weights(ddp, w);
  CHECK_OK(ostraka_ddp_destroy(&ddp));
}

/* Gathers ahead of use: by hooks, by hand, without hooks. */
static void gathers(ostraka_mesh_t mesh) {
  ostraka_ddp_config_t config = ddp_small_buckets();
  config.sharded_optimizer = config.overlap_param_gather = 1;
  ostraka_ddp_t ddp = make_ddp(mesh, &config);
  ostraka_optimizer_t optimizer = make_optimizer(ddp, MOMENTUM);
  ddp_values_t w, g, m = {{0}};
  const ddp_case_t c = {.scaling = OSTRAKA_SCALING_MEAN, .microbatches = 1};
  int32_t has_hook = -1;
  void* data = NULL;
  int64_t count = 0;
  ddp_first_values(w);
  CHECK_OK(ostraka_ddp_has_forward_pre_hook(ddp, &has_hook));
  CHECK_INT(has_hook, 1);
  for (int step = 0; step < 5; ++step) {
    ddp_run_passes(ddp, step, 1);
    CHECK_OK(ostraka_ddp_start_grad_sync(ddp));
    CHECK_OK(ostraka_ddp_finish_grad_sync(ddp, 0));
    ddp_expected_gradients(&c, step, w, g);
    CHECK_OK(ostraka_optimizer_step(optimizer));
    CHECK_OK(ostraka_ddp_zero_grad_buffer(ddp));
    for (int p = 0; p < DDP_PARAMETERS; ++p)
      for (int k = 0; p != DDP_FROZEN && k < ddp_sizes[p]; ++k)
        w[p][k] = updated(MOMENTUM, step, w[p][k], g[p][k], &m[p][k], NULL);
    if (step == 1)
      CHECK_OK(ostraka_ddp_ensure_ready(ddp, "b.weight"));
    if (step == 2)
      CHECK_OK(ostraka_ddp_start_param_sync(ddp, 0, 0));
    if (step == 3) {
      CHECK_OK(ostraka_ddp_disable_forward_pre_hook(ddp, 0));
      CHECK_OK(ostraka_ddp_has_forward_pre_hook(ddp, &has_hook));
      CHECK_INT(has_hook, 0);
      if (check_ranks > 1) /* one rank has all parts */
        CHECK_FAILS(ostraka_ddp_parameter(ddp, "b.weight", OSTRAKA_F64, &data, &count), OSTRAKA_INVALID_STATE,
                    "forward hooks are disabled; call start_param_sync first");
      CHECK_OK(ostraka_ddp_start_param_sync(ddp, 1, 0));
    }
    if (step == 4) {
      CHECK_OK(ostraka_ddp_enable_forward_pre_hook(ddp));
      CHECK_OK(ostraka_ddp_disable_forward_pre_hook(ddp, 1));
    }
    ddp_check_weights(ddp, w);
  }
  CHECK_OK(ostraka_ddp_start_param_sync(ddp, 0, 1));
  CHECK_FAILS(ostraka_ddp_reset_param_sync_dispatch_state(ddp), OSTRAKA_INVALID_STATE, "being gathered");
  CHECK_OK(ostraka_ddp_free_overlap_buffers(ddp));
  CHECK_OK(ostraka_ddp_start_param_sync(ddp, 1, 1));
  CHECK_OK(ostraka_ddp_reset_param_sync_dispatch_state(ddp));
  if (check_ranks > 1)
    CHECK_FAILS(ostraka_ddp_set_parameter(ddp, "a.weight", OSTRAKA_F64, w[0], 12), OSTRAKA_INVALID_STATE, "stale");
  CHECK_OK(ostraka_ddp_start_param_sync(ddp, 1, 0));
  ddp_check_weights(ddp, w);
  CHECK_OK(ostraka_optimizer_destroy(&optimizer));
  CHECK_OK(ostraka_ddp_destroy(&ddp));
}

/* Norms and clipping, groups; a ddp that is destroyed before its optimizer. */
static void optimizers(ostraka_mesh_t mesh) {
  for (int sharded = 0; sharded < 2; ++sharded) {
    ostraka_ddp_config_t config = ddp_small_buckets();
    config.sharded_optimizer = sharded;
    ostraka_ddp_t ddp = make_ddp(mesh, &config);
    ostraka_optimizer_t optimizer = NULL;
    ostraka_group_options_t group;
    const ddp_case_t c = {.scaling = OSTRAKA_SCALING_MEAN, .microbatches = 1};
    ddp_values_t w, g;
    double squares = 0, norm = 0, clipped = 0;
    ddp_first_values(w);
    ddp_expected_gradients(&c, 0, w, g);
    for (int p = 0; p < DDP_PARAMETERS; ++p)
      for (int k = 0; p != DDP_FROZEN && k < ddp_sizes[p]; ++k)
        squares += g[p][k] * g[p][k];
    CHECK_OK(ostraka_sgd_create_ddp(ddp, NULL, &optimizer));
    CHECK_OK(ostraka_optimizer_set_learning_rate(optimizer, 0.5));
    CHECK_OK(ostraka_group_options_init(&group));
    group.learning_rate_factor = 0;
    CHECK_OK(ostraka_optimizer_set_group(optimizer, "a.*", &group));
    CHECK_FAILS(ostraka_optimizer_gradient_norm(optimizer, OSTRAKA_NORM_L2, &norm), OSTRAKA_INVALID_STATE,
                "finish_grad_sync");
    CHECK_FAILS(ostraka_optimizer_fuse_with_reduction(optimizer), OSTRAKA_NOT_SUPPORTED, "fuse_with_reduction");
    ddp_run_passes(ddp, 0, 1);
    CHECK_OK(ostraka_ddp_finish_grad_sync(ddp, 0));
    CHECK_OK(ostraka_optimizer_clip_gradients(optimizer, 0.5 * sqrt(squares), &norm));
    CHECK_NEAR(norm, sqrt(squares), 1e-12);
    CHECK_OK(ostraka_optimizer_gradient_norm(optimizer, OSTRAKA_NORM_L2, &clipped));
    CHECK_NEAR(clipped, 0.5 * norm, 1e-5);
    CHECK_OK(ostraka_optimizer_scale_gradients(optimizer, 0.5 * norm / clipped));
    CHECK_OK(ostraka_optimizer_step(optimizer));
    CHECK_FAILS(ostraka_optimizer_step(optimizer), OSTRAKA_INVALID_STATE, "new gradient");
    for (int p = 3; p < DDP_PARAMETERS; ++p)
      for (int k = 0; k < ddp_sizes[p]; ++k)
        w[p][k] -= 0.25 * g[p][k];
    ddp_check_weights(ddp, w);
    CHECK_OK(ostraka_ddp_destroy(&ddp));
    CHECK_FAILS(ostraka_optimizer_step(optimizer), OSTRAKA_INVALID_STATE, "the ddp that owns the weights is destroyed");
    CHECK_OK(ostraka_optimizer_destroy(&optimizer));
  }
}

void ddp_suite(void) {
  ostraka_mesh_t mesh = make_mesh();
  training(mesh);
  broadcast(mesh);
  gathers(mesh);
  optimizers(mesh);
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}
