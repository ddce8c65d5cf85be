/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: what is saved on some ranks is loaded on others, and training goes on as if it had never stopped.
 */
#include "checkpoint_model.h"
#include "ddp_model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 3, MORE = 2 };

/* The first ranks; MPI_COMM_NULL on the others. */
static MPI_Comm first_ranks(int count) {
  MPI_Comm comm;
  MPI_Comm_split(MPI_COMM_WORLD, check_rank < count ? 0 : MPI_UNDEFINED, check_rank, &comm);
  return comm;
}

static ostraka_extras_t make_extras(void) {
  ostraka_extras_t extras = NULL;
  const int32_t table[2][3] = {{1, 2, 3}, {4, 5, 6}};
  CHECK_OK(ostraka_extras_create(&extras));
  CHECK_OK(ostraka_extras_set_f64(extras, "time", 0));
  CHECK_OK(ostraka_extras_set_f64(extras, "time", 12.5));
  CHECK_OK(ostraka_extras_set_i64(extras, "epoch", INT64_C(1) << 40));
  CHECK_OK(ostraka_extras_set_text(extras, "run", "water and steam"));
  CHECK_OK(ostraka_extras_set_array(extras, "table", OSTRAKA_I32, (ostraka_shape_t)MATRIX(2, 3), table));
  CHECK_OK(ostraka_extras_set_array(extras, "nothing", OSTRAKA_F32, (ostraka_shape_t)VECTOR(0), NULL));
  return extras;
}

static void check_extras(ostraka_extras_t extras) {
  double time = 0;
  int64_t epoch = 0, count = -1, extents[8] = {0};
  int32_t has = -1, values = 0, dtype = -1, is_text = -1, dims = -1;
  const char *run = "", *name = "";
  const void* data = NULL;
  CHECK_OK(ostraka_extras_f64(extras, "time", &time));
  CHECK_OK(ostraka_extras_i64(extras, "epoch", &epoch));
  CHECK(time == 12.5 && epoch == INT64_C(1) << 40);
  CHECK_OK(ostraka_extras_text(extras, "run", &run));
  CHECK(strcmp(run, "water and steam") == 0);
  CHECK_OK(ostraka_extras_type(extras, "run", &dtype, &is_text, &dims, NULL));
  CHECK(dtype == OSTRAKA_U8 && is_text == 1 && dims == 1);
  CHECK_OK(ostraka_extras_type(extras, "table", &dtype, &is_text, &dims, extents));
  CHECK(dtype == OSTRAKA_I32 && is_text == 0 && dims == 2 && extents[0] == 2 && extents[1] == 3);
  if (CHECK_OK(ostraka_extras_array(extras, "table", OSTRAKA_I32, &data, &count)))
    for (int k = 0; k < 6; ++k)
      CHECK_INT(((const int32_t*)data)[k], k + 1);
  CHECK_INT(count, 6);
  CHECK_OK(ostraka_extras_array(extras, "time", OSTRAKA_F64, &data, &count));
  CHECK_INT(count, 1);
  CHECK_OK(ostraka_extras_array(extras, "nothing", OSTRAKA_F32, &data, &count));
  CHECK_INT(count, 0);
  CHECK_OK(ostraka_extras_num_values(extras, &values));
  CHECK_INT(values, 5);
  CHECK_OK(ostraka_extras_name(extras, 1, &name));
  CHECK(strcmp(name, "epoch") == 0);
  CHECK_OK(ostraka_extras_has(extras, "old", &has));
  CHECK_INT(has, 0);
  CHECK_OK(ostraka_extras_has(extras, "epoch", &has));
  CHECK_INT(has, 1);
}

/* A buffer of 5 numbers and 2 x 2 more, of the layout that `placement` makes. */
static ostraka_buffer_t make_field(ostraka_mesh_t mesh, int32_t placement, double first) {
  const ostraka_shape_t shapes[2] = {VECTOR(5), MATRIX(2, 2)};
  const ostraka_placement_t placements = {placement, 0};
  double values[2][5];
  const void* const tensors[2] = {values[0], values[1]};
  ostraka_buffer_t buffer = NULL;
  for (int k = 0; k < 5; ++k)
    values[0][k] = values[1][k] = first + k;
  CHECK_OK(ostraka_buffer_distribute(mesh, &placements, NULL, 2, shapes, OSTRAKA_F64, tensors, &buffer));
  return buffer;
}

static void check_field(ostraka_buffer_t buffer, double first) {
  for (int32_t t = 0; t < 2; ++t) {
    void* data = NULL;
    int64_t count = 0, offset = 0;
    CHECK_OK(ostraka_buffer_tensor_range(buffer, t, &data, &count, &offset));
    for (int64_t k = 0; k < count; ++k)
      CHECK(((const double*)data)[k] == first + (double)(offset + k));
  }
}

static const char* const field_names[2] = {"u", "strain"};

static void save_on(int ranks, int32_t recipe, const char* path) {
  MPI_Comm comm = first_ranks(ranks);
  if (comm == MPI_COMM_NULL)
    return;
  net_t net = make_net(comm, recipe, 0);
  ostraka_extras_t extras = make_extras();
  ostraka_buffer_t field = make_field(net.mesh, OSTRAKA_SHARD, 7);
  CHECK_OK(ostraka_extras_add_buffer(extras, field, 2, field_names));
  net_train(&net, 0, STEPS);
  CHECK_OK(ostraka_save(path, net.context, net.adamw, extras, NULL));
  CHECK_OK(ostraka_buffer_destroy(&field));
  CHECK_OK(ostraka_extras_destroy(&extras));
  destroy_net(&net);
  MPI_Comm_free(&comm);
}

static void load_on(int ranks, int32_t recipe, const char* path) {
  MPI_Comm comm = first_ranks(ranks);
  if (comm == MPI_COMM_NULL)
    return;
  net_values_t w;
  net_t net = make_net(comm, recipe, 4);
  ostraka_extras_t extras = NULL;
  ostraka_buffer_t field = make_field(net.mesh, OSTRAKA_REPLICATE, 0);
  const char* text = NULL;
  int64_t steps = 0;
  CHECK_OK(ostraka_extras_create(&extras));
  CHECK_OK(ostraka_extras_set_text(extras, "old", "goes away"));
  CHECK_OK(ostraka_extras_set_text(extras, "run", "another"));
  CHECK_OK(ostraka_extras_text(extras, "run", &text));
  CHECK_OK(ostraka_extras_add_buffer(extras, field, 2, field_names));
  net_train(&net, 0, 1); /* the optimizer has state, that of another run */
  CHECK_OK(ostraka_load(path, net.context, net.adamw, extras, NULL));
  net_expect(0, STEPS, w);
  net_check(&net, w);
  check_extras(extras);
  check_field(field, 7);
  CHECK_OK(ostraka_optimizer_steps(net.adamw, &steps));
  CHECK_INT(steps, STEPS);
  net_train(&net, STEPS, STEPS + MORE);
  net_expect(0, STEPS + MORE, w);
  net_check(&net, w);
  CHECK_OK(ostraka_buffer_destroy(&field));
  CHECK_OK(ostraka_extras_destroy(&extras));
  destroy_net(&net);
  MPI_Comm_free(&comm);
}

/* From some ranks and recipes to others. */
static void round_trips(void) {
  static const int32_t recipes[] = {OSTRAKA_ZERO_3, OSTRAKA_ZERO_1, OSTRAKA_NO_SHARD};
  for (int to = 1; to <= check_ranks; ++to) {
    save_on(check_ranks, recipes[to % 3], in_folder("from_all.h5"));
    MPI_Barrier(MPI_COMM_WORLD);
    load_on(to, recipes[(to + 1) % 3], in_folder("from_all.h5"));
    save_on(to, recipes[to % 3], in_folder("to_all.h5"));
    MPI_Barrier(MPI_COMM_WORLD);
    load_on(check_ranks, recipes[to % 3], in_folder("to_all.h5"));
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/* A ddp goes on, frozen weights included, where the optimizer was sharded in another way. */
static void ddp_round_trip(ostraka_mesh_t mesh, int from, int to) {
  ostraka_ddp_config_t config = ddp_small_buckets();
  ostraka_ddp_t ddps[2];
  ostraka_optimizer_t optimizers[2] = {NULL, NULL};
  const double other[DDP_MOST] = {7};
  int64_t steps = 0;
  ddp_values_t w;
  for (int i = 0; i < 2; ++i) {
    config.sharded_optimizer = i == 0 ? from : to;
    ddps[i] = make_ddp(mesh, &config);
    CHECK_OK(ostraka_adamw_create_ddp(ddps[i], NULL, &optimizers[i]));
  }
  for (int step = 0; step < STEPS + MORE; ++step) {
    if (step == STEPS) {
      CHECK_OK(ostraka_save_ddp(in_folder("ddp.h5"), ddps[0], optimizers[0], NULL, NULL));
      for (int p = 0; p < DDP_PARAMETERS; ++p)
        CHECK_OK(ostraka_ddp_set_parameter(ddps[1], ddp_names[p], OSTRAKA_F64, other, ddp_sizes[p]));
      CHECK_OK(ostraka_load_ddp(in_folder("ddp.h5"), ddps[1], optimizers[1], NULL, NULL));
      CHECK_OK(ostraka_optimizer_steps(optimizers[1], &steps));
      CHECK_INT(steps, STEPS);
    }
    for (int i = step < STEPS ? 0 : 1; i >= 0; --i) {
      ddp_run_passes(ddps[i], step, 1);
      CHECK_OK(ostraka_ddp_finish_grad_sync(ddps[i], 0));
      CHECK_OK(ostraka_optimizer_step(optimizers[i]));
      CHECK_OK(ostraka_ddp_zero_grad_buffer(ddps[i]));
    }
  }
  for (int p = 0; p < DDP_PARAMETERS; ++p)
    memcpy(w[p], ddp_weight(ddps[0], p), (size_t)ddp_sizes[p] * sizeof(double));
  ddp_check_weights(ddps[1], w);
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(ostraka_optimizer_destroy(&optimizers[i]));
    CHECK_OK(ostraka_ddp_destroy(&ddps[i]));
  }
}

static void asynchronous(void) {
  net_values_t w;
  net_t net = make_net(MPI_COMM_WORLD, OSTRAKA_ZERO_3, 0), other = make_net(MPI_COMM_WORLD, OSTRAKA_ZERO_3, 4);
  ostraka_async_save_t save = NULL, second = NULL;
  ostraka_save_options_t options;
  int64_t bytes = 0, whole = 8 * (4 + 3 * (21 + 3 + 15)); /* frozen; weights and two moments */
  int32_t is_done = 0;
  char path[512];
  snprintf(path, sizeof path, "%s", in_folder("async.h5"));
  CHECK_OK(ostraka_save_options_init(&options));
  options.sync = 0;
  net_train(&net, 0, STEPS);
  CHECK_OK(ostraka_async_save_start(path, net.context, net.adamw, NULL, &options, &save));
  CHECK_OK(ostraka_async_save_staging_bytes(save, &bytes));
  MPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  CHECK_INT(bytes, whole);
  CHECK_FAILS(ostraka_save(path, net.context, net.adamw, NULL, NULL), OSTRAKA_INVALID_STATE, "in flight");
  CHECK_FAILS(ostraka_async_save_start(path, net.context, net.adamw, NULL, NULL, &second), OSTRAKA_INVALID_STATE,
              "wait for it first");
  CHECK_FAILS(ostraka_async_save_start(path, net.context, net.adamw, NULL, NULL, &save), OSTRAKA_INVALID_STATE,
              "wait for it first");     /* and save is what it was */
  net_train(&net, STEPS, STEPS + MORE); /* the file has what was there before */
  CHECK_OK(ostraka_async_save_wait(save));
  CHECK_OK(ostraka_async_save_test(save, &is_done));
  CHECK(is_done == 1 && second == NULL);
  CHECK_OK(ostraka_async_save_destroy(&save));
  CHECK_OK(ostraka_async_save_release_memory());
  CHECK_OK(ostraka_load(path, other.context, other.adamw, NULL, NULL));
  net_expect(0, STEPS, w);
  net_check(&other, w);

  CHECK_OK(ostraka_async_save_start(in_folder("dropped.h5"), net.context, NULL, NULL, NULL, &save));
  CHECK_OK(ostraka_async_save_destroy(&save));
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(access(in_folder("dropped.h5"), F_OK) != 0);
  destroy_net(&other);
  destroy_net(&net);
}

static void asynchronous_ddp(ostraka_mesh_t mesh) {
  const ostraka_ddp_config_t config = ddp_small_buckets();
  ostraka_ddp_t ddp = make_ddp(mesh, &config);
  ostraka_async_save_t save = NULL;
  const double other[DDP_MOST] = {7};
  int32_t is_done = 0;
  ddp_values_t w;
  CHECK_OK(ostraka_async_save_start_ddp(in_folder("async_ddp.h5"), ddp, NULL, NULL, NULL, &save));
  for (int p = 0; p < DDP_PARAMETERS; ++p)
    CHECK_OK(ostraka_ddp_set_parameter(ddp, ddp_names[p], OSTRAKA_F64, other, ddp_sizes[p]));
  while (is_done == 0 && CHECK_OK(ostraka_async_save_test(save, &is_done)))
    ;
  CHECK_OK(ostraka_async_save_destroy(&save));
  CHECK_OK(ostraka_load_ddp(in_folder("async_ddp.h5"), ddp, NULL, NULL, NULL));
  ddp_first_values(w);
  ddp_check_weights(ddp, w);
  CHECK_OK(ostraka_ddp_destroy(&ddp));
}

/* Part of a file: by patterns, without state, what both have. */
static void parts(void) {
  net_values_t w, first;
  net_t net = make_net(MPI_COMM_WORLD, OSTRAKA_ZERO_3, 0), other = make_net(MPI_COMM_WORLD, OSTRAKA_ZERO_3, 4);
  const char* const patterns[2] = {"enc.*", "nothing"};
  const char *missing = NULL, *unexpected = NULL;
  ostraka_load_options_t options;
  char path[512];
  snprintf(path, sizeof path, "%s", in_folder("parts.h5"));
  net_train(&net, 0, STEPS);
  CHECK_OK(ostraka_save(path, net.context, net.adamw, NULL, NULL));
  CHECK_OK(ostraka_load_options_init(&options));
  options.num_patterns = 1;
  options.patterns = patterns;
  CHECK_OK(ostraka_load(path, other.context, other.adamw, NULL, &options));
  net_expect(4, 0, w);
  net_expect(0, STEPS, first);
  memcpy(w, first, 3 * sizeof w[0]);
  net_check(&other, w);

  options.num_patterns = 2;
  CHECK_FAILS(ostraka_load(path, other.context, NULL, NULL, &options), OSTRAKA_INVALID_ARGUMENT, "'nothing'");
  CHECK_OK(ostraka_load_options_init(&options));
  CHECK_FAILS(ostraka_load(path, other.context, NULL, NULL, &options), OSTRAKA_INVALID_ARGUMENT,
              "not asked for: 'state/exp_avg/");
  net_check(&other, w);
  options.state = 0;
  options.verify = 0;
  CHECK_OK(ostraka_load(path, other.context, NULL, NULL, &options));
  net_check(&other, first);

  CHECK_OK(ostraka_save(path, net.context, NULL, NULL, NULL));
  options.state = 1;
  options.strict = 0;
  CHECK_OK(ostraka_load(path, other.context, other.adamw, NULL, &options));
  CHECK_OK(ostraka_load_left_out(&missing, &unexpected));
  CHECK(strstr(missing, "state/exp_avg/enc.w\n") != NULL && strcmp(unexpected, "") == 0);
  destroy_net(&other);
  destroy_net(&net);
}

/* Everything is there and says what to do. */
static void without_hdf5(ostraka_mesh_t mesh) {
  const ostraka_ddp_config_t config = ddp_small_buckets();
  ostraka_ddp_t ddp = make_ddp(mesh, &config);
  net_t net = make_net(MPI_COMM_WORLD, OSTRAKA_ZERO_3, 0);
  ostraka_async_save_t save = NULL;
  const char *path = in_folder("none.h5"), *option = "OSTRAKA_ENABLE_HDF5=ON";
  CHECK_FAILS(ostraka_save(path, net.context, net.adamw, NULL, NULL), OSTRAKA_NOT_SUPPORTED, option);
  CHECK_FAILS(ostraka_save_ddp(path, ddp, NULL, NULL, NULL), OSTRAKA_NOT_SUPPORTED, option);
  CHECK_FAILS(ostraka_load(path, net.context, net.adamw, NULL, NULL), OSTRAKA_NOT_SUPPORTED, option);
  CHECK_FAILS(ostraka_load_ddp(path, ddp, NULL, NULL, NULL), OSTRAKA_NOT_SUPPORTED, option);
  CHECK_FAILS(ostraka_async_save_start(path, net.context, NULL, NULL, NULL, &save), OSTRAKA_NOT_SUPPORTED, option);
  CHECK_FAILS(ostraka_async_save_start_ddp(path, ddp, NULL, NULL, NULL, &save), OSTRAKA_NOT_SUPPORTED, option);
  CHECK(save == NULL);
  destroy_net(&net);
  CHECK_OK(ostraka_ddp_destroy(&ddp));
}

void checkpoint_suite(void) {
  ostraka_mesh_t mesh = make_mesh();
  ostraka_extras_t extras = make_extras();
  check_extras(extras);
  CHECK_OK(ostraka_extras_destroy(&extras));
  make_folder();
  if (HAS_CHECKPOINT) {
    round_trips();
    ddp_round_trip(mesh, 0, 1);
    ddp_round_trip(mesh, 1, 0);
    asynchronous();
    asynchronous_ddp(mesh);
    parts();
  } else {
    without_hdf5(mesh);
  }
  remove_folder();
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}
