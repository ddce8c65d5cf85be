/* SPDX-License-Identifier: Apache-2.0
 *
 * What checkpoints and extras refuse; training goes on behind every refusal.
 */
#include "checkpoint_model.h"

#include <stdio.h>
#include <string.h>

enum { BAD = 3 };

/* Handle number `i` that is no living one, and what the message says; `gone` was destroyed, `other` is another kind. */
static void* bad_handle(int i, void* gone, void* other, const char** words) {
  static const char* const texts[BAD] = {"handle is null", "was destroyed", "found one of another kind"};
  *words = texts[i];
  return i == 0 ? NULL : i == 1 ? gone : other;
}

#define REFUSES(type, gone, other, call)                                                                               \
  do {                                                                                                                 \
    for (int i = 0; i < BAD; ++i) {                                                                                    \
      const char* words = NULL;                                                                                        \
      type bad = (type)bad_handle(i, gone, other, &words);                                                             \
      CHECK_FAILS(call, OSTRAKA_INVALID_HANDLE, words);                                                                \
    }                                                                                                                  \
  } while (0)

/* An optional handle may be null, but nothing else. */
#define REFUSES_OPTIONAL(type, gone, other, call)                                                                      \
  do {                                                                                                                 \
    for (int i = 1; i < BAD; ++i) {                                                                                    \
      const char* words = NULL;                                                                                        \
      type bad = (type)bad_handle(i, gone, other, &words);                                                             \
      CHECK_FAILS(call, OSTRAKA_INVALID_HANDLE, words);                                                                \
    }                                                                                                                  \
  } while (0)

static void extras_handles(ostraka_mesh_t mesh) {
  ostraka_extras_t extras = NULL, gone;
  CHECK_OK(ostraka_extras_create(&extras));
  gone = extras;
  CHECK_OK(ostraka_extras_destroy(&extras));
  CHECK(extras == NULL);
  CHECK_OK(ostraka_extras_destroy(&extras));
  CHECK_FAILS(ostraka_extras_destroy(NULL), OSTRAKA_INVALID_ARGUMENT, "handle is null");
  CHECK_FAILS(ostraka_extras_create(NULL), OSTRAKA_INVALID_ARGUMENT, "'extras' is null");
  double f = 0;
  int64_t n = 0;
  int32_t k = 0, l = 0, m = 0;
  const char* text = NULL;
  const void* data = NULL;
  const ostraka_shape_t shape = VECTOR(1);
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_set_f64(bad, "x", 1));
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_set_i64(bad, "x", 1));
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_set_text(bad, "x", "y"));
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_set_array(bad, "x", OSTRAKA_F64, shape, &f));
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_f64(bad, "x", &f));
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_i64(bad, "x", &n));
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_text(bad, "x", &text));
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_array(bad, "x", OSTRAKA_F64, &data, &n));
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_type(bad, "x", &k, &l, &m, NULL));
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_has(bad, "x", &k));
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_num_values(bad, &k));
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_name(bad, 0, &text));
  REFUSES(ostraka_extras_t, gone, mesh, ostraka_extras_add_buffer(bad, NULL, 0, NULL));
  CHECK(f == 0 && n == 0 && k == 0 && text == NULL && data == NULL);
}

static void extras_values(ostraka_mesh_t mesh) {
  ostraka_extras_t extras = NULL;
  ostraka_buffer_t buffer = NULL;
  const ostraka_placement_t shard = {OSTRAKA_SHARD, 0};
  const ostraka_shape_t shape = VECTOR(3), negative = VECTOR(-1);
  const char* const names[2] = {"u", NULL};
  double f = 7;
  int64_t n = 7;
  int32_t k = 7;
  const char* text = NULL;
  const void* data = NULL;
  CHECK_OK(ostraka_extras_create(&extras));
  CHECK_FAILS(ostraka_extras_f64(extras, "x", &f), OSTRAKA_INVALID_ARGUMENT, "there are: none");
  CHECK_OK(ostraka_extras_set_f64(extras, "f", 1));
  CHECK_OK(ostraka_extras_set_text(extras, "t", ""));
  CHECK_FAILS(ostraka_extras_set_f64(extras, "", 1), OSTRAKA_INVALID_ARGUMENT, "expected a name");
  CHECK_FAILS(ostraka_extras_set_i64(extras, NULL, 1), OSTRAKA_INVALID_ARGUMENT, "'name' is null");
  CHECK_FAILS(ostraka_extras_set_text(extras, "t", NULL), OSTRAKA_INVALID_ARGUMENT, "'text' is null");
  CHECK_FAILS(ostraka_extras_set_array(extras, "a", OSTRAKA_F64, shape, NULL), OSTRAKA_INVALID_ARGUMENT, "'data'");
  CHECK_FAILS(ostraka_extras_set_array(extras, "a", 99, shape, &f), OSTRAKA_INVALID_ARGUMENT, "99");
  CHECK_FAILS(ostraka_extras_set_array(extras, "a", OSTRAKA_F64, negative, &f), OSTRAKA_INVALID_ARGUMENT, "-1");
  CHECK_FAILS(ostraka_extras_f64(extras, "x", &f), OSTRAKA_INVALID_ARGUMENT, "there are: 'f', 't'");
  CHECK_FAILS(ostraka_extras_f64(extras, "t", &f), OSTRAKA_TYPE_MISMATCH, "found text");
  CHECK_FAILS(ostraka_extras_i64(extras, "f", &n), OSTRAKA_TYPE_MISMATCH, "of type i64, found f64");
  CHECK_FAILS(ostraka_extras_text(extras, "f", &text), OSTRAKA_TYPE_MISMATCH, "expected text, found f64");
  CHECK_FAILS(ostraka_extras_array(extras, "t", OSTRAKA_U8, &data, &n), OSTRAKA_TYPE_MISMATCH, "found text");
  CHECK_FAILS(ostraka_extras_array(extras, "f", OSTRAKA_F32, &data, &n), OSTRAKA_TYPE_MISMATCH, "expected f32");
  CHECK_FAILS(ostraka_extras_f64(extras, "f", NULL), OSTRAKA_INVALID_ARGUMENT, "'value' is null");
  CHECK_FAILS(ostraka_extras_name(extras, 2, &text), OSTRAKA_INVALID_ARGUMENT,
              "from 0 to 1, found 2 (in Fortran from 1 to 2, found 3)");
  CHECK_FAILS(ostraka_extras_has(extras, "f", NULL), OSTRAKA_INVALID_ARGUMENT, "'has' is null");
  CHECK_OK(ostraka_buffer_empty(mesh, &shard, 1, &shape, OSTRAKA_F64, &buffer));
  CHECK_FAILS(ostraka_extras_add_buffer(extras, buffer, 2, names), OSTRAKA_SHAPE_MISMATCH, "1 tensors, found 2");
  CHECK_FAILS(ostraka_extras_add_buffer(extras, buffer, 1, names + 1), OSTRAKA_INVALID_ARGUMENT, "'names' is null");
  CHECK_FAILS(ostraka_extras_add_buffer(extras, buffer, 1, NULL), OSTRAKA_INVALID_ARGUMENT, "'names' is null");
  CHECK_FAILS(ostraka_extras_add_buffer(extras, NULL, 1, names), OSTRAKA_INVALID_HANDLE, "buffer handle is null");
  CHECK(f == 7 && n == 7 && k == 7 && text == NULL && data == NULL);
  CHECK_OK(ostraka_buffer_destroy(&buffer));
  CHECK_OK(ostraka_extras_destroy(&extras));
}

static void file_handles(void) {
  net_t net = make_net(MPI_COMM_WORLD, OSTRAKA_ZERO_3, 0);
  ostraka_optimizer_t gone = net.adamw;
  ostraka_async_save_t save = NULL;
  const char *path = in_folder("handles.h5"), *text = NULL;
  int32_t k = 0;
  int64_t n = 0;
  CHECK_OK(ostraka_optimizer_destroy(&net.adamw));
  REFUSES(ostraka_fsdp_context_t, gone, net.mesh, ostraka_save(path, bad, NULL, NULL, NULL));
  REFUSES(ostraka_ddp_t, gone, net.mesh, ostraka_save_ddp(path, bad, NULL, NULL, NULL));
  REFUSES(ostraka_fsdp_context_t, gone, net.mesh, ostraka_load(path, bad, NULL, NULL, NULL));
  REFUSES(ostraka_ddp_t, gone, net.mesh, ostraka_load_ddp(path, bad, NULL, NULL, NULL));
  REFUSES(ostraka_fsdp_context_t, gone, net.mesh, ostraka_async_save_start(path, bad, NULL, NULL, NULL, &save));
  REFUSES(ostraka_ddp_t, gone, net.mesh, ostraka_async_save_start_ddp(path, bad, NULL, NULL, NULL, &save));
  REFUSES_OPTIONAL(ostraka_optimizer_t, gone, net.mesh, ostraka_save(path, net.context, bad, NULL, NULL));
  REFUSES_OPTIONAL(ostraka_extras_t, gone, net.mesh, ostraka_save(path, net.context, NULL, bad, NULL));
  REFUSES_OPTIONAL(ostraka_optimizer_t, gone, net.mesh, ostraka_load(path, net.context, bad, NULL, NULL));
  REFUSES(ostraka_async_save_t, gone, net.mesh, ostraka_async_save_test(bad, &k));
  REFUSES(ostraka_async_save_t, gone, net.mesh, ostraka_async_save_wait(bad));
  REFUSES(ostraka_async_save_t, gone, net.mesh, ostraka_async_save_staging_bytes(bad, &n));
  CHECK_OK(ostraka_async_save_destroy(&save));
  CHECK_FAILS(ostraka_async_save_destroy(NULL), OSTRAKA_INVALID_ARGUMENT, "handle is null");
  CHECK_FAILS(ostraka_save(NULL, net.context, NULL, NULL, NULL), OSTRAKA_INVALID_ARGUMENT, "'path' is null");
  CHECK_FAILS(ostraka_load(NULL, net.context, NULL, NULL, NULL), OSTRAKA_INVALID_ARGUMENT, "'path' is null");
  CHECK_FAILS(ostraka_async_save_start(path, net.context, NULL, NULL, NULL, NULL), OSTRAKA_INVALID_ARGUMENT,
              "'save' is null");
  CHECK_FAILS(ostraka_load_left_out(NULL, &text), OSTRAKA_INVALID_ARGUMENT, "'missing' is null");
  CHECK(save == NULL && k == 0 && n == 0);
  destroy_net(&net);
}

/* Changes one byte of a number of "enc.scale", which is searched for. */
static void damage(const char* path) {
  net_values_t w;
  static char bytes[1 << 20];
  net_expect(0, 1, w);
  if (check_rank == 0) {
    FILE* file = fopen(path, "r+b");
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    size_t at = 0;
    while (at + sizeof(double) <= size && memcmp(bytes + at, &w[NET_FROZEN][1], sizeof(double)) != 0)
      ++at;
    CHECK(at + sizeof(double) <= size);
    fseek(file, (long)at, SEEK_SET);
    fputc(bytes[at] ^ 1, file);
    fclose(file);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void write_text(const char* path, const char* text) {
  if (check_rank == 0) {
    FILE* file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void files(void) {
  net_t net = make_net(MPI_COMM_WORLD, OSTRAKA_ZERO_3, 0);
  net_values_t w;
  ostraka_load_options_t options;
  net_train(&net, 0, 1);
  CHECK_FAILS(ostraka_load(in_folder("none.h5"), net.context, NULL, NULL, NULL), OSTRAKA_INPUT_OUTPUT, "none.h5");
  CHECK_FAILS(ostraka_save(in_folder("no/folder.h5"), net.context, NULL, NULL, NULL), OSTRAKA_INPUT_OUTPUT,
              "no/folder.h5");
  write_text(in_folder("text.h5"), "no HDF5 file");
  CHECK_FAILS(ostraka_load(in_folder("text.h5"), net.context, NULL, NULL, NULL), OSTRAKA_INPUT_OUTPUT, "text.h5");
  net_expect(0, 1, w);
  net_check(&net, w);
  CHECK_OK(ostraka_save(in_folder("good.h5"), net.context, net.adamw, NULL, NULL));
  damage(in_folder("good.h5"));
  CHECK_FAILS(ostraka_load(in_folder("good.h5"), net.context, net.adamw, NULL, NULL), OSTRAKA_INPUT_OUTPUT,
              "is damaged: 'main_weight/enc.scale'");
  CHECK_OK(ostraka_load_options_init(&options));
  options.verify = 0;
  CHECK_OK(ostraka_load(in_folder("good.h5"), net.context, net.adamw, NULL, &options));
  net_train(&net, 1, 2);
  destroy_net(&net);
}

static void states(ostraka_mesh_t mesh) {
  net_t net = make_net(MPI_COMM_WORLD, OSTRAKA_ZERO_3, 0), other = make_net(MPI_COMM_WORLD, OSTRAKA_ZERO_3, 4);
  model_t model = make_model();
  ostraka_fsdp_context_t empty = NULL;
  ostraka_extras_t extras = NULL;
  net_values_t w;
  const char* path = in_folder("states.h5");
  CHECK_OK(ostraka_fsdp_context_create(mesh, NULL, &empty));
  CHECK_FAILS(ostraka_save(path, empty, NULL, NULL, NULL), OSTRAKA_INVALID_STATE, "finalize");
  CHECK_FAILS(ostraka_save(path, net.context, other.adamw, NULL, NULL), OSTRAKA_INVALID_ARGUMENT,
              "two tensors have this name; an optimizer has to be that of the weights");
  CHECK_FAILS(ostraka_save("", net.context, NULL, NULL, NULL), OSTRAKA_INVALID_ARGUMENT,
              "the path of a file, found ''");
  CHECK_OK(ostraka_save(path, net.context, NULL, NULL, NULL));
  CHECK_FAILS(ostraka_load(path, model.context, NULL, NULL, NULL), OSTRAKA_INVALID_ARGUMENT,
              "not in the file: 'main_weight/model.w'");
  CHECK_OK(ostraka_fsdp_module_pre_forward(net.modules[0]));
  CHECK_FAILS(ostraka_load(path, net.context, NULL, NULL, NULL), OSTRAKA_INVALID_STATE, "enc");
  CHECK_OK(ostraka_fsdp_module_post_forward(net.modules[0]));
  CHECK_OK(ostraka_fsdp_module_pre_forward(net.modules[1]));
  CHECK_OK(ostraka_fsdp_module_post_forward(net.modules[1]));
  if (check_ranks > 1) {
    CHECK_OK(ostraka_extras_create(&extras));
    CHECK_OK(ostraka_extras_set_i64(extras, "rank", check_rank));
    CHECK_FAILS(ostraka_save(path, net.context, NULL, extras, NULL), OSTRAKA_RANKS_DISAGREE, "user/rank");
    CHECK_OK(ostraka_extras_destroy(&extras));
  }
  CHECK_OK(ostraka_load(path, other.context, NULL, NULL, NULL));
  net_expect(0, 0, w);
  net_check(&other, w);
  CHECK_OK(ostraka_fsdp_context_destroy(&empty));
  destroy_model(&model);
  destroy_net(&other);
  destroy_net(&net);
}

void checkpoint_error_suite(void) {
  ostraka_mesh_t mesh = make_mesh();
  make_folder();
  extras_handles(mesh);
  extras_values(mesh);
  file_handles();
  if (HAS_CHECKPOINT) {
    files();
    states(mesh);
  }
  remove_folder();
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}
