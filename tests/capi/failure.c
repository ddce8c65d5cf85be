/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures inside a step: every rank gets the same status and text from finish_backward, the gradients are dropped, and
 * the next step is right.
 */
#include "suites.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 256 };

/* The text without the name of the function in front is that of rank 0. */
static void check_same_text_on_all_ranks(void) {
  char mine[TEXT] = "";
  strncpy(mine, ostraka_last_error(), TEXT - 1);
  char* all = malloc((size_t)check_ranks * TEXT);
  MPI_Allgather(mine, TEXT, MPI_CHAR, all, TEXT, MPI_CHAR, MPI_COMM_WORLD);
  for (int rank = 0; rank < check_ranks; ++rank)
    CHECK(strcmp(all + rank * TEXT, mine) == 0);
  free(all);
}

static void check_finish_fails(model_t* model, ostraka_status_t status, const char* words) {
  CHECK_FAILS(ostraka_fsdp_context_finish_backward(model->context), status, words);
  check_same_text_on_all_ranks();
  /* The gradients of the pass are dropped. */
  CHECK_FAILS(ostraka_optimizer_step(model->sgd), OSTRAKA_INVALID_STATE, "no complete gradient");
  check_weights(model);
  train_step(model);
  train_step(model);
}

/* `who` gives up at the point 0 ... 5 of the step and leaves out what follows; the others do everything. */
static void one_rank_fails(model_t* model, int who, int point) {
  char words[64];
  int at = 0;
  snprintf(words, sizeof words, "rank %d: disk %d is full", who, point);
#define POINT                                                                                                          \
  if (check_rank == who && at++ == point) {                                                                            \
    CHECK_OK(ostraka_fsdp_context_fail_step(model->context, strstr(words, "disk")));                                   \
    break;                                                                                                             \
  }
  CHECK_OK(ostraka_fsdp_context_zero_grad(model->context));
  do {
    POINT
    CHECK_OK(ostraka_fsdp_module_pre_forward(model->module));
    POINT
    CHECK_OK(ostraka_fsdp_module_post_forward(model->module));
    POINT
    CHECK_OK(ostraka_fsdp_module_pre_backward(model->module));
    POINT
    write_gradient(model);
    POINT
    CHECK_OK(ostraka_fsdp_module_post_backward(model->module));
    POINT
  } while (0);
  check_finish_fails(model, OSTRAKA_USER_FAILURE, words);
}

static void the_lowest_rank_speaks(model_t* model) {
  char message[32], words[48];
  const int first = check_ranks > 1 ? 1 : 0;
  CHECK_OK(ostraka_fsdp_context_zero_grad(model->context));
  snprintf(message, sizeof message, "reason %d", check_rank);
  if (check_rank >= first) {
    CHECK_OK(ostraka_fsdp_context_fail_step(model->context, message));
    CHECK_OK(ostraka_fsdp_context_fail_step(model->context, "a later reason"));
  } else {
    forward(model);
    CHECK_OK(ostraka_fsdp_module_pre_backward(model->module));
    write_gradient(model);
    CHECK_OK(ostraka_fsdp_module_post_backward(model->module));
  }
  snprintf(words, sizeof words, "rank %d: reason %d", first, first);
  check_finish_fails(model, OSTRAKA_USER_FAILURE, words);
}

static void without_a_reason(model_t* model) {
  CHECK_OK(ostraka_fsdp_context_zero_grad(model->context));
  CHECK_OK(ostraka_fsdp_context_fail_step(model->context, NULL));
  check_finish_fails(model, OSTRAKA_USER_FAILURE, "the caller reported a failure");
}

/* Mistakes that finish_backward notices; the last rank alone makes them. */
static void incomplete_steps(model_t* model) {
  const int makes_it = check_rank == check_ranks - 1;
  CHECK_OK(ostraka_fsdp_context_zero_grad(model->context));
  forward(model);
  CHECK_OK(ostraka_fsdp_module_pre_backward(model->module));
  if (!makes_it)
    write_gradient(model);
  CHECK_OK(ostraka_fsdp_module_post_backward(model->module));
  check_finish_fails(model, OSTRAKA_INVALID_STATE, "parameter 'w' got no gradient");

  CHECK_OK(ostraka_fsdp_context_zero_grad(model->context));
  forward(model);
  CHECK_OK(ostraka_fsdp_module_pre_backward(model->module));
  write_gradient(model);
  if (!makes_it)
    CHECK_OK(ostraka_fsdp_module_post_backward(model->module));
  check_finish_fails(model, OSTRAKA_INVALID_STATE, "is still in its backward phase");
}

void failure_suite(void) {
  model_t model = make_model();
  train_step(&model);
  for (int who = 0; who < check_ranks; ++who)
    for (int point = 0; point < 6; ++point)
      one_rank_fails(&model, who, point);
  the_lowest_rank_speaks(&model);
  without_a_reason(&model);
  incomplete_steps(&model);
  destroy_model(&model);
}
