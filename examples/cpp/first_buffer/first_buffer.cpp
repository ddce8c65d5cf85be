// SPDX-License-Identifier: Apache-2.0
// Two tensors sharded by rows over all ranks, gathered, and reduced. Run: mpiexec -n 4 first_buffer
#include <ostraka/base/error.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <mpi.h>

#include <cstdio>
#include <numeric>
#include <vector>

using namespace ostraka;

namespace {

void run() {
  const runtime::Session session;
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks});

  std::vector<double> matrix(5 * 3), vector(7);
  std::iota(matrix.begin(), matrix.end(), 0.0);
  std::iota(vector.begin(), vector.end(), 100.0);
  const std::vector<const void*> tensors{matrix.data(), vector.data()};

  // Every rank passes whole tensors and keeps its rows.
  const auto sharded =
      buffer::DBuffer::distribute_tensors(tensors, {{5, 3}, {7}}, DType::f64, mesh, {layout::shard()});
  const buffer::TensorView rows = sharded.tensor_view(0);
  std::printf("rank %d holds %lld of 5 rows, from row %lld on\n", mesh->rank(), static_cast<long long>(rows.shape[0]),
              static_cast<long long>(rows.first_row));

  const buffer::DBuffer whole = sharded.allgather(0);
  const auto* gathered = static_cast<const double*>(whole.tensor_view(0).data);
  expect(std::equal(matrix.begin(), matrix.end(), gathered), Status::INTERNAL, "first_buffer: the gather is wrong");

  // The same values on every rank, summed and scattered: every element becomes `ranks` times itself.
  const buffer::DBuffer summed = whole.view({layout::partial()}).reduce_scatter(0);
  const buffer::TensorRange own = summed.tensor_range(1);
  for (std::int64_t i = 0; i < own.count; ++i)
    expect(static_cast<const double*>(own.data)[i] == ranks * vector[own.offset + i], Status::INTERNAL,
           "first_buffer: the sum is wrong");
  if (mesh->rank() == 0)
    std::printf("gathered and reduced: right\n");
}

} // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    run();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", name(error.status()), error.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}
