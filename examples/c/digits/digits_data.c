/* SPDX-License-Identifier: Apache-2.0 */
#include "digits_data.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LINE_CAPACITY = 512, SHOWN_CHARACTERS = 24, PROBLEM_CAPACITY = 128 };

/* Reads digits up to the next comma or the end; returns -1 for anything else and for values above the limit. */
static int parse_value(const char* text, size_t length, int limit) {
  int value = 0;
  if (length == 0)
    return -1;
  for (size_t k = 0; k < length; ++k) {
    if (text[k] < '0' || text[k] > '9')
      return -1;
    value = 10 * value + (text[k] - '0');
    if (value > limit)
      return -1;
  }
  return value;
}

/* Leaves `problem` empty, or says in it what was expected and found. */
static void parse_line(char* line, uint8_t* pixels, uint8_t* label, char problem[PROBLEM_CAPACITY]) {
  line[strcspn(line, "\r\n")] = '\0';
  const int expected = DIGITS_PIXELS + 1;
  int found = line[0] == '\0' ? 0 : 1;
  for (const char* c = line; *c != '\0'; ++c)
    found += *c == ',';
  if (found != expected) {
    snprintf(problem, PROBLEM_CAPACITY, "expected %d values (%d pixels and a label), found %d", expected, DIGITS_PIXELS,
             found);
    return;
  }

  const char* text = line;
  for (int column = 0; column < expected; ++column) {
    const int is_label = column == DIGITS_PIXELS;
    const int limit = is_label ? DIGITS_CLASSES - 1 : DIGITS_MAX_PIXEL;
    const size_t length = strcspn(text, ",");
    const int value = parse_value(text, length, limit);
    if (value < 0) {
      const int shown = length < SHOWN_CHARACTERS ? (int)length : SHOWN_CHARACTERS;
      snprintf(problem, PROBLEM_CAPACITY, "value %d: expected a %s from 0 to %d, found '%.*s'", column + 1,
               is_label ? "label" : "pixel", limit, shown, text);
      return;
    }
    *(is_label ? label : &pixels[column]) = (uint8_t)value;
    text += length + 1;
  }
}

static int read_lines(FILE* file, digits_t* digits, const char* path, char* message, size_t capacity) {
  char line[LINE_CAPACITY];
  char problem[PROBLEM_CAPACITY] = "";
  int rows = 0;
  errno = 0;
  for (; fgets(line, sizeof line, file) != NULL; ++rows) {
    if (strchr(line, '\n') == NULL && !feof(file)) {
      snprintf(problem, sizeof problem, "expected at most %d characters, found a longer line", LINE_CAPACITY - 2);
    } else if (rows == DIGITS_ROWS) {
      snprintf(problem, sizeof problem, "expected the end of the file after %d rows, found one more", DIGITS_ROWS);
    } else {
      parse_line(line, digits->pixels[rows], &digits->labels[rows], problem);
    }
    if (problem[0] != '\0') {
      snprintf(message, capacity, "%s:%d: %s", path, rows + 1, problem);
      return 1;
    }
  }
  if (ferror(file)) {
    snprintf(message, capacity, "%s: cannot read: %s", path, strerror(errno));
    return 1;
  }
  if (rows != DIGITS_ROWS) {
    snprintf(message, capacity, "%s: expected %d rows, found %d", path, DIGITS_ROWS, rows);
    return 1;
  }
  return 0;
}

int digits_load(digits_t* digits, const char* path, char* message, size_t capacity) {
  FILE* file = fopen(path, "r");
  if (file == NULL) {
    snprintf(message, capacity, "%s: cannot open: %s", path, strerror(errno));
    return 1;
  }
  const int result = read_lines(file, digits, path, message, capacity);
  fclose(file);
  return result;
}

void digits_split(int32_t train[DIGITS_TRAIN_ROWS], int32_t test[DIGITS_TEST_ROWS]) {
  int32_t num_train = 0, num_test = 0;
  for (int32_t row = 0; row < DIGITS_ROWS; ++row) {
    if (row % DIGITS_TEST_EVERY == 0) {
      test[num_test++] = row;
    } else {
      train[num_train++] = row;
    }
  }
}

uint32_t digits_random(uint64_t* state, uint32_t limit) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  /* The high half is the good half of a linear congruential generator; the product scales it to the limit. */
  return (uint32_t)(((*state >> 32) * limit) >> 32);
}

void digits_shuffle(int32_t* rows, int32_t count, uint64_t* random_state) {
  for (int32_t last = count - 1; last > 0; --last) {
    const uint32_t other = digits_random(random_state, (uint32_t)last + 1);
    const int32_t row = rows[last];
    rows[last] = rows[other];
    rows[other] = row;
  }
}

void digits_gather(const digits_t* digits, const int32_t* rows, int64_t count, float* pixels, int32_t* labels) {
  for (int64_t k = 0; k < count; ++k) {
    const uint8_t* source = digits->pixels[rows[k]];
    for (int64_t p = 0; p < DIGITS_PIXELS; ++p)
      pixels[k * DIGITS_PIXELS + p] = (float)source[p] / (float)DIGITS_MAX_PIXEL;
    labels[k] = digits->labels[rows[k]];
  }
}
