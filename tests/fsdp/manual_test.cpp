// SPDX-License-Identifier: Apache-2.0
// Recomputation inside a backward pass, and schedules without hooks.
#include "vectors.hpp"

namespace ostraka::fsdp::test {
namespace {

using Phase = FsdpModule::Phase;

TEST(Recompute, SegmentsBeforeTheirBackwardPass) { // {0, 1} and {2, 3}
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Layers t(mesh, recipe);
    for (int step = 0; step < 3; ++step) {
      t.context->zero_grad();
      t.forward_all();
      t.context->begin_backward();
      for (const int segment : {2, 0}) {
        for (const int k : {segment, segment + 1}) {
          t.layers[k]->pre_forward();
          EXPECT_EQ(t.layers[k]->phase(), Phase::forward);
          t.expect_readable(k);
          t.layers[k]->post_forward();
          EXPECT_EQ(t.layers[k]->phase(), Phase::resting);
        }
        for (const int k : {segment + 1, segment}) {
          t.layers[k]->pre_backward();
          t.expect_readable(k);
          write(*t.layers[k], "w", k + 1);
          t.layers[k]->post_backward();
        }
      }
      t.context->finish_backward();
      for (int k = 0; k < 4; ++k)
        expect_gradient(*t.layers[k], "w", ranks * (k + 1.0));
    }
    EXPECT_EQ(t.context->memory().transient, 0);
  }
}

TEST(Recompute, KeepsWeightsAndGathersNothingAhead) {
  const auto mesh = make_mesh();
  Layers t(mesh, Recipe::zero_3);
  t.forward_all();
  t.context->begin_backward();
  t.expect_gathered(0);
  t.layers[2]->pre_forward();
  t.expect_gathered(1); // and not the next
  t.layers[2]->post_forward();
  t.expect_gathered(1); // kept
  t.layers[3]->pre_forward();
  t.layers[3]->post_forward();
  t.expect_gathered(2);
  backward(*t.layers[3], 1); // gathers ahead 2, which is there
  t.context->fail_step("enough");
  expect_error(Status::USER_FAILURE, [&] { t.context->finish_backward(); });
  t.expect_gathered(0);
}

TEST(Recompute, InsideTheBackwardPhase) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Layers t(mesh, recipe);
    t.forward_all();
    for (int k = 3; k >= 0; --k) {
      FsdpModule& layer = *t.layers[k];
      layer.pre_backward();
      layer.pre_forward();
      EXPECT_EQ(layer.phase(), Phase::backward);
      expect_error(Status::INVALID_STATE, [&] { layer.pre_forward(); }, {"recomputed"});
      expect_error(Status::INVALID_STATE, [&] { layer.post_backward(); }, {"recomputed", "post_forward"});
      layer.post_forward();
      EXPECT_EQ(layer.phase(), Phase::backward);
      t.expect_readable(k);
      write(layer, "w", 2);
      layer.post_backward();
    }
    t.context->finish_backward();
    t.expect_gradients(2 * ranks);
  }
}

TEST(Recompute, OnlyWhatIsStillToGoBackward) {
  const auto mesh = make_mesh();
  Layers t(mesh, Recipe::zero_3);
  t.layers[0]->pre_forward();
  expect_error(Status::INVALID_STATE, [&] { t.context->begin_backward(); }, {"'layer0'", "post_forward"});
  t.layers[0]->post_forward();
  for (const int k : {1, 2, 3})
    forward(*t.layers[k]);
  backward(*t.layers[3], 1);
  expect_error(Status::INVALID_STATE, [&] { t.layers[3]->pre_forward(); }, {"'layer3'", "finish_backward"});
  t.layers[2]->pre_forward();
  expect_error(Status::INVALID_STATE, [&] { t.layers[2]->pre_forward(); }, {"'layer2'"});
  expect_error(Status::INVALID_STATE, [&] { t.layers[2]->pre_backward(); }, {"'layer2'", "found forward"});
  t.layers[2]->post_forward();
  for (const int k : {2, 1, 0})
    backward(*t.layers[k], 1);
  t.context->finish_backward(); // a recomputation is no use that has to go backward
  t.expect_gradients(ranks);
}

// A rank that fails takes part in the recomputations of the others.
TEST(Recompute, FailuresAnywhere) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Layers t(mesh, recipe);
    const auto pass = [&](int stop) {
      int event = 0;
      if (event++ == stop)
        return false;
      t.forward_all();
      t.context->begin_backward();
      for (int k = 3; k >= 0; --k) {
        for (const auto hook : {&FsdpModule::pre_forward, &FsdpModule::post_forward, &FsdpModule::pre_backward}) {
          if (event++ == stop)
            return false;
          (t.layers[k]->*hook)();
        }
        write(*t.layers[k], "w", 1);
        if (event++ == stop)
          return false;
        t.layers[k]->post_backward();
      }
      return true;
    };
    for (int stop = -1; stop < 17; ++stop) {
      SCOPED_TRACE("event " + std::to_string(stop));
      t.context->zero_grad();
      if (stop >= 0) {
        if (!pass(rank == stop % ranks ? stop : -1))
          t.context->fail_step("stopped");
        expect_error(Status::USER_FAILURE, [&] { t.context->finish_backward(); }, {"stopped"});
      }
      pass(-1);
      t.context->finish_backward();
      t.expect_gradients(ranks);
    }
  }
}

// --- without hooks

TEST(Manual, AStepWithoutHooks) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const bool looks_ahead : {false, true}) {
      Layers t(mesh, recipe);
      using Ahead = FsdpModule::Ahead;
      for (int step = 0; step < 2; ++step) {
        t.context->zero_grad();
        for (int k = 0; k < 4; ++k) {
          t.layers[k]->unshard(looks_ahead ? Ahead::forward : Ahead::none);
          t.expect_readable(k);
          t.layers[k]->reshard();
        }
        for (int k = 3; k >= 0; --k) {
          t.layers[k]->unshard(looks_ahead ? Ahead::backward : Ahead::none);
          EXPECT_EQ(write(*t.layers[k], "w", 1), 0);
          EXPECT_EQ(write(*t.layers[k], "w", 2), 1);
          expect_error(Status::INVALID_STATE, [&] { t.layers[k]->reshard(); }, {"reduce_gradients"});
          expect_error(Status::INVALID_STATE, [&] { t.context->zero_grad(); }, {"finish_backward"});
          t.layers[k]->reduce_gradients();
          t.layers[k]->reshard();
        }
        t.context->finish_backward();
        t.expect_gradients(3 * ranks);
        EXPECT_EQ(t.context->memory().transient, 0);
      }
    }
}

TEST(Manual, WhatUnshardGathersAhead) {
  const auto mesh = make_mesh();
  Layers t(mesh, Recipe::zero_3);
  using Ahead = FsdpModule::Ahead;
  const auto expect_ahead = [&](int k, Ahead ahead, int gathered) {
    t.layers[k]->unshard(ahead);
    t.expect_gathered(gathered);
    t.layers[k]->reshard();
    t.context->finish_backward(); // lets go what was gathered ahead
    t.expect_gathered(0);
  };
  expect_ahead(1, Ahead::none, 1);
  expect_ahead(1, Ahead::forward, 2);
  expect_ahead(3, Ahead::forward, 1);
  expect_ahead(3, Ahead::backward, 2);
  expect_ahead(0, Ahead::backward, 1);
  expect_error(Status::INVALID_ARGUMENT, [&] { t.layers[0]->unshard(static_cast<Ahead>(3)); }, {"'layer0'", "3"});
}

// Several reductions of a module in one micro-batch add up, where gradients are sharded.
TEST(Manual, SeveralReductions) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Layers t(mesh, recipe);
    for (FsdpModule* layer : t.layers) {
      layer->unshard();
      write(*layer, "w", 1);
      layer->reduce_gradients();
    }
    if (recipe == Recipe::no_shard) {
      expect_error(Status::INVALID_STATE, [&] { t.layers[0]->gradient("w", DType::f64); }, {"'layer0'", "zero_grad"});
      expect_error(Status::INVALID_STATE, [&] { t.layers[0]->reduce_gradients(); }, {"'layer0'", "zero_grad"});
    } else {
      EXPECT_EQ(write(*t.layers[0], "w", 5), 0);
      t.layers[0]->reduce_gradients();
    }
    for (FsdpModule* layer : t.layers)
      layer->reshard();
    t.context->finish_backward();
    expect_gradient(*t.layers[0], "w", recipe == Recipe::no_shard ? ranks : 6 * ranks);
    expect_gradient(*t.layers[1], "w", ranks);
  }
}

TEST(Manual, Mistakes) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Layers t(mesh, recipe);
    FsdpModule& layer = *t.layers[0];
    expect_error(Status::INVALID_STATE, [&] { layer.gradient("w", DType::f64); }, {"gradient", "backward phase"});
    layer.unshard();
    write(layer, "w", 1); // and forgets the reduction
    expect_error(Status::INVALID_STATE, [&] { t.context->finish_backward(); }, {"'layer0'", "reduce_gradients"});
    layer.reshard(); // it was dropped
    layer.unshard();
    layer.reduce_gradients(); // nothing was written
    layer.reshard();
    expect_error(Status::INVALID_STATE, [&] { t.context->finish_backward(); }, {"'layer0'", "'w'", "no gradient"});
    layer.pre_forward();
    expect_error(Status::INVALID_STATE, [&] { layer.reduce_gradients(); }, {"'layer0'", "found forward"});
    layer.post_forward();
    t.context->begin_inference();
    expect_error(Status::INVALID_STATE, [&] { layer.reduce_gradients(); }, {"'layer0'", "inference"});
    layer.unshard();
    expect_error(Status::INVALID_STATE, [&] { layer.gradient("w", DType::f64); }, {"gradient"});
    layer.reshard();
    t.context->end_inference();
    t.context->finish_backward();
    t.forward_all();
    for (int k = 3; k >= 0; --k)
      backward(*t.layers[k], 2);
    t.context->finish_backward();
    t.expect_gradients(2 * ranks);
  }
}

TEST(Manual, FrozenModulesReduceNothing) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh);
  FsdpModule& frozen = context->add_module("frozen");
  frozen.add_parameter({"w", {5}, DType::f64, false});
  frozen.build();
  FsdpModule& empty = context->add_module("empty");
  context->finalize();
  for (FsdpModule* module : {&frozen, &empty}) {
    module->unshard();
    module->reduce_gradients();
    module->reshard();
  }
  context->finish_backward();
}

} // namespace
} // namespace ostraka::fsdp::test
