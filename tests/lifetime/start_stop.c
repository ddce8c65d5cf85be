/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks through the steps of its argument from C and prints what each returned.
 */
#include "start_stop.h"

#include <ostraka/ostraka.h>

#include <mpi.h>
#include <stdio.h>

static ostraka_mesh_t mesh;
static ostraka_buffer_t buffer;
static ostraka_fsdp_context_t context;
static ostraka_fsdp_module_t module;
static ostraka_optimizer_t optimizer;
static const int64_t extents[] = {6};
static const ostraka_shape_t shape = {1, extents};

/* The first failure of several calls. */
#define TRY(call)                                                                                                      \
  do {                                                                                                                 \
    const ostraka_status_t try_status = (call);                                                                        \
    if (try_status != OSTRAKA_OK)                                                                                      \
      return try_status;                                                                                               \
  } while (0)

static ostraka_status_t create(void) {
  const ostraka_placement_t shard = {OSTRAKA_SHARD, 0};
  TRY(ostraka_mesh_create(MPI_COMM_WORLD, 1, NULL, NULL, &mesh));
  TRY(ostraka_buffer_empty(mesh, &shard, 1, &shape, OSTRAKA_F64, &buffer));
  TRY(ostraka_fsdp_context_create(mesh, NULL, &context));
  TRY(ostraka_fsdp_context_add_module(context, "m", &module));
  TRY(ostraka_fsdp_module_add_parameter(module, "w", shape, OSTRAKA_F64, 1));
  TRY(ostraka_fsdp_module_build(module));
  TRY(ostraka_fsdp_context_finalize(context));
  return ostraka_sgd_create(context, NULL, &optimizer);
}

/* Everything collective of a buffer says the same. */
static ostraka_status_t gather(void) {
  ostraka_buffer_t whole = NULL;
  const ostraka_status_t met = ostraka_buffer_rendezvous(buffer, 0);
  const ostraka_status_t gathered = ostraka_buffer_allgather(buffer, 0, NULL, &whole);
  TRY(met == gathered ? met : OSTRAKA_INTERNAL);
  return ostraka_buffer_destroy(&whole);
}

static ostraka_status_t use(void) {
  TRY(ostraka_fsdp_context_begin_inference(context));
  TRY(ostraka_fsdp_module_pre_forward(module));
  TRY(ostraka_fsdp_module_post_forward(module));
  return ostraka_fsdp_context_end_inference(context);
}

static ostraka_status_t destroy(void) {
  TRY(ostraka_optimizer_destroy(&optimizer));
  TRY(ostraka_fsdp_context_destroy(&context));
  TRY(ostraka_buffer_destroy(&buffer));
  return ostraka_mesh_destroy(&mesh);
}

static ostraka_status_t step(char letter) {
  switch (letter) {
  case 'M':
    return MPI_Init(NULL, NULL);
  case 'm':
    return MPI_Finalize();
  case 'K':
    start_stop_kokkos_initialize();
    return OSTRAKA_OK;
  case 'k':
    start_stop_kokkos_finalize();
    return OSTRAKA_OK;
  case 'I':
    return ostraka_initialize();
  case 'i':
    return ostraka_finalize();
  case 'C':
    return create();
  case 'U':
    return use();
  case 'G':
    return gather();
  default:
    return destroy();
  }
}

int main(int argc, char** argv) {
  for (const char* letter = argc > 1 ? argv[1] : ""; *letter != '\0'; ++letter) {
    const ostraka_status_t status = step(*letter);
    printf("%c %s %s\n", *letter, ostraka_status_name(status), status == OSTRAKA_OK ? "" : ostraka_last_error());
    fflush(stdout);
  }
  printf("end\n");
}
