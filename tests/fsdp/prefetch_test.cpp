// SPDX-License-Identifier: Apache-2.0
// What is gathered ahead, and what gathers and reductions hold at a time (spec 3.8, 3.9).
#include "vectors.hpp"

namespace ostraka::fsdp::test {
namespace {

using Budget = std::optional<std::int64_t>;

ContextConfig with_budget(Budget prefetch) {
  ContextConfig config = make_config(Recipe::zero_3, layout::ReduceOp::sum);
  config.prefetch = prefetch;
  return config;
}

/// Gathered layers in the forward phases of `pass`, then in the first backward one, before gradients have memory.
void expect_gathered(Layers& t, const std::vector<int>& pass, const std::vector<int>& forward, int backward) {
  for (std::size_t k = 0; k < pass.size(); ++k) {
    t.layers[pass[k]]->pre_forward();
    t.expect_gathered(forward[k]);
    t.layers[pass[k]]->post_forward();
  }
  t.expect_gathered(0);
  t.layers[pass.back()]->pre_backward();
  t.expect_gathered(backward);
}

void finish(Layers& t) {
  t.context->fail_step("looked at enough");
  expect_error(Status::USER_FAILURE, [&] { t.context->finish_backward(); });
}

TEST(Prefetch, Budgets) { // four layers in a row
  const auto mesh = make_mesh();
  const std::int64_t layer = Layers::size;
  const auto expect = [&](Budget budget, const std::vector<int>& gathered) {
    SCOPED_TRACE(budget.value_or(-1));
    Layers t(mesh, with_budget(budget));
    expect_gathered(t, {0, 1, 2, 3}, gathered, gathered[0]);
    finish(t);
  };
  expect({}, {2, 2, 2, 1});
  expect(0, {1, 1, 1, 1});
  expect(1, {2, 2, 2, 1});
  expect(layer, {2, 2, 2, 1});
  expect(layer + 1, {3, 3, 2, 1});
  expect(3 * layer, {4, 3, 2, 1});
  expect(100 * layer, {4, 3, 2, 1});
}

TEST(Prefetch, AModulesOwnBudget) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh, with_budget(Budget(0)));
  std::vector<FsdpModule*> layers;
  for (int k = 0; k < 4; ++k)
    layers.push_back(&with_vectors(context->add_module("layer" + std::to_string(k)), {{"w", Layers::size}}));
  layers[0]->set_prefetch(std::nullopt);
  layers[1]->set_prefetch(2 * Layers::size);
  context->finalize();
  Layers t(context, layers);
  expect_gathered(t, {0, 1, 2, 3}, {2, 3, 2, 1}, 1); // what 1 gathered ahead is there for 2
  finish(t);
}

TEST(Prefetch, RecordedRepeats) { // [a, b, a, c]: none -> [b], [a], [c], []; two -> [b, a], [a, c], [c], []
  const auto mesh = make_mesh();
  for (const bool two : {false, true}) {
    Layers t(mesh, with_budget(two ? Budget(2 * Layers::size) : Budget()), 3);
    const std::vector<int> pass{0, 1, 0, 2};
    for (const int m : pass)
      forward(*t.layers[m]);
    for (auto m = pass.rbegin(); m != pass.rend(); ++m)
      backward(*t.layers[*m], 1);
    t.context->finish_backward();
    t.context->zero_grad();
    expect_gathered(t, pass, two ? std::vector<int>{2, 3, 2, 1} : std::vector<int>{2, 2, 2, 1}, two ? 3 : 2);
    finish(t);
  }
}

TEST(Prefetch, NegativeBudgets) {
  const auto mesh = make_mesh();
  expect_error(Status::INVALID_ARGUMENT, [&] { FsdpContext::create(mesh, with_budget(Budget(-1))); },
               {"prefetch", "-1"});
  if (ranks > 1)
    expect_error(Status::RANKS_DISAGREE, [&] { FsdpContext::create(mesh, with_budget(Budget(rank))); });
}

// Of layers of B bytes: two gathered, one gradient being written and one being reduced; with one queue three in all.
TEST(Streams, PeakOfTransientMemory) {
  if (cuts_updates())
    GTEST_SKIP() << "a node holds gathered layers once";
  const auto mesh = make_mesh();
  const std::int64_t layer = Layers::size * 8, padding = 16 * ranks + 2 * 64 + 64;
  for (const bool unified : {false, true}) {
    std::vector<std::int64_t> peaks;
    for (const int count : {4, 32}) {
      ContextConfig config = with_budget(Budget());
      config.unified_stream = unified;
      config.gradient_slots = unified ? 1 : 2;
      Layers t(mesh, config, count);
      for (int step = 0; step < 2; ++step) {
        t.context->zero_grad();
        t.forward_all();
        for (int k = count - 1; k >= 0; --k)
          backward(*t.layers[k], 1);
        t.context->finish_backward();
        t.expect_gradients(ranks);
      }
      peaks.push_back(t.context->memory().transient_peak);
    }
    const int units = unified ? 3 : 4;
    EXPECT_EQ(peaks[0], peaks[1]);
    EXPECT_GE(peaks[0], units * layer) << units;
    EXPECT_LE(peaks[0], units * (layer + padding)) << units;
  }
}

} // namespace
} // namespace ostraka::fsdp::test
