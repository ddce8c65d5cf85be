// SPDX-License-Identifier: Apache-2.0
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <mpi.h>

#include <optional>
#include <vector>

namespace {
std::optional<ostraka::runtime::Session> session;
}

extern "C" int open_cpp() {
  session.emplace();
  return ostraka::runtime::is_initialized();
}

/// Sums ones over the ranks; then stops.
extern "C" int close_cpp() {
  using namespace ostraka;
  bool right = false;
  {
    const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {2});
    const double ones[4] = {1, 1, 1, 1};
    const std::vector<const void*> tensors{ones};
    const auto whole = buffer::DBuffer::distribute_tensors(tensors, {{4}}, DType::f64, mesh, {layout::replicate()});
    const auto sum = whole.view({layout::partial()}).reduce_scatter(0);
    const auto part = sum.tensor_range(0);
    right = part.count == 2 && static_cast<const double*>(part.data)[0] == 2;
  }
  session.reset();
  return right;
}
