// SPDX-License-Identifier: Apache-2.0
// Views of a replicated buffer, summed by Kokkos.
#include <ostraka/buffer/kokkos_view.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <mpi.h>

#include <cstdio>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  double sum = 0;
  {
    using namespace ostraka;
    const runtime::Session session;
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks});
    const auto buffer = buffer::DBuffer::empty(mesh, {layout::replicate()}, {{3, 4}}, DType::f64);
    const auto matrix = buffer::tensor_view<double, 2>(buffer, 0);
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j)
        matrix(i, j) = 4 * i + j;
    const auto local = buffer::tensor_range<double>(buffer, 0);
    Kokkos::parallel_reduce(
        Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, 12),
        KOKKOS_LAMBDA(int k, double& part) { part += local(k); }, sum);
  }
  if (sum == 66)
    std::printf("views are right\n");
  MPI_Finalize();
  return sum == 66 ? 0 : 1;
}
