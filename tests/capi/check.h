/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks for tests in plain C: they print rank, file and line and go on; the exit status is that of all ranks together.
 */
#ifndef OSTRAKA_TESTS_CAPI_CHECK_H
#define OSTRAKA_TESTS_CAPI_CHECK_H

#include <ostraka/ostraka.h>

#include <stddef.h> /* NULL, which not every mpi.h brings */
#include <stdint.h>

extern int check_rank, check_ranks; /* of MPI_COMM_WORLD, for messages and expected values */

/* All return 1 when the check holds. `text` is the expression. */
int check_true(int holds, const char* text, const char* file, int line);
int check_int(int64_t found, int64_t expected, const char* text, const char* file, int line);
int check_near(double found, double expected, double tolerance, const char* text, const char* file, int line);
int check_ok(ostraka_status_t status, const char* text, const char* file, int line);
/* The status, the function's name at the front of ostraka_last_error() and `words` somewhere behind. */
int check_fails(ostraka_status_t found, ostraka_status_t expected, const char* words, const char* text,
                const char* file, int line);

#define CHECK(condition) check_true((condition) != 0, #condition, __FILE__, __LINE__)
#define CHECK_INT(found, expected) check_int(found, expected, #found, __FILE__, __LINE__)
#define CHECK_NEAR(found, expected, tolerance) check_near(found, expected, tolerance, #found, __FILE__, __LINE__)
#define CHECK_OK(call) check_ok(call, #call, __FILE__, __LINE__)
#define CHECK_FAILS(call, status, words)                                                                               \
  (ostraka_error_clear(), check_fails(call, status, words, #call, __FILE__, __LINE__))

/* Starts MPI and remembers rank and size; refuses a number of ranks other than OSTRAKA_TEST_RANKS. */
void check_start(int* argc, char*** argv);
/* Reduces the failures over all ranks with MAX, finalises MPI and returns the exit status. */
int check_finish(void);
/* The same for a program of one process without MPI. */
int check_finish_alone(void);

#endif
