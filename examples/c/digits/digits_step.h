/* SPDX-License-Identifier: Apache-2.0
 *
 * One training step and one pass over test rows: the hooks of Ostraka around the arithmetic of digits_network.h.
 */
#ifndef DIGITS_STEP_H
#define DIGITS_STEP_H

#include "digits_data.h"
#include <ostraka/ostraka.h>

#include <mpi.h>

enum { LAYERS = 3, WIDEST = 256, BATCH = 64 };
static const int64_t widths[LAYERS + 1] = {DIGITS_PIXELS, WIDEST, WIDEST, DIGITS_CLASSES};

typedef struct {
  ostraka_mesh_t mesh;
  ostraka_fsdp_context_t context;
  ostraka_fsdp_module_t layers[LAYERS];
  ostraka_optimizer_t optimizer;
  int32_t rank, size;
  uint64_t random_state; /* equal on all ranks */
  digits_t digits;       /* all rows, on every rank */
} trainer_t;

/* Prints what failed and why; returns the status. */
ostraka_status_t report(const char* call, ostraka_status_t status);

/* Inside a step or an inference pass a failing rank leaves in order: the status goes up to whoever ends the step. */
#define TRY(call)                                                                                                      \
  do {                                                                                                                 \
    const ostraka_status_t status_ = (call);                                                                           \
    if (status_ != OSTRAKA_OK)                                                                                         \
      return report(#call, status_);                                                                                   \
  } while (0)

/* Elsewhere other ranks may wait in a collective call that this rank will never reach: only MPI_Abort ends them. */
#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    const ostraka_status_t status_ = (call);                                                                           \
    if (status_ != OSTRAKA_OK) {                                                                                       \
      report(#call, status_);                                                                                          \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                                    \
    }                                                                                                                  \
  } while (0)

/* The part of 0 ... count - 1 that belongs to this rank; parts differ by at most one. */
int64_t my_part(const trainer_t* trainer, int64_t count, int64_t* first);

/* Trains on one batch; adds the losses of this rank's rows to `loss`. The status is equal on all ranks. */
ostraka_status_t train_step(trainer_t* trainer, const int32_t* batch, int64_t batch_rows, double* loss);

/* For inference: local. Adds the number of `rows` that are read correctly to `correct`. */
ostraka_status_t test_rows(trainer_t* trainer, const int32_t* rows, int64_t count, int64_t* correct);

#endif
