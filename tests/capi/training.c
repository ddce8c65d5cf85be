/* SPDX-License-Identifier: Apache-2.0
 *
 * A linear network of two layers, trained through the library on shares of the rows, against the same training by plain
 * loops over all rows on every rank.
 */
#include "suites.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { INPUTS = 3, HIDDEN = 4, OUTPUTS = 2, MOST_ROWS = 13, STEPS = 5, LAYERS = 2, MOST = 12 };
static const double tolerance = 1e-12;
static const int sizes[] = {INPUTS, HIDDEN, OUTPUTS};

typedef enum { SGD, MOMENTUM, ADAMW } update_t;
typedef struct {
  int32_t recipe, reduction;
  update_t update;
  int microbatches;
  int rows; /* of a micro-batch, over all ranks */
} case_t;

/* Weights [outputs][inputs] and biases of both layers, or something for each of them. */
typedef struct {
  double weight[LAYERS][MOST], bias[LAYERS][MOST];
} network_t;

static void initialise_network(network_t* network) {
  for (int l = 0; l < LAYERS; ++l)
    for (int k = 0; k < MOST; ++k) {
      network->weight[l][k] = 0.5 * sin(1.0 + 5.0 * k + 2.0 * l);
      network->bias[l][k] = 0.1 * cos(3.0 * k + l);
    }
}

static double input(int step, int microbatch, int row, int i) {
  return sin(1.7 * row + 0.9 * i + step + 3 * microbatch);
}
static double target(int row, int o) { return cos(0.4 * row + o); }

/* --- the arithmetic of a layer */

static void dense(const double* w, const double* b, int l, int rows, const double* x, double* y) {
  for (int row = 0; row < rows; ++row)
    for (int o = 0; o < sizes[l + 1]; ++o) {
      double sum = b[o];
      for (int i = 0; i < sizes[l]; ++i)
        sum += w[o * sizes[l] + i] * x[row * sizes[l] + i];
      y[row * sizes[l + 1] + o] = sum;
    }
}

/* gradient = beta * gradient + contribution, without a look at undefined memory when beta is 0 */
static void add(double* gradient, double beta, double contribution) {
  *gradient = (beta == 0 ? 0 : beta * *gradient) + contribution;
}

static void weight_gradient(int l, int rows, const double* x, const double* delta, double beta, double* gradient) {
  for (int o = 0; o < sizes[l + 1]; ++o)
    for (int i = 0; i < sizes[l]; ++i) {
      double sum = 0;
      for (int row = 0; row < rows; ++row)
        sum += delta[row * sizes[l + 1] + o] * x[row * sizes[l] + i];
      add(&gradient[o * sizes[l] + i], beta, sum);
    }
}

static void bias_gradient(int l, int rows, const double* delta, double beta, double* gradient) {
  for (int o = 0; o < sizes[l + 1]; ++o) {
    double sum = 0;
    for (int row = 0; row < rows; ++row)
      sum += delta[row * sizes[l + 1] + o];
    add(&gradient[o], beta, sum);
  }
}

static void input_gradient(const double* w, int l, int rows, const double* delta, double* result) {
  for (int row = 0; row < rows; ++row)
    for (int i = 0; i < sizes[l]; ++i) {
      double sum = 0;
      for (int o = 0; o < sizes[l + 1]; ++o)
        sum += w[o * sizes[l] + i] * delta[row * sizes[l + 1] + o];
      result[row * sizes[l] + i] = sum;
    }
}

static void load_rows(int step, int microbatch, int first, int rows, double* x) {
  for (int row = 0; row < rows; ++row)
    for (int i = 0; i < INPUTS; ++i)
      x[row * INPUTS + i] = input(step, microbatch, first + row, i);
}

/* The gradient of the loss, half the squared error divided by `normaliser`, with respect to the outputs. */
static void loss_gradient(int first, int rows, double normaliser, const double* y, double* delta) {
  for (int row = 0; row < rows; ++row)
    for (int o = 0; o < OUTPUTS; ++o)
      delta[row * OUTPUTS + o] = (y[row * OUTPUTS + o] - target(first + row, o)) / normaliser;
}

/* --- plain loops over all rows */

typedef struct {
  network_t network, gradient, first_moment, second_moment;
} plain_t;

static void plain_microbatch(plain_t* plain, const case_t* c, int step, int microbatch) {
  double x[MOST_ROWS * INPUTS], h[MOST_ROWS * HIDDEN], y[MOST_ROWS * OUTPUTS], dy[MOST_ROWS * OUTPUTS];
  double dh[MOST_ROWS * HIDDEN];
  const network_t* net = &plain->network;
  load_rows(step, microbatch, 0, c->rows, x);
  dense(net->weight[0], net->bias[0], 0, c->rows, x, h);
  dense(net->weight[1], net->bias[1], 1, c->rows, h, y);
  loss_gradient(0, c->rows, c->rows * c->microbatches, y, dy);
  input_gradient(net->weight[1], 1, c->rows, dy, dh);
  weight_gradient(0, c->rows, x, dh, 1, plain->gradient.weight[0]);
  weight_gradient(1, c->rows, h, dy, 1, plain->gradient.weight[1]);
  bias_gradient(0, c->rows, dh, 1, plain->gradient.bias[0]);
  bias_gradient(1, c->rows, dy, 1, plain->gradient.bias[1]);
}

static void plain_update(plain_t* plain, update_t update, int step) {
  double* w = (double*)&plain->network;
  const double* g = (const double*)&plain->gradient;
  double *m = (double*)&plain->first_moment, *v = (double*)&plain->second_moment;
  for (size_t k = 0; k < sizeof(network_t) / sizeof(double); ++k)
    switch (update) {
    case SGD:
      w[k] -= 0.1 * g[k];
      break;
    case MOMENTUM:
      m[k] = 0.9 * m[k] + g[k] + 0.01 * w[k];
      w[k] -= 0.05 * m[k];
      break;
    case ADAMW:
      m[k] = 0.8 * m[k] + 0.2 * g[k];
      v[k] = 0.95 * v[k] + 0.05 * g[k] * g[k];
      w[k] -= 0.02 * 0.1 * w[k];
      w[k] -= 0.02 * (m[k] / (1 - pow(0.8, step + 1))) / (sqrt(v[k] / (1 - pow(0.95, step + 1))) + 1e-6);
      break;
    }
}

static void plain_step(plain_t* plain, const case_t* c, int step) {
  memset(&plain->gradient, 0, sizeof plain->gradient);
  for (int microbatch = 0; microbatch < c->microbatches; ++microbatch)
    plain_microbatch(plain, c, step, microbatch);
  plain_update(plain, c->update, step);
}

/* --- through the library */

typedef struct {
  ostraka_mesh_t mesh;
  ostraka_fsdp_context_t context;
  ostraka_fsdp_module_t layers[LAYERS];
  ostraka_optimizer_t optimizer;
  int first, rows; /* of this rank */
} sharded_t;

static const double* weight_of(ostraka_fsdp_module_t module, const char* name) {
  const void* data = NULL;
  int64_t count = 0;
  CHECK_OK(ostraka_fsdp_module_parameter(module, name, OSTRAKA_F64, &data, &count));
  return data;
}

static double* gradient_of(ostraka_fsdp_module_t module, const char* name, double* beta) {
  void* data = NULL;
  int64_t count = 0;
  CHECK_OK(ostraka_fsdp_module_gradient(module, name, OSTRAKA_F64, &data, &count, beta));
  return data;
}

static void make_optimizer(sharded_t* sharded, update_t update) {
  if (update == ADAMW) {
    ostraka_adamw_config_t config;
    CHECK_OK(ostraka_adamw_config_init(&config));
    config.learning_rate = 0.02;
    config.beta1 = 0.8;
    config.beta2 = 0.95;
    config.epsilon = 1e-6;
    config.weight_decay = 0.1;
    CHECK_OK(ostraka_adamw_create(sharded->context, &config, &sharded->optimizer));
    return;
  }
  ostraka_sgd_config_t config;
  CHECK_OK(ostraka_sgd_config_init(&config));
  config.learning_rate = update == SGD ? 0.1 : 0.05;
  config.momentum = update == SGD ? 0 : 0.9;
  config.weight_decay = update == SGD ? 0 : 0.01;
  CHECK_OK(ostraka_sgd_create(sharded->context, &config, &sharded->optimizer));
}

/* Recipes whose innermost axis shards need two axes; here two replicas where the number of ranks is even. */
static ostraka_mesh_t make_training_mesh(int32_t recipe) {
  if (recipe < OSTRAKA_HSDP)
    return make_mesh();
  const int32_t outer = check_ranks % 2 == 0 ? 2 : 1, axes[] = {outer, check_ranks / outer};
  ostraka_mesh_t mesh = NULL;
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, 2, axes, NULL, &mesh));
  return mesh;
}

static sharded_t make_sharded(const case_t* c, const network_t* initial) {
  sharded_t sharded = {.mesh = make_training_mesh(c->recipe)};
  ostraka_fsdp_config_t config;
  CHECK_OK(ostraka_fsdp_config_init(&config));
  config.recipe = c->recipe;
  config.reduction = c->reduction;
  CHECK_OK(ostraka_fsdp_context_create(sharded.mesh, &config, &sharded.context));
  for (int l = 0; l < LAYERS; ++l) {
    const int64_t outputs = sizes[l + 1], extents[] = {outputs, sizes[l]};
    const ostraka_shape_t weight = {2, extents}, bias = {1, extents};
    ostraka_fsdp_module_t* module = &sharded.layers[l];
    CHECK_OK(ostraka_fsdp_context_add_module(sharded.context, l == 0 ? "first" : "second", module));
    CHECK_OK(ostraka_fsdp_module_add_parameter(*module, "weight", weight, OSTRAKA_F64, 1));
    CHECK_OK(ostraka_fsdp_module_add_parameter(*module, "bias", bias, OSTRAKA_F64, 1));
    CHECK_OK(ostraka_fsdp_module_build(*module));
    CHECK_OK(ostraka_fsdp_module_set_parameter(*module, "weight", OSTRAKA_F64, initial->weight[l], outputs * sizes[l]));
    CHECK_OK(ostraka_fsdp_module_set_parameter(*module, "bias", OSTRAKA_F64, initial->bias[l], outputs));
  }
  CHECK_OK(ostraka_fsdp_context_finalize(sharded.context));
  make_optimizer(&sharded, c->update);
  sharded.first = c->rows * check_rank / check_ranks;
  sharded.rows = c->rows * (check_rank + 1) / check_ranks - sharded.first;
  return sharded;
}

static void destroy_sharded(sharded_t* sharded) {
  CHECK_OK(ostraka_optimizer_destroy(&sharded->optimizer));
  CHECK_OK(ostraka_fsdp_context_destroy(&sharded->context));
  CHECK_OK(ostraka_mesh_destroy(&sharded->mesh));
}

static void layer_forward(ostraka_fsdp_module_t module, int l, int rows, const double* x, double* y) {
  CHECK_OK(ostraka_fsdp_module_pre_forward(module));
  dense(weight_of(module, "weight"), weight_of(module, "bias"), l, rows, x, y);
  CHECK_OK(ostraka_fsdp_module_post_forward(module));
}

static void layer_backward(ostraka_fsdp_module_t module, int l, int rows, const double* x, const double* delta,
                           double* input_delta) {
  double beta = -1;
  CHECK_OK(ostraka_fsdp_module_pre_backward(module));
  if (input_delta != NULL)
    input_gradient(weight_of(module, "weight"), l, rows, delta, input_delta);
  double* gradient = gradient_of(module, "weight", &beta);
  weight_gradient(l, rows, x, delta, beta, gradient);
  gradient = gradient_of(module, "bias", &beta);
  bias_gradient(l, rows, delta, beta, gradient);
  CHECK_OK(ostraka_fsdp_module_post_backward(module));
}

static void sharded_step(sharded_t* sharded, const case_t* c, int step) {
  double x[MOST_ROWS * INPUTS], h[MOST_ROWS * HIDDEN], y[MOST_ROWS * OUTPUTS], dy[MOST_ROWS * OUTPUTS];
  double dh[MOST_ROWS * HIDDEN];
  const int rows = sharded->rows;
  /* A sum over ranks wants the share of the whole batch, a mean that of this rank's rows. */
  const int normaliser = (c->reduction == OSTRAKA_SUM ? c->rows : rows) * c->microbatches;
  CHECK_OK(ostraka_fsdp_context_zero_grad(sharded->context));
  for (int microbatch = 0; microbatch < c->microbatches; ++microbatch) {
    CHECK_OK(ostraka_fsdp_context_set_last_microbatch(sharded->context, microbatch == c->microbatches - 1));
    load_rows(step, microbatch, sharded->first, rows, x);
    layer_forward(sharded->layers[0], 0, rows, x, h);
    layer_forward(sharded->layers[1], 1, rows, h, y);
    loss_gradient(sharded->first, rows, normaliser, y, dy);
    layer_backward(sharded->layers[1], 1, rows, h, dy, dh);
    layer_backward(sharded->layers[0], 0, rows, x, dh, NULL);
    CHECK_OK(ostraka_fsdp_context_finish_backward(sharded->context));
  }
  CHECK_OK(ostraka_optimizer_step(sharded->optimizer));
}

static void compare(sharded_t* sharded, const network_t* expected) {
  CHECK_OK(ostraka_fsdp_context_begin_inference(sharded->context));
  for (int l = 0; l < LAYERS; ++l) {
    const double *w = weight_of(sharded->layers[l], "weight"), *b = weight_of(sharded->layers[l], "bias");
    for (int k = 0; k < sizes[l] * sizes[l + 1]; ++k)
      CHECK_NEAR(w[k], expected->weight[l][k], tolerance);
    for (int k = 0; k < sizes[l + 1]; ++k)
      CHECK_NEAR(b[k], expected->bias[l][k], tolerance);
  }
  CHECK_OK(ostraka_fsdp_context_end_inference(sharded->context));
}

static void train(const case_t* c) {
  plain_t plain = {0};
  initialise_network(&plain.network);
  const network_t initial = plain.network;
  sharded_t sharded = make_sharded(c, &plain.network);
  for (int step = 0; step < STEPS; ++step) {
    plain_step(&plain, c, step);
    sharded_step(&sharded, c, step);
    compare(&sharded, &plain.network);
  }
  CHECK(fabs(plain.network.weight[0][0] - initial.weight[0][0]) > 1e-3); /* something was learnt */
  destroy_sharded(&sharded);
}

void training_suite(void) {
  for (int32_t recipe = OSTRAKA_NO_SHARD; recipe <= OSTRAKA_ZERO_1_ZERO_2; ++recipe)
    for (int update = SGD; update <= ADAMW; ++update)
      for (int microbatches = 1; microbatches <= 3; microbatches += 2) {
        /* Ranks with different numbers of rows, and with equal ones. */
        train(&(case_t){recipe, OSTRAKA_SUM, (update_t)update, microbatches, 13});
        train(&(case_t){recipe, OSTRAKA_MEAN, (update_t)update, microbatches, 12});
      }
}
