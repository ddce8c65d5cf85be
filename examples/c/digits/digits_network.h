/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the network on plain arrays. Knows nothing of MPI or Ostraka. Matrices are in C order; activations
 * are (rows, features), weights (outputs, inputs). `rows` may be 0.
 */
#ifndef DIGITS_NETWORK_H
#define DIGITS_NETWORK_H

#include <stdint.h>

/* y = x w^T + bias */
void dense_forward(int64_t rows, int64_t inputs, int64_t outputs, const float* x, const float* weight,
                   const float* bias, float* y);

/* grad_x = grad_y w */
void dense_backward_input(int64_t rows, int64_t inputs, int64_t outputs, const float* grad_y, const float* weight,
                          float* grad_x);

/* grad_weight = beta * grad_weight + grad_y^T x; with beta = 0 the old contents are not read. */
void dense_backward_weight(int64_t rows, int64_t inputs, int64_t outputs, const float* x, const float* grad_y,
                           double beta, float* grad_weight);

/* grad_bias = beta * grad_bias + column sums of grad_y */
void dense_backward_bias(int64_t rows, int64_t outputs, const float* grad_y, double beta, float* grad_bias);

void relu_forward(int64_t count, float* y);

/* Clears the gradient where the forward result `y` was cut off. */
void relu_backward(int64_t count, const float* y, float* grad_y);

/* Returns the sum of the rows' losses; grad_scores is the gradient of (that sum) / total_rows. */
double cross_entropy(int64_t rows, int64_t classes, const float* scores, const int32_t* labels, int64_t total_rows,
                     float* grad_scores);

/* How many rows have their largest score at their label. */
int64_t count_correct(int64_t rows, int64_t classes, const float* scores, const int32_t* labels);

#endif
