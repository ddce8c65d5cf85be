/* SPDX-License-Identifier: Apache-2.0 */
/* A module with one weight, sharded over all ranks, and one step of gradient descent: mpiexec -n 4 first_step */
#include <ostraka/ostraka.h>

#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define CHECK(call)                                                                                                    \
  (void)((call) == OSTRAKA_OK || (fprintf(stderr, "%s\n", ostraka_last_error()), MPI_Abort(MPI_COMM_WORLD, 1)))
enum { N = 6 };

/* The mean over ranks of |w - target|^2 / 2, where each rank has a target of its own. Leaves its gradient in `grad`. */
static double loss(ostraka_fsdp_module_t module, int32_t rank, int32_t size, float grad[N]) {
  const void* w;
  int64_t count;
  double sum = 0;
  CHECK(ostraka_fsdp_module_pre_forward(module)); /* the weight is whole from here ... */
  CHECK(ostraka_fsdp_module_parameter(module, "w", OSTRAKA_F32, &w, &count));
  for (int k = 0; k < N; ++k) {
    grad[k] = ((const float*)w)[k] - (float)(k + rank);
    sum += 0.5 * grad[k] * grad[k] / size;
  }
  CHECK(ostraka_fsdp_module_post_forward(module)); /* ... to here */
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

int main(int argc, char** argv) {
  int32_t rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ostraka_mesh_t mesh;
  ostraka_fsdp_context_t context;
  ostraka_fsdp_module_t module;
  ostraka_optimizer_t optimizer;
  const ostraka_shape_t shape = {1, (const int64_t[]){N}};
  CHECK(ostraka_initialize());
  CHECK(ostraka_mesh_create(MPI_COMM_WORLD, 1, &size, NULL, &mesh));
  CHECK(ostraka_fsdp_context_create(mesh, NULL, &context)); /* sharded; gradients are averaged over ranks */
  CHECK(ostraka_fsdp_context_add_module(context, "model", &module));
  CHECK(ostraka_fsdp_module_add_parameter(module, "w", shape, OSTRAKA_F32, 1));
  CHECK(ostraka_fsdp_module_build(module)); /* w = 0 */
  CHECK(ostraka_fsdp_context_finalize(context));
  CHECK(ostraka_sgd_create(context, NULL, &optimizer));
  CHECK(ostraka_optimizer_set_learning_rate(optimizer, 0.5));
  void* grad;
  int64_t count;
  double beta;
  float local[N];
  const double before = loss(module, rank, size, local);
  CHECK(ostraka_fsdp_module_pre_backward(module));
  CHECK(ostraka_fsdp_module_gradient(module, "w", OSTRAKA_F32, &grad, &count, &beta));
  memcpy(grad, local, sizeof local);                    /* the first contribution: beta is 0 */
  CHECK(ostraka_fsdp_module_post_backward(module));     /* the reduction over ranks starts ... */
  CHECK(ostraka_fsdp_context_finish_backward(context)); /* ... and is complete */
  CHECK(ostraka_optimizer_step(optimizer));
  CHECK(ostraka_fsdp_context_zero_grad(context));       /* the step does not do it: without it gradients add up */
  CHECK(ostraka_fsdp_context_begin_inference(context)); /* forward passes without backward passes */
  const double after = loss(module, rank, size, local);
  CHECK(ostraka_fsdp_context_end_inference(context));
  if (rank == 0)
    printf("loss before %g, after %g\n", before, after);
  CHECK(ostraka_optimizer_destroy(&optimizer));
  CHECK(ostraka_fsdp_context_destroy(&context));
  CHECK(ostraka_mesh_destroy(&mesh));
  CHECK(ostraka_finalize());
  MPI_Finalize();
}
