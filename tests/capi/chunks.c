/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks hold of parameters: together all of it, in one place each where weights are sharded.
 */
#include "checkpoint_model.h"
#include "ddp_model.h"

#include <string.h>

enum { BOXES = 5 };

/* Every element of a parameter has as many holders as expected (0: any number of them), and one writer. */
static void check_tiling(ostraka_chunks_t chunks, const char* name, int size, int holders) {
  int64_t offset = 0, count = 0, first = 0, written = 0;
  int32_t counts[2][NET_MOST] = {{0}};
  CHECK_OK(ostraka_chunks_range(chunks, name, &offset, &count));
  CHECK_OK(ostraka_chunks_written(chunks, name, &first, &written));
  CHECK(offset >= 0 && count >= 0 && offset + count <= size);
  CHECK(written == 0 || (first >= offset && first + written <= offset + count));
  for (int64_t k = 0; k < count; ++k)
    counts[0][offset + k] = 1;
  for (int64_t k = 0; k < written; ++k)
    counts[1][first + k] = 1;
  MPI_Allreduce(MPI_IN_PLACE, counts, 2 * NET_MOST, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD);
  for (int k = 0; k < size; ++k)
    CHECK((holders == 0 ? counts[0][k] > 0 : counts[0][k] == holders) && counts[1][k] == 1);
}

/* The boxes of a matrix hold the elements of the range and no others. */
static void check_boxes(ostraka_chunks_t chunks, const char* name, int64_t columns) {
  int64_t offset = 0, count = 0, offsets[BOXES * 2] = {0}, sizes[BOXES * 2] = {0}, elements = 0;
  int32_t found = -1;
  CHECK_OK(ostraka_chunks_range(chunks, name, &offset, &count));
  CHECK_OK(ostraka_chunks_boxes(chunks, name, BOXES, offsets, sizes, &found));
  CHECK(found >= 0 && found <= 3 && (found == 0) == (count == 0));
  for (int b = 0; b < found; ++b)
    for (int64_t i = offsets[2 * b]; i < offsets[2 * b] + sizes[2 * b]; ++i)
      for (int64_t j = offsets[2 * b + 1]; j < offsets[2 * b + 1] + sizes[2 * b + 1]; ++j) {
        CHECK(i * columns + j >= offset && i * columns + j < offset + count);
        ++elements;
      }
  CHECK_INT(elements, count);
}

static void of_a_context(int32_t recipe, int holders) {
  net_t net = make_net(MPI_COMM_WORLD, recipe, 0);
  ostraka_chunks_t chunks = NULL;
  static const char* const alphabetic[] = {"dec.w", "enc.b", "enc.scale", "enc.table", "enc.w"};
  int64_t extents[8] = {0}, offset[2], count[2], row = -1, rows = -1;
  int32_t names = 0, dims = 0, boxes = -1;
  CHECK_OK(ostraka_chunks_create(net.context, &chunks));
  CHECK_OK(ostraka_chunks_num_names(chunks, &names));
  CHECK_INT(names, 5);
  for (int i = 0; i < 5; ++i) {
    const char* name = "";
    CHECK_OK(ostraka_chunks_name(chunks, i, &name));
    CHECK(strcmp(name, alphabetic[i]) == 0);
  }
  CHECK_OK(ostraka_chunks_shape(chunks, "dec.w", &dims, extents));
  CHECK(dims == 2 && extents[0] == 3 && extents[1] == 5);
  for (int p = 0; p < NET_PARAMETERS; ++p)
    check_tiling(chunks, net_names[p], net_sizes[p], holders);
  check_boxes(chunks, "enc.w", 3);
  check_boxes(chunks, "dec.w", 5);
  CHECK_OK(ostraka_chunks_range(chunks, "enc.w", &offset[0], &count[0]));
  CHECK_OK(ostraka_chunks_range(chunks, "enc.table", &offset[1], &count[1]));
  CHECK(offset[0] == offset[1] && count[0] == count[1]);
  if (offset[0] % 3 == 0 && count[0] % 3 == 0) {
    CHECK_OK(ostraka_chunks_rows(chunks, "enc.w", &row, &rows));
    CHECK(rows == count[0] / 3 && (rows == 0 || row == offset[0] / 3));
  }
  CHECK_FAILS(ostraka_chunks_range(chunks, "enc.x", offset, count), OSTRAKA_INVALID_ARGUMENT,
              "the name 'enc.x'; there are: 'dec.w', 'enc.b");
  CHECK_FAILS(ostraka_chunks_range(chunks, NULL, offset, count), OSTRAKA_INVALID_ARGUMENT, "'name' is null");
  CHECK_FAILS(ostraka_chunks_written(chunks, "enc.w", NULL, count), OSTRAKA_INVALID_ARGUMENT, "'offset' is null");
  CHECK_OK(ostraka_chunks_boxes(chunks, "enc.w", 0, NULL, NULL, &boxes));
  if (boxes > 0)
    CHECK_FAILS(ostraka_chunks_boxes(chunks, "enc.w", BOXES, NULL, NULL, &boxes), OSTRAKA_INVALID_ARGUMENT, "is null");
  destroy_net(&net);
  CHECK_OK(ostraka_chunks_shape(chunks, "enc.w", &dims, NULL)); /* they outlive the network */
  CHECK_OK(ostraka_chunks_destroy(&chunks));
}

/* Buckets are cut anywhere, so rows are. */
static void of_a_ddp(ostraka_mesh_t mesh, int is_sharded) {
  ostraka_ddp_config_t config = ddp_small_buckets();
  config.sharded_optimizer = is_sharded;
  ostraka_ddp_t ddp = make_ddp(mesh, &config);
  ostraka_chunks_t chunks = NULL;
  int64_t offset = 0, count = 0, row = 0, rows = 0;
  CHECK_OK(ostraka_chunks_create_ddp(ddp, &chunks));
  for (int p = 0; p < DDP_PARAMETERS; ++p)
    check_tiling(chunks, ddp_names[p], ddp_sizes[p], is_sharded && p != DDP_FROZEN ? 1 : check_ranks);
  check_boxes(chunks, "a.weight", 3);
  check_boxes(chunks, "b.weight", 4);
  CHECK_OK(ostraka_chunks_range(chunks, "a.weight", &offset, &count));
  if (offset % 3 != 0 || count % 3 != 0)
    CHECK_FAILS(ostraka_chunks_rows(chunks, "a.weight", &row, &rows), OSTRAKA_INVALID_ARGUMENT, "boxes");
  CHECK_OK(ostraka_chunks_destroy(&chunks));
  CHECK_OK(ostraka_ddp_destroy(&ddp));
}

static void row_boxes(void) {
  int64_t offsets[3] = {9, 9, 9}, sizes[3] = {9, 9, 9};
  const ostraka_shape_t shape = {3, (const int64_t[]){4, 3, 2}}, scalar = {0, NULL};
  CHECK_OK(ostraka_row_box(shape, 1, 2, offsets, sizes));
  CHECK(offsets[0] == 1 && offsets[1] == 0 && offsets[2] == 0);
  CHECK(sizes[0] == 2 && sizes[1] == 3 && sizes[2] == 2);
  CHECK_OK(ostraka_row_box(scalar, 0, 1, NULL, NULL));
  CHECK_FAILS(ostraka_row_box(shape, 3, 2, offsets, sizes), OSTRAKA_INVALID_ARGUMENT, "a part of its 4");
}

static void errors(ostraka_mesh_t mesh) {
  ostraka_fsdp_context_t context = NULL;
  ostraka_chunks_t chunks = NULL, copy;
  const char* name = NULL;
  int32_t count = 0;
  CHECK_OK(ostraka_fsdp_context_create(mesh, NULL, &context));
  CHECK_FAILS(ostraka_chunks_create(context, &chunks), OSTRAKA_INVALID_STATE, "finalize");
  CHECK_OK(ostraka_fsdp_context_finalize(context));
  CHECK_FAILS(ostraka_chunks_create(context, NULL), OSTRAKA_INVALID_ARGUMENT, "'chunks' is null");
  CHECK_FAILS(ostraka_chunks_create(NULL, &chunks), OSTRAKA_INVALID_HANDLE, "context handle is null");
  CHECK_FAILS(ostraka_chunks_create_ddp(NULL, &chunks), OSTRAKA_INVALID_HANDLE, "ddp handle is null");
  CHECK_OK(ostraka_chunks_create(context, &chunks));
  CHECK_FAILS(ostraka_chunks_name(chunks, 0, &name), OSTRAKA_INVALID_ARGUMENT,
              "a name, and there is none so far; found 0 (in Fortran 1)");
  copy = chunks;
  CHECK_OK(ostraka_chunks_destroy(&chunks));
  CHECK_FAILS(ostraka_chunks_num_names(copy, &count), OSTRAKA_INVALID_HANDLE, "chunks handle was destroyed");
  CHECK_FAILS(ostraka_chunks_destroy(&copy), OSTRAKA_INVALID_HANDLE, "destroyed");
  CHECK_OK(ostraka_fsdp_context_destroy(&context));
}

void chunk_suite(void) {
  ostraka_mesh_t mesh = make_mesh();
  of_a_context(OSTRAKA_ZERO_3, 1);
  of_a_context(OSTRAKA_NO_SHARD, 0); /* ranks that share memory hold a part each */
  of_a_ddp(mesh, 0);
  of_a_ddp(mesh, 1);
  row_boxes();
  errors(mesh);
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}
