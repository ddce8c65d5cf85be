// SPDX-License-Identifier: Apache-2.0
// What reductions leave in gradient buffers, with values that say which ranks were summed.
#include "support/elements.hpp"
#include "support/expect_error.hpp"
#include "support/world.hpp"
#include <ostraka/ddp/distributed_data_parallel.hpp>

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <memory>
#include <vector>

namespace ostraka::ddp::test {
namespace {

using namespace ostraka::test;

std::shared_ptr<DistributedDataParallel> make(const Config& config) {
  setenv("OSTRAKA_CHECK", "1", 1);
  const auto ddp = DistributedDataParallel::create(mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks}), config);
  for (int i = 0; i < 4; ++i)
    ddp->add_parameter({"layer" + std::to_string(i) + ".weight", {100, 3}, DType::f64});
  ddp->finalize();
  return ddp;
}

void fill(DistributedDataParallel& ddp, int i, double value) {
  const std::string name = "layer" + std::to_string(i) + ".weight";
  const auto [data, beta] = ddp.gradient(name, DType::f64);
  for (int k = 0; k < 300; ++k) {
    double& element = static_cast<double*>(data)[k];
    element = (beta == 0 ? 0 : beta * element) + value;
  }
  ddp.gradient_ready(name);
}

TEST(GradSync, MeanOfRanks) {
  for (const bool overlap : {true, false})
    for (const bool sharded : {false, true}) {
      Config config;
      config.bucket_size = 500;
      config.overlap_grad_reduce = overlap;
      config.sharded_optimizer = sharded;
      const auto ddp = make(config);
      for (int step = 0; step < 3; ++step) {
        ddp->zero_grad_buffer();
        {
          const auto scope = ddp->no_sync();
          for (int i = 3; i >= 0; --i)
            fill(*ddp, i, 100);
        }
        for (int i = 3; i >= 0; --i)
          fill(*ddp, i, i + rank + step);
        ddp->finish_grad_sync();
        for (int i = 0; i < 4; ++i) {
          const auto range = ddp->main_gradient("layer" + std::to_string(i) + ".weight", DType::f64);
          std::int64_t total = range.count;
          MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
          EXPECT_EQ(total, sharded ? 300 : 300 * ranks);
          for (std::int64_t k = 0; k < range.count; ++k)
            EXPECT_DOUBLE_EQ(static_cast<double*>(range.data)[k], 100 + i + step + (ranks - 1) / 2.0);
        }
      }
    }
}

TEST(GradSync, MissingGradientIsNamed) {
  const auto ddp = make({});
  for (int i : {3, 2, 0})
    fill(*ddp, i, 1);
  expect_error(Status::INVALID_STATE, [&] { ddp->finish_grad_sync(); }, {"layer1.weight"});
  for (int i : {3, 2, 1, 0})
    fill(*ddp, i, 1);
  ddp->finish_grad_sync();
}

} // namespace
} // namespace ostraka::ddp::test
