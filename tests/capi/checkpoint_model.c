/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_model.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char* const net_names[NET_PARAMETERS] = {"enc.w", "enc.b", "enc.scale", "dec.w"};
const int net_sizes[NET_PARAMETERS] = {21, 3, 4, 15};

static const char* own_name(int p) { return strchr(net_names[p], '.') + 1; }
static int module_of(int p) { return p == 3; }

static double first_value(int salt, int p, int k) { return sin(1 + 3.0 * k + p) + salt; }
static double gradient(int step, int p, int k, double w) { return 0.3 * w + cos(step + 0.5 * k + p); }

void net_expect(int salt, int steps, net_row_t* w) {
  for (int p = 0; p < NET_PARAMETERS; ++p)
    for (int k = 0; k < net_sizes[p]; ++k) {
      double m = 0, v = 0;
      w[p][k] = first_value(salt, p, k);
      for (int step = 0; p != NET_FROZEN && step < steps; ++step) {
        const double g = gradient(step, p, k, w[p][k]);
        m = 0.8 * m + 0.2 * g;
        v = 0.95 * v + 0.05 * g * g;
        w[p][k] -= 0.02 * 0.1 * w[p][k];
        w[p][k] -= 0.02 * (m / (1 - pow(0.8, step + 1))) / (sqrt(v / (1 - pow(0.95, step + 1))) + 1e-6);
      }
    }
}

static void add_parameters(net_t* net) {
  const ostraka_shape_t shapes[NET_PARAMETERS] = {MATRIX(7, 3), VECTOR(3), MATRIX(2, 2), MATRIX(3, 5)};
  CHECK_OK(ostraka_fsdp_context_add_module(net->context, "enc", &net->modules[0]));
  CHECK_OK(ostraka_fsdp_context_add_module(net->context, "dec", &net->modules[1]));
  for (int p = 0; p < NET_PARAMETERS; ++p)
    CHECK_OK(ostraka_fsdp_module_add_parameter(net->modules[module_of(p)], own_name(p), shapes[p], OSTRAKA_F64,
                                               p != NET_FROZEN));
  CHECK_OK(ostraka_fsdp_module_tie_parameter(net->modules[0], "table", "w"));
}

net_t make_net(MPI_Comm comm, int32_t recipe, int salt) {
  net_t net = {NULL, NULL, {NULL, NULL}, NULL};
  net_values_t w;
  ostraka_fsdp_config_t config;
  ostraka_adamw_config_t adamw;
  net_expect(salt, 0, w);
  CHECK_OK(ostraka_mesh_create(comm, 1, NULL, NULL, &net.mesh));
  CHECK_OK(ostraka_fsdp_config_init(&config));
  config.recipe = recipe;
  CHECK_OK(ostraka_fsdp_context_create(net.mesh, &config, &net.context));
  add_parameters(&net);
  for (int m = 0; m < 2; ++m)
    CHECK_OK(ostraka_fsdp_module_build(net.modules[m]));
  for (int p = 0; p < NET_PARAMETERS; ++p)
    CHECK_OK(
        ostraka_fsdp_module_set_parameter(net.modules[module_of(p)], own_name(p), OSTRAKA_F64, w[p], net_sizes[p]));
  CHECK_OK(ostraka_fsdp_context_finalize(net.context));
  CHECK_OK(ostraka_adamw_config_init(&adamw));
  adamw.learning_rate = 0.02;
  adamw.beta1 = 0.8;
  adamw.beta2 = 0.95;
  adamw.epsilon = 1e-6;
  adamw.weight_decay = 0.1;
  CHECK_OK(ostraka_adamw_create(net.context, &adamw, &net.adamw));
  return net;
}

void destroy_net(net_t* net) {
  CHECK_OK(ostraka_optimizer_destroy(&net->adamw));
  CHECK_OK(ostraka_fsdp_context_destroy(&net->context));
  CHECK_OK(ostraka_mesh_destroy(&net->mesh));
}

static void put_gradient(net_t* net, int step, int p) {
  const void* weight = NULL;
  void* data = NULL;
  int64_t count = 0;
  double beta = -1;
  ostraka_fsdp_module_t module = net->modules[module_of(p)];
  if (!CHECK_OK(ostraka_fsdp_module_parameter(module, own_name(p), OSTRAKA_F64, &weight, &count)) ||
      !CHECK_OK(ostraka_fsdp_module_gradient(module, own_name(p), OSTRAKA_F64, &data, &count, &beta)))
    return;
  for (int k = 0; k < net_sizes[p]; ++k)
    ((double*)data)[k] = gradient(step, p, k, ((const double*)weight)[k]);
}

void net_train(net_t* net, int first, int end) {
  for (int step = first; step < end; ++step) {
    CHECK_OK(ostraka_fsdp_context_zero_grad(net->context));
    for (int m = 0; m < 2; ++m) {
      CHECK_OK(ostraka_fsdp_module_pre_forward(net->modules[m]));
      CHECK_OK(ostraka_fsdp_module_post_forward(net->modules[m]));
    }
    for (int m = 1; m >= 0; --m) {
      CHECK_OK(ostraka_fsdp_module_pre_backward(net->modules[m]));
      for (int p = 0; p < NET_PARAMETERS; ++p)
        if (module_of(p) == m && p != NET_FROZEN)
          put_gradient(net, step, p);
      CHECK_OK(ostraka_fsdp_module_post_backward(net->modules[m]));
    }
    CHECK_OK(ostraka_fsdp_context_finish_backward(net->context));
    CHECK_OK(ostraka_optimizer_step(net->adamw));
  }
}

void net_check(net_t* net, net_row_t* w) {
  CHECK_OK(ostraka_fsdp_context_begin_inference(net->context));
  for (int p = 0; p < NET_PARAMETERS; ++p) {
    const void* data = NULL;
    int64_t count = 0;
    if (!CHECK_OK(ostraka_fsdp_module_parameter(net->modules[module_of(p)], own_name(p), OSTRAKA_F64, &data, &count)))
      continue;
    CHECK_INT(count, net_sizes[p]);
    for (int k = 0; k < count; ++k)
      CHECK_NEAR(((const double*)data)[k], w[p][k], 1e-12);
  }
  CHECK_OK(ostraka_fsdp_context_end_inference(net->context));
}

/* --- files */

static char folder[256];

void make_folder(void) {
  const char* parent = getenv("TMPDIR");
  if (check_rank == 0) {
    snprintf(folder, sizeof folder, "%s/ostraka_capi_XXXXXX", parent == NULL ? "/tmp" : parent);
    CHECK(mkdtemp(folder) != NULL);
  }
  MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
}

const char* in_folder(const char* name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

void remove_folder(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (check_rank != 0)
    return;
  DIR* entries = opendir(folder);
  for (struct dirent* entry; entries != NULL && (entry = readdir(entries)) != NULL;)
    if (entry->d_name[0] != '.')
      unlink(in_folder(entry->d_name));
  if (entries != NULL)
    closedir(entries);
  CHECK(rmdir(folder) == 0);
}
