/* SPDX-License-Identifier: Apache-2.0
 *
 * status.h and runtime.h: names, meanings, and the text of the last failure of each thread.
 */
#include "suites.h"

#include <pthread.h>
#include <string.h>

static void names_are_those_of_the_numbers(void) {
  const struct {
    ostraka_status_t status;
    const char* name;
  } all[] = {{0, "OK"},
             {10, "INVALID_ARGUMENT"},
             {11, "INVALID_STATE"},
             {12, "INVALID_HANDLE"},
             {13, "SHAPE_MISMATCH"},
             {14, "TYPE_MISMATCH"},
             {20, "NOT_SUPPORTED"},
             {30, "OUT_OF_MEMORY"},
             {40, "INPUT_OUTPUT"},
             {50, "COMMUNICATION"},
             {51, "RANKS_DISAGREE"},
             {52, "TIME_OUT"},
             {53, "USER_FAILURE"},
             {60, "FAILED"},
             {90, "INTERNAL"}};
  const char* unknown = ostraka_status_meaning(12345);
  for (unsigned i = 0; i < sizeof all / sizeof all[0]; ++i) {
    CHECK(strcmp(ostraka_status_name(all[i].status), all[i].name) == 0);
    CHECK(strlen(ostraka_status_meaning(all[i].status)) > 5);
    CHECK(strcmp(ostraka_status_meaning(all[i].status), unknown) != 0);
  }
  CHECK(strcmp(ostraka_status_name(1), "UNKNOWN") == 0);
  CHECK(strcmp(ostraka_status_name(-1), "UNKNOWN") == 0);
}

/* A thread starts without a text, fails with its own, and does not see or touch that of another. */
static void* fail_elsewhere(void* text) {
  ostraka_layout_t layout = NULL;
  CHECK(strcmp(ostraka_last_error(), "") == 0);
  CHECK_INT(ostraka_layout_build(OSTRAKA_PLANNED, 0, NULL, 0, NULL, 1, 0, 1, &layout), OSTRAKA_INVALID_ARGUMENT);
  CHECK(layout == NULL);
  strncpy(text, ostraka_last_error(), 255);
  return NULL;
}

static void each_thread_has_its_own_text(void) {
  char theirs[256] = "", mine[256] = "";
  ostraka_layout_t layout = NULL;
  pthread_t thread;
  CHECK_INT(ostraka_layout_build(OSTRAKA_REFERENCE, 0, NULL, 0, NULL, 0, 1, 1, &layout), OSTRAKA_INVALID_ARGUMENT);
  strncpy(mine, ostraka_last_error(), 255);
  if (!CHECK(pthread_create(&thread, NULL, fail_elsewhere, theirs) == 0))
    return;
  pthread_join(thread, NULL);
  CHECK(strcmp(ostraka_last_error(), mine) == 0);
  CHECK(strstr(mine, "ostraka_layout_build: ") == mine && strstr(mine, "expected segments >= 1, found 0") != NULL);
  CHECK(strstr(theirs, "ostraka_layout_build: ") == theirs && strstr(theirs, "tensor alignment >= 1") != NULL);
}

static void success_keeps_the_text_and_clear_forgets_it(void) {
  ostraka_layout_t layout = NULL;
  CHECK_INT(ostraka_layout_build(OSTRAKA_REFERENCE, 0, NULL, 0, NULL, 0, 1, 1, &layout), OSTRAKA_INVALID_ARGUMENT);
  CHECK_OK(ostraka_layout_build(OSTRAKA_REFERENCE, 0, NULL, 0, NULL, 1, 1, 1, &layout));
  CHECK_OK(ostraka_layout_destroy(&layout));
  CHECK(strstr(ostraka_last_error(), "found 0") != NULL);
  ostraka_error_clear();
  CHECK(strcmp(ostraka_last_error(), "") == 0);
}

void message_suite(void) {
  names_are_those_of_the_numbers();
  each_thread_has_its_own_text();
  success_keeps_the_text_and_clear_forgets_it();
  CHECK(strcmp(ostraka_version_string(), "0.1.0") == 0);
  CHECK_INT(ostraka_is_initialized(), 1);
}
