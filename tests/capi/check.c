/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int check_rank, check_ranks = 1;
static int failures;
static long checks;

static int report(int holds, const char* text, const char* file, int line, const char* details) {
  ++checks;
  if (!holds) {
    ++failures;
    fprintf(stderr, "[rank %d of %d] %s:%d: %s: %s\n", check_rank, check_ranks, file, line, text, details);
  }
  return holds;
}

int check_true(int holds, const char* text, const char* file, int line) {
  return report(holds, text, file, line, "does not hold");
}

int check_int(int64_t found, int64_t expected, const char* text, const char* file, int line) {
  char details[96];
  snprintf(details, sizeof details, "expected %lld, found %lld", (long long)expected, (long long)found);
  return report(found == expected, text, file, line, details);
}

int check_near(double found, double expected, double tolerance, const char* text, const char* file, int line) {
  char details[128];
  snprintf(details, sizeof details, "expected %.17g within %g, found %.17g", expected, tolerance, found);
  return report(fabs(found - expected) <= tolerance, text, file, line, details); /* NaN fails */
}

int check_ok(ostraka_status_t status, const char* text, const char* file, int line) {
  char details[512];
  snprintf(details, sizeof details, "%s: %s", ostraka_status_name(status), ostraka_last_error());
  return report(status == OSTRAKA_OK, text, file, line, details);
}

/* "ostraka_name(" in the expression; the text of an error starts with "ostraka_name". */
static int names_function(const char* error, const char* text) {
  const size_t length = strcspn(text, "(");
  return strncmp(error, text, length) == 0 && strchr(error + length, ':') != NULL;
}

int check_fails(ostraka_status_t found, ostraka_status_t expected, const char* words, const char* text,
                const char* file, int line) {
  char details[768];
  const char* error = ostraka_last_error();
  snprintf(details, sizeof details, "expected %s with '%s', found %s: '%s'", ostraka_status_name(expected), words,
           ostraka_status_name(found), error);
  return report(found == expected && names_function(error, text) && strstr(error, words) != NULL, text, file, line,
                details);
}

void check_start(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &check_ranks);
  const char* expected = getenv("OSTRAKA_TEST_RANKS");
  if (expected != NULL && atoi(expected) != check_ranks) { /* mpiexec of another MPI starts single ranks */
    fprintf(stderr, "expected %s ranks, found %d: is mpiexec of the same MPI?\n", expected, check_ranks);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

int check_finish(void) {
  int failed = failures > 0;
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (check_rank == 0)
    printf("%ld checks on rank 0 of %d: %s\n", checks, check_ranks, failed ? "FAILED" : "passed");
  MPI_Finalize();
  return failed;
}

int check_finish_alone(void) {
  printf("%ld checks: %s\n", checks, failures > 0 ? "FAILED" : "passed");
  return failures > 0;
}
