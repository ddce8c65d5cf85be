// SPDX-License-Identifier: Apache-2.0
// Weights that ranks have together: compared in the first step, broadcast, and updated by somebody.
#include "vectors.hpp"

namespace ostraka::ddp::test {
namespace {

TEST(Weights, DifferentOnesAreFoundInTheFirstStep) {
  const auto mesh = make_mesh();
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  for_all_configs([&](const Config& config) {
    Lowered v(mesh, config);
    if (rank == ranks - 1)
      v.set("b.w", 77);
    v.backward(1);
    expect_error_everywhere(Status::RANKS_DISAGREE, [&] { v.ddp->finish_grad_sync(); },
                            {"different weights", ": 'b.w'", "broadcast_params"});
    v.ddp->broadcast_params();
    for (int step = 0; step < 2; ++step)
      v.step();
    v.expect_all_current();
  });
}

TEST(Weights, DifferentFrozenOnesAreFound) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  Lowered v(make_mesh(), make_config(false), {vector_of("a.w", 3), frozen(vector_of("a.fixed", 3, DType::f32))});
  if (rank == 0)
    v.set("a.fixed", 7);
  v.backward(1);
  expect_error_everywhere(Status::RANKS_DISAGREE, [&] { v.ddp->finish_grad_sync(); }, {"'a.fixed'"});
  v.ddp->broadcast_params();
  v.step();
  v.expect_weight("a.fixed", 7);
}

// One rank has started reductions when the others start to compare.
TEST(Weights, AreComparedWhereARankIsLate) {
  const auto mesh = make_mesh();
  for (const bool sharded : {false, true}) {
    Vectors v(mesh, make_config(sharded), letters(6));
    for (const char* name : {"f.w", "e.w", "d.w", "c.w", "b.w", "a.w"})
      if (rank != ranks - 1 || std::string(name) != "c.w")
        v.contribute(name, 1);
    expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->finish_grad_sync(); }, {"'c.w'"});
    v.expect_usable("a late rank");
  }
}

TEST(Weights, BroadcastReachesMainWeights) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Lowered v(mesh, config,
              {vector_of("a.w", 70, DType::bf16), vector_of("b.w", 70, DType::f32),
               frozen(vector_of("b.fixed", 9, DType::bf16))});
    v.step();
    v.ddp->start_param_sync(true);
    for (const ParameterSpec& spec : v.specs())
      v.set(spec.name, 100 + rank + 1.0 / 256); // bf16 keeps 100
    v.ddp->broadcast_params();
    v.expect_weight("a.w", 100);
    v.expect_weight("b.w", 100 + 1.0 / 256);
    v.expect_weight("b.fixed", 100);
    for (int step = 0; step < 3; ++step)
      v.step();
    v.expect_weight("a.w", 97);
    v.expect_weight("b.w", 97 + 1.0 / 256);
  });
}

// After a step, without anybody having asked for weights.
TEST(Weights, BroadcastOfStaleOnes) {
  Lowered v(make_mesh(), make_config(true));
  v.step();
  v.ddp->broadcast_params();
  v.expect_all_current();
}

TEST(Weights, BroadcastIsRefusedOnAllRanksInFlight) {
  const auto mesh = make_mesh();
  for (const bool sharded : {false, true}) {
    Vectors v(mesh, make_config(sharded), letters(4));
    if (rank == 0)
      v.backward(1);
    expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->broadcast_params(); },
                            {"rank 0", "broadcast_params", "finish_grad_sync"});
    expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->offload_grad_buffers(); },
                            {"rank 0", "offload_grad_buffers", "finish_grad_sync"});
    if (rank != 0)
      v.backward(1);
    v.ddp->finish_grad_sync();
    v.expect_gradients(1);
    v.ddp->broadcast_params();
  }
}

// A caller that updates weights itself, on all ranks alike.
TEST(Weights, CallersMayUpdateThem) {
  Vectors v(make_mesh(), make_config(false), letters(3));
  for (int step = 0; step < 2; ++step) {
    v.ddp->zero_grad_buffer();
    v.backward(rank + 1);
    v.ddp->finish_grad_sync();
    for (const ParameterSpec& spec : v.specs()) {
      on_stream(v.ddp->mesh()->device(),
                [weight = static_cast<double*>(v.ddp->parameter(spec.name, DType::f64)),
                 gradient = static_cast<const double*>(v.ddp->main_gradient(spec.name, DType::f64).data)] {
                  for (int k = 0; k < 30; ++k)
                    weight[k] -= gradient[k];
                });
    }
  }
  v.expect_weight("c.w", 3 - 2 * sum_of_ranks() / ranks);
}

TEST(Weights, StatesOutliveTheirOwnerAndRefuse) {
  const auto mesh = make_mesh();
  auto v = std::make_unique<Lowered>(mesh, make_config(true));
  v->step();
  const auto optimizer = std::move(v->optimizer);
  v.reset();
  expect_error(Status::INVALID_STATE, [&] { optimizer->step(); }, {"destroyed"});
}

} // namespace
} // namespace ostraka::ddp::test
