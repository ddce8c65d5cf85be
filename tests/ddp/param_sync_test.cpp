// SPDX-License-Identifier: Apache-2.0
// Gathers of weights after steps of a sharded optimizer (spec 5.4, 6.6).
#include "vectors.hpp"

namespace ostraka::ddp::test {
namespace {

constexpr int buckets = 4; ///< of eight letters: "a", "b" | "c", "d" | ..., in the order of a forward pass

/// Eight letters, a sharded optimizer, gathers ahead; their weights are stale after one step.
class Stale : public Lowered {
public:
  explicit Stale(const buffer::MeshPtr& mesh = make_unchecked_mesh(), Config config = make_config(true))
      : Lowered(mesh, config) {
    step();
    mpi_calls = {};
  }

  /// Gathers that have started since the last step, where MPI tells.
  void expect_gathers(int count, const std::string& what) const {
    if (is_mpi() && ranks > 1) {
      EXPECT_EQ(mpi_calls.of("MPI_Iallgather"), count) << what;
    }
  }
};

TEST(ParamSync, HooksStartTheNextGatherInForwardOrder) {
  Stale v;
  v.expect_gathers(0, "after a step");
  const int started[] = {2, 2, 3, 3, 4, 4, 4, 4};
  for (int i = 0; i < 8; ++i) {
    const std::string module(1, static_cast<char>('a' + i));
    v.ddp->pre_forward(module);
    v.expect_gathers(started[i], "before " + module);
    v.expect_current(module + ".w");
  }
  v.expect_gathers(buckets, "after a forward pass");
  v.step();
  v.expect_gathers(buckets, "after the next step");
  v.expect_all_current();
}

// Issue 950 of the reference: stale weights where execution does not follow registration.
TEST(ParamSync, NeverStaleInAnyOrder) {
  for (const char* order : {"hgfedcba", "dahbgcfe", "eeaahhdd", "h"}) {
    Stale v;
    for (int step = 0; step < 2; ++step) {
      for (const char* module = order; *module != 0; ++module) {
        v.ddp->pre_forward(std::string(1, *module));
        v.expect_current(std::string(1, *module) + ".w");
      }
      for (const char* module = order; *module != 0; ++module)
        v.expect_current(std::string(1, *module) + ".w"); // without a hook
      v.step();
    }
    v.expect_all_current();
  }
}

// Ranks may need different weights, in any order, and some none at all.
TEST(ParamSync, EveryRankReadsWhatItNeeds) {
  for (const bool force_all_reduce : {false, true}) {
    Stale v(make_mesh());
    for (int step = 0; step < 4; ++step) {
      if ((rank + step) % 3 == 0)
        v.expect_current("h.w");
      if ((rank + step) % 3 == 1)
        v.expect_current("b.w");
      v.ddp->zero_grad_buffer();
      v.backward(1);
      v.ddp->finish_grad_sync(force_all_reduce);
      v.optimizer->step();
      ++v.steps;
    }
    v.expect_all_current();
  }
}

// Between steps one rank asks for weights that the others only gather because they call something collective.
TEST(ParamSync, CollectiveCallsHelpAWaitingRank) {
  Stale v(make_mesh());
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"offload_grad_buffers", [&] { v.ddp->offload_grad_buffers(); }},
      {"restore_grad_buffers", [&] { v.ddp->restore_grad_buffers(); }},
      {"broadcast_params", [&] { v.ddp->broadcast_params(); }},
      {"start_param_sync", [&] { v.ddp->start_param_sync(true); }},
      {"start_grad_sync", [&] { v.ddp->start_grad_sync(); }},
      {"finish_grad_sync", [&] { v.ddp->finish_grad_sync(); }}};
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    v.ddp->start_param_sync(true);
    v.ddp->reset_param_sync_dispatch_state();
    if (name == std::string("start_grad_sync")) {
      v.ddp->zero_grad_buffer();
      v.backward(1);
    }
    if (rank == 0)
      v.expect_current("h.w");
    call();
    v.expect_all_current();
  }
}

TEST(ParamSync, ModulesAreNamedByTheirParameters) {
  Lowered v(make_mesh(), make_config(true),
            {vector_of("root", 30), vector_of("net.block.w", 30), vector_of("net.block.deep.w", 30),
             frozen(vector_of("net.fixed.w", 3))});
  v.step();
  for (const char* module : {"", "net", "net.block", "net.block.deep", "net.fixed"})
    v.ddp->pre_forward(module);
  for (const char* module : {"net.block.w", "net.bl", "x", "root"})
    expect_error(Status::INVALID_ARGUMENT, [&] { v.ddp->pre_forward(module); },
                 {"pre_forward", "'" + std::string(module) + "'"});
  v.expect_all_current();
}

TEST(ParamSync, OwnParametersOnly) {
  Lowered v(make_unchecked_mesh(), make_config(true),
            {vector_of("a.w", 50), vector_of("b.w", 50), vector_of("b.c.w", 50), vector_of("d.w", 50)});
  v.step();
  mpi_calls = {};
  v.ddp->pre_forward("b"); // "a", "b", and "b.c" as the next one
  if (is_mpi() && ranks > 1) {
    EXPECT_EQ(mpi_calls.of("MPI_Iallgather"), 3);
  }
  v.expect_all_current();
}

TEST(ParamSync, StartGathersEverything) {
  Stale v;
  v.ddp->start_param_sync();
  v.ddp->start_param_sync(); // in flight
  v.ddp->start_param_sync(true);
  v.expect_gathers(buckets, "after waiting");
  v.expect_all_current();
  v.ddp->start_param_sync(true);
  v.expect_gathers(buckets, "of whole weights");
  v.ddp->start_param_sync(false, true);
  v.expect_all_current();
  v.expect_gathers(2 * buckets, "forced");
}

TEST(ParamSync, WithinTheStepWithoutOverlap) {
  Config config = make_config(true);
  config.overlap_param_gather = false;
  Lowered v(make_unchecked_mesh(), config);
  EXPECT_FALSE(v.ddp->has_forward_pre_hooks());
  for (int step = 0; step < 2; ++step) {
    mpi_calls = {};
    v.step();
    if (is_mpi() && ranks > 1) {
      EXPECT_EQ(mpi_calls.of("MPI_Iallgather"), buckets);
    }
    v.expect_all_current();
    v.ddp->start_param_sync(); // there is nothing to do
  }
}

TEST(ParamSync, WithoutAShardedOptimizerNothing) {
  Lowered v(make_unchecked_mesh(), make_config(false));
  v.step();
  mpi_calls = {};
  v.ddp->start_param_sync(true, true);
  v.ddp->reset_param_sync_dispatch_state();
  v.ddp->enable_forward_pre_hook();
  v.ddp->pre_forward("a");
  v.ddp->ensure_ready("a.w");
  v.ddp->disable_forward_pre_hook();
  v.ddp->free_overlap_buffers();
  EXPECT_TRUE(mpi_calls.number.empty());
  v.expect_all_current();
}

TEST(ParamSync, HooksOff) {
  if (ranks == 1)
    GTEST_SKIP() << "the weights of one rank are never stale";
  Stale v;
  EXPECT_TRUE(v.ddp->has_forward_pre_hooks());
  expect_error(Status::INVALID_STATE, [&] { v.ddp->enable_forward_pre_hook(); }, {"enabled already"});
  v.ddp->disable_forward_pre_hook(); // brings weights up to date
  v.expect_gathers(buckets, "after hooks were disabled");
  expect_error(Status::INVALID_STATE, [&] { v.ddp->disable_forward_pre_hook(); }, {"disabled already"});
  v.expect_all_current();
  v.step(); // and leaves them stale
  mpi_calls = {};
  v.ddp->pre_forward("a");
  v.ddp->ensure_ready("a.w");
  v.expect_gathers(0, "with hooks disabled");
  expect_error(Status::INVALID_STATE, [&] { v.ddp->parameter("a.w", DType::f64); },
               {"parameter 'a.w'", "hooks are disabled", "start_param_sync"});
  v.ddp->start_param_sync();
  v.expect_all_current();
  v.step();
  v.ddp->enable_forward_pre_hook();
  v.ddp->disable_forward_pre_hook(false);
  expect_error(Status::INVALID_STATE, [&] { v.ddp->parameter("a.w", DType::f64); }, {"'a.w'"});
  v.ddp->enable_forward_pre_hook();
  v.expect_all_current();
}

TEST(ParamSync, ResetMakesWeightsStale) {
  if (ranks == 1)
    GTEST_SKIP() << "the weights of one rank are never stale";
  Stale v;
  v.ddp->start_param_sync(true);
  v.ddp->reset_param_sync_dispatch_state();
  mpi_calls = {};
  v.expect_current("a.w");
  v.expect_gathers(1, "after a reset");
  v.ddp->start_param_sync();
  expect_error(Status::INVALID_STATE, [&] { v.ddp->reset_param_sync_dispatch_state(); },
               {"being gathered", "force_sync"});
  v.expect_all_current();
  v.step();
  v.expect_all_current();
}

TEST(ParamSync, FreeWaits) {
  for (const auto& mesh : {make_mesh(), make_plane()}) {
    Stale v(mesh);
    v.ddp->free_overlap_buffers(); // nothing is in flight
    v.ddp->start_param_sync();
    v.ddp->free_overlap_buffers();
    EXPECT_NO_THROW(v.ddp->reset_param_sync_dispatch_state()) << "in flight";
    v.expect_all_current();
    v.step();
    v.ddp->start_param_sync();
    v.expect_all_current();
  }
}

TEST(ParamSync, StaleWeightsAreNotSet) {
  if (ranks == 1)
    GTEST_SKIP() << "the weights of one rank are never stale";
  Stale v;
  const auto set = [&] { v.set("a.w", 5); };
  expect_error(Status::INVALID_STATE, set, {"set_parameter 'a.w'", "stale", "start_param_sync(force_sync)"});
  v.ddp->start_param_sync();
  expect_error(Status::INVALID_STATE, set, {"set_parameter 'a.w'"});
  v.ddp->start_param_sync(true);
  v.set("a.w", 5);
  v.step();
  v.expect_weight("a.w", 4);
}

// --- the callback

TEST(Callback, PublishesOnDemand) {
  Stale v;
  const auto a = v.ddp->ready_callback("a.w"), b = v.ddp->ready_callback("b.w"), d = v.ddp->ready_callback("d.w");
  const auto* weight = v.ddp->parameter("a.w", DType::f64); // published from here on
  const auto* of_d = v.ddp->parameter("d.w", DType::f64);
  v.step();
  mpi_calls = {};
  a(); // starts a gather
  v.expect_gathers(1, "of a, without the next one");
  EXPECT_EQ(elements_at(weight, 30, DType::f64), constant(30, 1.0 - v.steps));
  a(); // is published
  b(); // with it
  v.expect_gathers(1, "of a again, and of b");
  v.ddp->start_param_sync();
  d(); // is in flight
  EXPECT_EQ(elements_at(of_d, 30, DType::f64), constant(30, 4.0 - v.steps));
  v.expect_all_current();
  v.expect_gathers(buckets, "of all");
}

TEST(Callback, StartsNothingWithoutHooks) {
  if (ranks == 1)
    GTEST_SKIP() << "the weights of one rank are never stale";
  Stale v;
  const auto a = v.ddp->ready_callback("a.w"), c = v.ddp->ready_callback("c.w");
  v.ddp->pre_forward("a"); // "c" is in flight now
  v.step();
  v.ddp->pre_forward("a");
  v.ddp->disable_forward_pre_hook(false);
  mpi_calls = {};
  c(); // waits, and starts nothing else
  v.expect_gathers(0, "with hooks disabled");
  v.expect_current("c.w");
  expect_error(Status::INVALID_STATE, [&] { v.expect_current("e.w"); }, {"'e.w'"});
  v.ddp->ready_callback("e.w")();
  expect_error(Status::INVALID_STATE, [&] { v.expect_current("e.w"); }, {"'e.w'"});
  a();
}

TEST(Callback, DoesNothingWithoutItsOwner) {
  auto v = std::make_unique<Stale>();
  const auto a = v->ddp->ready_callback("a.w");
  const std::weak_ptr<DistributedDataParallel> owner = v->ddp;
  v.reset();
  EXPECT_TRUE(owner.expired()); // the callback does not keep it
  a();
  a();
}

TEST(Callback, DoesNothingForFrozenParameters) {
  Lowered v(make_unchecked_mesh(), make_config(true), {vector_of("a.w", 30), frozen(vector_of("a.fixed", 30))});
  v.step();
  mpi_calls = {};
  v.ddp->ready_callback("a.fixed")();
  EXPECT_TRUE(mpi_calls.number.empty());
  v.expect_all_current();
  expect_error(Status::INVALID_ARGUMENT, [&] { v.ddp->ready_callback("b.w"); }, {"ready_callback", "'b.w'", "'a.w'"});
}

} // namespace
} // namespace ostraka::ddp::test
