// SPDX-License-Identifier: Apache-2.0
// Ranks of one node that keep the same part of the weights.
#include "vectors.hpp"

#include <chrono>
#include <thread>

namespace ostraka::fsdp::test {
namespace {

// On eight ranks and nodes of three, ranks 3 and 5 gather the same part into the same memory, over lines of their own.
TEST(MeshRecipes, AnUpdateIsNotUndoneByAGatherAhead) {
  if (ranks != 8)
    GTEST_SKIP() << "needs three axes";
  setenv("OSTRAKA_CHECK", "1", 1);
  const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {2, 2, 2});
  const auto context = FsdpContext::create(mesh, make_config(Recipe::hfsdp, layout::ReduceOp::sum));
  FsdpModule& a = with_vectors(context->add_module("a"), {{"w", 60}});
  FsdpModule& b = with_vectors(context->add_module("b"), {{"w", 60}});
  context->finalize();
  const auto sgd = optim::make_sgd(context->named_states(), {.learning_rate = 1});
  for (int round = 1; round <= 16; ++round) {
    context->zero_grad();
    forward(a); // b is gathered with it
    if (rank == round % ranks)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    b.set_parameter("w", constant(60, round).data(), 60, DType::f64);
    MPI_Barrier(MPI_COMM_WORLD);
    b.pre_forward();
    const auto found = elements(b.parameter("w", DType::f64), 60, DType::f64);
    EXPECT_EQ(found, constant(60, round)) << "round " << round;
    b.post_forward();
    backward(b, 0.125);
    backward(a, 0.125);
    context->finish_backward();
    sgd->step(); // b is gathered anew in the next round
  }
}

} // namespace
} // namespace ostraka::fsdp::test
