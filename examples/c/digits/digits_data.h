/* SPDX-License-Identifier: Apache-2.0
 *
 * The handwritten digits: reading, splitting, shuffling. Knows nothing of MPI or Ostraka.
 */
#ifndef DIGITS_DATA_H
#define DIGITS_DATA_H

#include <stddef.h>
#include <stdint.h>

enum {
  DIGITS_ROWS = 1797,
  DIGITS_PIXELS = 64,
  DIGITS_CLASSES = 10,
  DIGITS_MAX_PIXEL = 16,
  DIGITS_TEST_EVERY = 5, /* rows 0, 5, 10, ... test, the others train */
  DIGITS_TEST_ROWS = (DIGITS_ROWS + DIGITS_TEST_EVERY - 1) / DIGITS_TEST_EVERY,
  DIGITS_TRAIN_ROWS = DIGITS_ROWS - DIGITS_TEST_ROWS
};

/* Bytes only, so one broadcast of the struct moves the data set. */
typedef struct {
  uint8_t pixels[DIGITS_ROWS][DIGITS_PIXELS];
  uint8_t labels[DIGITS_ROWS];
} digits_t;

/* Reads a file of comma-separated lines: 64 pixels, then the label. Returns 0, or 1 with a message. */
int digits_load(digits_t* digits, const char* path, char* message, size_t capacity);

/* The row numbers of both parts, in the order of the file. */
void digits_split(int32_t train[DIGITS_TRAIN_ROWS], int32_t test[DIGITS_TEST_ROWS]);

/* A uniform number in 0 ... limit - 1; equal states give equal sequences on every machine. */
uint32_t digits_random(uint64_t* state, uint32_t limit);

void digits_shuffle(int32_t* rows, int32_t count, uint64_t* random_state);

/* Copies `count` rows to float, pixels scaled to 0 ... 1. */
void digits_gather(const digits_t* digits, const int32_t* rows, int64_t count, float* pixels, int32_t* labels);

#endif
