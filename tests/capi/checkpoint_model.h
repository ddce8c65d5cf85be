/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of checkpoints share: a folder, and a network whose weights after any number of steps of AdamW are
 * known by plain loops, whatever the ranks and the recipe.
 */
#ifndef OSTRAKA_TESTS_CAPI_CHECKPOINT_MODEL_H
#define OSTRAKA_TESTS_CAPI_CHECKPOINT_MODEL_H

#include "suites.h"

#include <mpi.h>

/* Whether the library was built with HDF5. */
#ifdef OSTRAKA_TEST_HAS_CHECKPOINT
enum { HAS_CHECKPOINT = 1 };
#else
enum { HAS_CHECKPOINT = 0 };
#endif

/* "enc.w" (7 x 3, also called "enc.table"), "enc.b" (3), the frozen "enc.scale" (2 x 2), "dec.w" (3 x 5) */
enum { NET_PARAMETERS = 4, NET_FROZEN = 2, NET_MOST = 21 };
extern const char* const net_names[NET_PARAMETERS];
extern const int net_sizes[NET_PARAMETERS];
typedef double net_row_t[NET_MOST];
typedef net_row_t net_values_t[NET_PARAMETERS];

typedef struct {
  ostraka_mesh_t mesh;
  ostraka_fsdp_context_t context;
  ostraka_fsdp_module_t modules[2];
  ostraka_optimizer_t adamw;
} net_t;

/* Weights of `salt`, trained for so many steps. */
void net_expect(int salt, int steps, net_row_t* w);
/* On the ranks of `comm`, with the first weights of `salt`. */
net_t make_net(MPI_Comm comm, int32_t recipe, int salt);
void destroy_net(net_t* net);
/* Steps first ... end - 1. */
void net_train(net_t* net, int first, int end);
void net_check(net_t* net, net_row_t* w);

/* A new folder of all ranks, and the path of a file in it (static storage, of the last call). */
void make_folder(void);
const char* in_folder(const char* name);
void remove_folder(void);

#endif
