/* SPDX-License-Identifier: Apache-2.0 */
#include "digits_network.h"

#include <math.h>

enum { LANES = 16 };

/* Partial sums in lanes: a single running sum could not be vectorised without changing its rounding. */
static float dot(int64_t count, const float* restrict a, const float* restrict b) {
  float sums[LANES] = {0};
  int64_t k = 0;
  for (; k + LANES <= count; k += LANES)
    for (int64_t lane = 0; lane < LANES; ++lane)
      sums[lane] += a[k + lane] * b[k + lane];
  float sum = 0;
  for (; k < count; ++k)
    sum += a[k] * b[k];
  for (int64_t lane = 0; lane < LANES; ++lane)
    sum += sums[lane];
  return sum;
}

/* y += factor * x */
static void add_scaled(int64_t count, float factor, const float* restrict x, float* restrict y) {
  for (int64_t k = 0; k < count; ++k)
    y[k] += factor * x[k];
}

/* Undefined memory may hold NaN, which no factor removes: beta = 0 assigns. */
static void scale(int64_t count, double beta, float* y) {
  if (beta == 0.0) {
    for (int64_t k = 0; k < count; ++k)
      y[k] = 0;
  } else if (beta != 1.0) {
    for (int64_t k = 0; k < count; ++k)
      y[k] *= (float)beta;
  }
}

void dense_forward(int64_t rows, int64_t inputs, int64_t outputs, const float* x, const float* weight,
                   const float* bias, float* y) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < outputs; ++o)
      y[r * outputs + o] = bias[o] + dot(inputs, x + r * inputs, weight + o * inputs);
}

void dense_backward_input(int64_t rows, int64_t inputs, int64_t outputs, const float* grad_y, const float* weight,
                          float* grad_x) {
  scale(rows * inputs, 0.0, grad_x);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < outputs; ++o)
      add_scaled(inputs, grad_y[r * outputs + o], weight + o * inputs, grad_x + r * inputs);
}

void dense_backward_weight(int64_t rows, int64_t inputs, int64_t outputs, const float* x, const float* grad_y,
                           double beta, float* grad_weight) {
  scale(outputs * inputs, beta, grad_weight);
  /* Outputs outside: one row of the gradient stays in the cache while all rows of the batch are added to it. */
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t r = 0; r < rows; ++r)
      add_scaled(inputs, grad_y[r * outputs + o], x + r * inputs, grad_weight + o * inputs);
}

void dense_backward_bias(int64_t rows, int64_t outputs, const float* grad_y, double beta, float* grad_bias) {
  scale(outputs, beta, grad_bias);
  for (int64_t r = 0; r < rows; ++r)
    add_scaled(outputs, 1.0F, grad_y + r * outputs, grad_bias);
}

/* Written so that NaN passes through and is seen in the loss. */
void relu_forward(int64_t count, float* y) {
  for (int64_t k = 0; k < count; ++k)
    y[k] = y[k] < 0 ? 0 : y[k];
}

void relu_backward(int64_t count, const float* y, float* grad_y) {
  for (int64_t k = 0; k < count; ++k)
    grad_y[k] = y[k] > 0 ? grad_y[k] : 0;
}

static int64_t index_of_largest(int64_t count, const float* values) {
  int64_t largest = 0;
  for (int64_t k = 1; k < count; ++k)
    if (values[k] > values[largest])
      largest = k;
  return largest;
}

double cross_entropy(int64_t rows, int64_t classes, const float* scores, const int32_t* labels, int64_t total_rows,
                     float* grad_scores) {
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* score = scores + r * classes;
    float* grad = grad_scores + r * classes;
    /* Scores relative to the largest one: the exponentials cannot overflow. */
    const float largest = score[index_of_largest(classes, score)];
    float sum = 0;
    for (int64_t c = 0; c < classes; ++c) {
      grad[c] = expf(score[c] - largest);
      sum += grad[c];
    }
    for (int64_t c = 0; c < classes; ++c)
      grad[c] = (grad[c] / sum - (c == labels[r] ? 1.0F : 0.0F)) / (float)total_rows;
    loss += log((double)sum) - (double)(score[labels[r]] - largest);
  }
  return loss;
}

int64_t count_correct(int64_t rows, int64_t classes, const float* scores, const int32_t* labels) {
  int64_t correct = 0;
  for (int64_t r = 0; r < rows; ++r)
    correct += index_of_largest(classes, scores + r * classes) == labels[r];
  return correct;
}
