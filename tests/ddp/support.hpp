// SPDX-License-Identifier: Apache-2.0
// Meshes, configurations and comparisons for tests of DistributedDataParallel.
#pragma once

#include "support/any_memory.hpp"
#include "support/expect_error.hpp"
#include "support/mpi_calls.hpp"
#include "support/on_stream.hpp"
#include "support/rounds.hpp"
#include "support/scoped_environment.hpp"
#include "support/world.hpp"
#include <ostraka/ddp/distributed_data_parallel.hpp>
#include <ostraka/optim/optimizer.hpp>
#include <ostraka/runtime/progress.hpp>

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace ostraka::ddp::test {

using namespace ostraka::test;
using DdpPtr = std::shared_ptr<DistributedDataParallel>;

/// All ranks on one axis. Memory that nobody wrote, or that was released, is NaN from here on, unless the environment
/// says otherwise.
inline buffer::MeshPtr make_mesh() {
  setenv("OSTRAKA_CHECK", "1", 0);
  return mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks});
}

/// Where ranks compare nothing before they start an operation, which they do when they are told to.
inline buffer::MeshPtr make_unchecked_mesh(std::vector<int> sizes = {ranks}) {
  const ScopedEnvironment unchecked("OSTRAKA_CHECK", "0");
  return mesh::DeviceMesh::create(MPI_COMM_WORLD, std::move(sizes));
}

/// Two rows of half of the ranks each, where that is possible, else one row.
inline buffer::MeshPtr make_plane() {
  setenv("OSTRAKA_CHECK", "1", 0);
  const int outer = ranks % 2 == 0 ? 2 : 1;
  return mesh::DeviceMesh::create(MPI_COMM_WORLD, {outer, ranks / outer});
}

/// Whether ranks of the mesh talk by MPI alone, so that it sees all that is communicated.
inline bool is_mpi() {
  const char* backend = std::getenv("OSTRAKA_BACKEND");
  return backend != nullptr && std::string(backend) == "mpi";
}

/// Buckets of at most a few parameters.
inline Config make_config(bool sharded, bool overlap = true) {
  Config config;
  config.bucket_size = 40;
  config.sharded_optimizer = sharded;
  config.overlap_grad_reduce = overlap;
  config.overlap_param_gather = sharded && overlap;
  return config;
}

/// Calls body(config) with and without a sharded optimizer and overlap.
template <class Body>
void for_all_configs(Body&& body) {
  for (const bool sharded : {false, true})
    for (const bool overlap : {true, false}) {
      SCOPED_TRACE(std::string(sharded ? "sharded" : "all-reduce") + (overlap ? ", overlap" : ""));
      body(make_config(sharded, overlap));
    }
}

/// |found - expected| <= tolerance * (1 + |expected|) for all elements; says where not.
inline void expect_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!(std::abs(found[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])))) {
      ADD_FAILURE() << what << ", element " << i << ": expected " << expected[i] << ", found " << found[i];
      return;
    }
}

/// 1 + 2 + ... + ranks.
inline double sum_of_ranks() { return ranks * (ranks + 1) / 2.0; }

/// Waits for a request of a test while the library goes on: peers may need that.
inline void finish(MPI_Request request) {
  runtime::wait_until(
      [&] {
        int is_done = 0;
        MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
        return is_done != 0;
      },
      "communication of the test");
}

inline std::int64_t sum_over_ranks(std::int64_t value) {
  MPI_Request request = MPI_REQUEST_NULL;
  std::int64_t sum = 0;
  MPI_Iallreduce(&value, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, &request);
  finish(request);
  return sum;
}

/// What a caller does with a gradient: data = beta * data + values.
inline void add_elements(const DistributedDataParallel::Gradient& place, const std::vector<double>& values,
                         DType dtype) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto k = static_cast<std::int64_t>(i);
    set_element(place.data, k, dtype,
                place.beta == 0 ? values[i] : place.beta * element(place.data, k, dtype) + values[i]);
  }
}

/// `action` fails on every rank with one and the same text. Collective.
template <class Action>
void expect_error_everywhere(Status status, Action&& action, std::initializer_list<std::string> parts = {}) {
  std::string text;
  expect_error(
      status,
      [&] {
        try {
          action();
        } catch (const Error& error) {
          text = error.what();
          throw;
        }
      },
      parts);
  std::string first = text;
  auto size = static_cast<int>(text.size());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
  finish(request);
  first.resize(static_cast<std::size_t>(size));
  MPI_Ibcast(first.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
  finish(request);
  EXPECT_EQ(text, first) << "other ranks got another error";
}

} // namespace ostraka::ddp::test
