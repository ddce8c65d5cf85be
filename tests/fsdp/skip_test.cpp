// SPDX-License-Identifier: Apache-2.0
// Ranks that do not run everything: skipped modules and micro-batches; and ranks that run different things.
#include "support/scoped_environment.hpp"
#include "vectors.hpp"

namespace ostraka::fsdp::test {
namespace {

using layout::ReduceOp;

/// root{a, b} and head, vectors of 4, 5, 6 and 3 elements.
struct Tree {
  Tree(const buffer::MeshPtr& mesh, Recipe recipe)
      : context(FsdpContext::create(mesh, make_config(recipe, ReduceOp::sum))), root(context->add_module("root")) {
    with_vectors(root, {{"w", 4}});
    a = &with_vectors(root.add_module("a"), {{"w", 5}});
    b = &with_vectors(root.add_module("b"), {{"w", 6}});
    head = &with_vectors(context->add_module("head"), {{"w", 3}});
    context->finalize();
  }

  /// `twice`: a runs twice, the second time behind b.
  void micro_batch(double value, bool twice = false) {
    root.pre_forward();
    forward(*a);
    forward(*b);
    if (twice)
      forward(*a);
    root.post_forward();
    forward(*head);
    backward(*head, value);
    root.pre_backward();
    write(root, "w", value);
    if (twice)
      backward(*a, value);
    backward(*b, value);
    backward(*a, value);
    root.post_backward();
    context->finish_backward();
  }
  void expect_gradients(double expected, bool twice = false) {
    for (const FsdpModule* module : {&root, b, head})
      expect_gradient(*module, "w", expected);
    expect_gradient(*a, "w", twice ? 2 * expected : expected);
  }

  std::shared_ptr<FsdpContext> context;
  FsdpModule& root;
  FsdpModule *a = nullptr, *b = nullptr, *head = nullptr;
};

TEST(Skip, AModuleThatSomeRanksDoNotRun) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Tree t(mesh, recipe);
    for (int step = 0; step < 3; ++step) {
      const bool runs = rank == step % ranks;
      t.context->zero_grad();
      for (FsdpModule* module : {&t.root, t.a})
        forward(*module);
      runs ? forward(*t.b) : t.b->skip_forward();
      forward(*t.head);
      backward(*t.head, 1);
      runs ? backward(*t.b, 5) : t.b->skip_backward();
      for (FsdpModule* module : {t.a, &t.root})
        backward(*module, 1);
      EXPECT_FALSE(t.context->has_failed_step());
      t.context->finish_backward();
      expect_gradient(*t.b, "w", 5);
      expect_gradient(*t.a, "w", ranks);
    }
  }
}

TEST(Skip, OneUseOfTwo) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const bool skips_first : {false, true}) {
      const auto context = FsdpContext::create(mesh, make_config(recipe, ReduceOp::sum));
      FsdpModule& module = with_vectors(context->add_module("m"), {{"w", 7}});
      context->finalize();
      for (int use = 0; use < 2; ++use)
        forward(module);
      for (int use = 0; use < 2; ++use)
        (use == 0) == skips_first ? module.skip_backward() : backward(module, 3);
      context->finish_backward();
      expect_gradient(module, "w", 3.0 * ranks);
    }
}

// A use that was computed has gradients, even where another one is skipped.
TEST(Skip, DoesNotHideAMissingGradient) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh);
  FsdpModule& module = with_vectors(context->add_module("m"), {{"v", 2}, {"w", 7}});
  context->finalize();
  forward(module);
  module.skip_forward();
  backward(module, 3);
  module.skip_backward();
  expect_error(Status::INVALID_STATE, [&] { context->finish_backward(); }, {"'v'", "no gradient"});
}

TEST(Skip, MicroBatchesOfUnevenNumber) { // rank r has r + 1
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const bool twice : {false, true}) { // in the first step as expected, later as recorded
      Tree t(mesh, recipe);
      for (int step = 0; step < 2; ++step) {
        t.context->zero_grad();
        for (int k = 0; k < ranks; ++k) {
          t.context->set_last_microbatch(k == ranks - 1);
          const bool records = twice && step == 0; // what all do first
          if (records || k <= rank)
            t.micro_batch(k == 0 ? 1 : 10, twice);
          else
            t.context->skip_microbatch();
        }
        const double tens = step == 0 && twice ? ranks * (ranks - 1) : sum_of_ranks() - ranks;
        t.expect_gradients(ranks + 10 * tens, twice);
      }
      EXPECT_EQ(t.context->memory().transient, 0);
    }
}

TEST(Skip, AMicroBatchThatHasBegun) {
  const auto mesh = make_mesh();
  Tree t(mesh, Recipe::zero_3);
  const auto refuse = [&](const char* part) {
    expect_error(Status::INVALID_STATE, [&] { t.context->skip_microbatch(); }, {"skip_microbatch", part});
  };
  t.context->begin_inference();
  refuse("inference");
  t.context->end_inference();
  t.root.pre_forward();
  refuse("hooks");
  t.root.post_forward();
  refuse("hooks");
  t.context->finish_backward();
  t.context->begin_backward();
  refuse("hooks");
  t.context->finish_backward();
  t.micro_batch(1);
  t.expect_gradients(ranks);
}

TEST(Skip, AllRanksSkip) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Tree t(mesh, recipe);
    t.context->skip_microbatch();
    t.expect_gradients(0);
    t.context->zero_grad();
    t.micro_batch(2);
    t.expect_gradients(2 * ranks);
  }
}

TEST(Skip, AFailureReachesTheRankThatSkips) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Tree t(mesh, recipe);
    for (int round = 0; round < 2; ++round) {
      t.context->zero_grad();
      if (rank == 0) {
        t.root.pre_forward();
        t.a->pre_forward();
        t.context->fail_step("stopped");
        expect_error(Status::USER_FAILURE, [&] { t.context->finish_backward(); }, {"stopped"});
      } else {
        expect_error(Status::USER_FAILURE, [&] { t.context->skip_microbatch(); }, {"stopped", "rank 0"});
      }
      t.micro_batch(2);
      t.expect_gradients(2 * ranks);
    }
  }
}

// --- ranks that run different things, found without comparing operations

struct Unchecked {
  explicit Unchecked(Recipe recipe)
      : off("OSTRAKA_CHECK", "0"), limit("OSTRAKA_TIMEOUT_S", "20"),
        context(FsdpContext::create(mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks}),
                                    make_config(recipe, ReduceOp::sum))) {
    for (const char* name : {"a", "b"})
      modules.push_back(&with_vectors(context->add_module(name), {{"w", 8}}));
    context->finalize();
  }
  void expect_lost(std::initializer_list<std::string> parts) {
    expect_error(
        Status::RANKS_DISAGREE, [&] { context->finish_backward(); }, parts);
    expect_error(Status::FAILED, [&] { modules[0]->pre_forward(); }, {"different orders"});
    expect_error(Status::FAILED, [&] { context->finish_backward(); });
    MPI_Barrier(MPI_COMM_WORLD);
  }

  ScopedEnvironment off, limit;
  std::shared_ptr<FsdpContext> context;
  std::vector<FsdpModule*> modules;
};

constexpr const char* needs_mpi = "needs two ranks, and none that share memory: these see what the others start";

bool compares_in_finish_backward_only() { return ranks > 1 && !cuts_updates(); }

TEST(Orders, Case38ARankRunsModulesInAnotherOrder) {
  if (!compares_in_finish_backward_only())
    GTEST_SKIP() << needs_mpi;
  for (const Recipe recipe : all_recipes)
    for (const int odd : {0, ranks - 1})
      for (const bool in_backward : {false, true}) {
        Unchecked t(recipe);
        FsdpModule &first = *t.modules[rank == odd ? 1 : 0], &second = *t.modules[rank == odd ? 0 : 1];
        forward(in_backward ? *t.modules[0] : first);
        forward(in_backward ? *t.modules[1] : second);
        backward(in_backward ? first : *t.modules[1], 1);
        backward(in_backward ? second : *t.modules[0], 1);
        const std::string hook = in_backward ? "hook 5" : "hook 1", name = in_backward ? "pre_backward" : "pre_forward";
        t.expect_lost({"ranks ran modules in different orders", hook, name + " of module 'a'", name + " of module 'b'",
                       "rank " + std::to_string(odd == 0 ? 1 : odd)});
      }
}

TEST(Orders, ARankDoesMore) {
  if (!compares_in_finish_backward_only())
    GTEST_SKIP() << needs_mpi;
  Unchecked t(Recipe::no_shard); // gathers and reads nothing that others write
  for (FsdpModule* module : t.modules)
    forward(*module);
  if (rank == 0)
    forward(*t.modules[0]);
  t.expect_lost({"different orders", "missing here", "pre_forward of module 'a' on rank 0", "rank 1"});
}

TEST(Orders, LastMicroBatchOnSomeRanks) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  Unchecked t(Recipe::zero_3);
  t.context->set_last_microbatch(rank == 0);
  for (FsdpModule* module : t.modules)
    forward(*module);
  for (FsdpModule* module : {t.modules[1], t.modules[0]})
    backward(*module, 1);
  t.expect_lost({"set_last_microbatch"});
}

} // namespace
} // namespace ostraka::fsdp::test
