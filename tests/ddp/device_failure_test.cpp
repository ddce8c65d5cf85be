// SPDX-License-Identifier: Apache-2.0
// NCCL finds some errors when an operation is queued already. Last of its program: it leaves operations behind that
// never complete.
#include "network.hpp"
#include "support/double/double.hpp"

namespace ostraka::ddp::test {
namespace {

TEST(DdpDeviceFailures, WhatNcclFindsLateIsTheEnd) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0"), limit("OSTRAKA_TIMEOUT_S", "1");
  if (ranks == 1)
    GTEST_SKIP() << "one rank has nothing to communicate";
  const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks}, {}, runtime::Device::cuda);
  Training training(mesh, {});
  training.step();
  cuda_double::fail_next_operation();
  const auto run = [&] {
    for (int step = 0; step < 50; ++step) // until somebody asks NCCL
      training.step();
  };
  try {
    run();
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) { // of NCCL, or that of a peer who waits for this rank
    const Status found = error.status();
    EXPECT_TRUE(found == Status::COMMUNICATION || found == Status::FAILED || found == Status::TIME_OUT) << error.what();
  }
  expect_error(Status::FAILED, [&] { training.step(); }, {"destroyed"});
  training.destroy();
  MPI_Barrier(MPI_COMM_WORLD);
}

} // namespace
} // namespace ostraka::ddp::test
