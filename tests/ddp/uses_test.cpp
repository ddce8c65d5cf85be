// SPDX-License-Identifier: Apache-2.0
// When buckets are complete: uses of parameters, no_sync, frozen parameters, order, and what is missing or too much.
#include "vectors.hpp"

namespace ostraka::ddp::test {
namespace {

double mean_of_ranks() { return sum_of_ranks() / ranks; }

/// Reductions that MPI was asked for so far: without overlap they all come in finish_grad_sync.
int started() { return mpi_calls.of("MPI_Iallreduce") + mpi_calls.of("MPI_Ireduce_scatter_block"); }

TEST(Uses, DeclaredTwice) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Vectors v(mesh, config, letters(3));
    v.ddp->set_uses("b.w", 2);
    for (int step = 0; step < 3; ++step) {
      v.ddp->zero_grad_buffer();
      EXPECT_EQ(v.contribute("b.w", 10), 0);
      v.contribute("c.w", rank + 1);
      EXPECT_EQ(v.contribute("b.w", rank + 1), 1);
      v.contribute("a.w", rank + 1);
      v.ddp->finish_grad_sync();
      v.expect_gradient("a.w", mean_of_ranks());
      v.expect_gradient("b.w", mean_of_ranks() + 10);
    }
  });
}

// The second contribution comes when the bucket of "b.w" may be in flight.
TEST(Uses, OneMoreThanDeclaredFailsOnAllRanks) {
  const auto mesh = make_mesh();
  for (const bool sharded : {false, true})
    for (const char* second : {"c.w", "b.w", "a.w"}) { // in flight, in a bucket that is open, in the last one
      Vectors v(mesh, make_config(sharded), letters(4));
      for (int step = 0; step < 2; ++step) {
        v.ddp->zero_grad_buffer();
        for (const char* name : {"d.w", "c.w", "b.w"})
          v.contribute(name, 1);
        if (std::string(second) == "a.w")
          v.contribute("a.w", 1);
        if (rank == ranks - 1)
          expect_error(Status::INVALID_STATE, [&] { v.ddp->gradient(second, DType::f64); },
                       {"gradient '" + std::string(second) + "'", "1 of 1",
                        "set_uses('" + std::string(second) + "', 2)", "no_sync"});
        if (std::string(second) != "a.w")
          v.contribute("a.w", 1);
        expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->finish_grad_sync(); },
                                {"rank " + std::to_string(ranks - 1), second, "1 of 1"});
        v.expect_usable("a contribution too many");
      }
    }
}

TEST(Uses, ReadyTwiceIsOneTooMany) {
  Vectors v(make_mesh(), make_config(false), letters(2));
  v.contribute("b.w", 1);
  expect_error(Status::INVALID_STATE, [&] { v.ddp->gradient_ready("b.w"); },
               {"gradient_ready 'b.w'", "has all its contributions", "1 of 1"});
  v.contribute("a.w", 1);
  expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->finish_grad_sync(); }, {"'b.w'"});
  v.expect_usable("a gradient that is ready twice");
}

// Without overlap nothing starts before the end, so contributions are not counted.
TEST(Uses, WithoutOverlapAnyNumber) {
  Vectors v(make_mesh(), make_config(false, false), letters(2));
  v.backward(1);
  v.backward(2);
  v.ddp->finish_grad_sync();
  v.expect_gradients(3);
}

TEST(Uses, LearnedInTheFirstPass) {
  const auto mesh = make_unchecked_mesh();
  for (const bool sharded : {false, true}) {
    Config config = make_config(sharded);
    config.uses = uses_auto;
    Vectors v(mesh, config, letters(2)); // one bucket
    mpi_calls = {};
    for (int step = 0; step < 3; ++step) {
      v.ddp->zero_grad_buffer();
      v.contribute("a.w", 1);
      v.contribute("b.w", 1);
      const int before = started();
      v.contribute("a.w", 1); // from now on the bucket is complete
      if (is_mpi() && ranks > 1) {
        EXPECT_EQ(started() > before, step > 0) << "step " << step;
      }
      v.ddp->finish_grad_sync();
      v.expect_gradient("a.w", 2);
      v.expect_gradient("b.w", 1);
    }
    v.ddp->zero_grad_buffer();
    for (const char* name : {"a.w", "a.w", "b.w"})
      v.contribute(name, 1);
    expect_error(Status::INVALID_STATE, [&] { v.ddp->gradient("a.w", DType::f64); }, {"2 of 2", "set_uses('a.w', 3)"});
    expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->finish_grad_sync(); }, {"'a.w'"});
  }
}

// A step that failed teaches nothing.
TEST(Uses, NothingIsLearnedFromAFailure) {
  Config config = make_config(false);
  config.uses = uses_auto;
  Vectors v(make_mesh(), config, letters(2));
  v.contribute("a.w", 1);
  expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->finish_grad_sync(); }, {"'b.w'", "set_uses(name, 0)"});
  v.ddp->zero_grad_buffer();
  for (const char* name : {"a.w", "b.w", "a.w"})
    v.contribute(name, 1);
  v.ddp->finish_grad_sync();
  v.expect_gradient("a.w", 2);
}

TEST(Uses, NeverIsZero) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Vectors v(mesh, config, letters(3));
    v.expect_usable("nothing"); // leaves values in all buffers
    v.ddp->set_uses("c.w", 0);
    v.ddp->set_uses("a.w", 0);
    for (int step = 0; step < 2; ++step) {
      v.ddp->zero_grad_buffer();
      v.contribute("b.w", rank + 1);
      v.ddp->finish_grad_sync();
      v.expect_gradient("a.w", 0);
      v.expect_gradient("b.w", mean_of_ranks());
      v.expect_gradient("c.w", 0);
    }
    v.ddp->set_uses("c.w", 1);
    v.ddp->set_uses("a.w", 1);
    v.expect_usable("parameters without a gradient");
  });
}

// What a rank does not reach it says; the mean counts all ranks.
TEST(Uses, NeverOnOneRank) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Vectors v(mesh, config, letters(3));
    for (int step = 0; step < 2; ++step) {
      v.ddp->zero_grad_buffer();
      v.ddp->set_uses("b.w", rank == 0 ? 0 : 1);
      for (const char* name : {"c.w", "b.w", "a.w"})
        if (rank != 0 || std::string(name) != "b.w")
          v.contribute(name, rank + 1);
      v.ddp->finish_grad_sync();
      v.expect_gradient("a.w", mean_of_ranks());
      v.expect_gradient("b.w", (sum_of_ranks() - 1) / ranks);
    }
  });
}

TEST(Uses, MissingOnlyInTheThirdStep) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Vectors v(mesh, config, letters(6));
    const auto optimizer = optim::make_sgd(v.ddp->named_states(), {.learning_rate = 1});
    double lost = 0;
    for (int step = 1; step <= 5; ++step) {
      v.ddp->zero_grad_buffer();
      for (const char* name : {"f.w", "e.w", "d.w", "c.w", "b.w", "a.w"})
        if (step != 3 || rank != ranks - 1 || (std::string(name) != "e.w" && std::string(name) != "b.w"))
          v.contribute(name, rank + 1);
      if (step == 3) {
        expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->finish_grad_sync(); },
                                {"rank " + std::to_string(ranks - 1), "no gradient was contributed for 'b.w', 'e.w' (",
                                 "set_uses(name, 0)"});
        EXPECT_THROW(optimizer->step(), Error);
        continue;
      }
      v.ddp->finish_grad_sync();
      optimizer->step();
      lost += mean_of_ranks();
      v.expect_gradients(mean_of_ranks());
      v.expect_weight("a.w", 1 - lost);
      v.expect_weight("f.w", 6 - lost);
    }
  });
}

TEST(Uses, TooFewAreCounted) {
  Vectors v(make_mesh(), make_config(false), letters(2));
  v.ddp->set_uses("a.w", 3);
  v.contribute("b.w", 1);
  v.contribute("a.w", 1);
  v.contribute("a.w", 1);
  expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->finish_grad_sync(); }, {"'a.w' (2 of 3)"});
}

// Asked for, but not finished.
TEST(Uses, NotReadyIsMissing) {
  Vectors v(make_mesh(), make_config(false), letters(2));
  v.contribute("b.w", 1);
  v.write("a.w", 1);
  expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->finish_grad_sync(); }, {"'a.w'"});
  v.expect_usable("a gradient that was not ready");
}

TEST(Uses, EveryRankInAnOrderOfItsOwn) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Vectors v(mesh, config, letters(8));
    for (int step = 0; step < 3; ++step) {
      v.ddp->zero_grad_buffer();
      for (int k = 0; k < 8; ++k) {
        const int at = (k * (rank % 2 == 0 ? 3 : 5) + rank + step) % 8;
        v.contribute(v.specs()[at].name, rank + 1);
      }
      v.ddp->finish_grad_sync();
      v.expect_gradients(mean_of_ranks());
    }
  });
}

// Case 25 and its kind: frozen parameters between, before and behind, of other types.
TEST(Uses, FrozenParametersInAnyPlace) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    for (int place = 0; place < 16; ++place) {
      std::vector<ParameterSpec> specs;
      for (int i = 0; i < 4; ++i) {
        const std::string letter(1, static_cast<char>('a' + i));
        if ((place >> i & 1) != 0)
          specs.push_back(frozen(vector_of(letter + ".fixed", 7, i % 2 == 0 ? DType::f64 : DType::f32)));
        specs.push_back(vector_of(letter + ".w", 25, DType::f32));
      }
      if (place == 15)
        specs.push_back(frozen(vector_of("last.fixed", 3, DType::f64)));
      Vectors v(mesh, config, specs);
      for (int step = 0; step < 2; ++step)
        v.expect_usable("frozen parameters " + std::to_string(place));
      for (std::size_t i = 0; i < specs.size(); ++i)
        v.expect_weight(specs[i].name, static_cast<double>(i) + 1);
    }
  });
}

TEST(NoSync, RestoresWhatItFound) {
  Vectors v(make_mesh(), make_config(false), letters(2));
  EXPECT_TRUE(v.ddp->is_syncing());
  {
    const auto outer = v.ddp->no_sync();
    EXPECT_FALSE(v.ddp->is_syncing());
    {
      const auto inner = v.ddp->no_sync();
      v.backward(1);
    }
    EXPECT_FALSE(v.ddp->is_syncing());
    v.ddp->begin_no_sync();
    v.ddp->end_no_sync();
    EXPECT_FALSE(v.ddp->is_syncing());
    v.backward(1);
    try {
      const auto inner = v.ddp->no_sync();
      throw 1;
    } catch (int) {
      EXPECT_FALSE(v.ddp->is_syncing());
    }
  }
  EXPECT_TRUE(v.ddp->is_syncing());
  v.backward(1);
  v.ddp->finish_grad_sync();
  v.expect_gradients(3);
}

// A parameter of the first micro-batches only: its gradient is kept for the reduction.
TEST(NoSync, UsedInAnEarlierMicroBatchOnly) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Vectors v(mesh, config, letters(3));
    v.ddp->set_uses("b.w", 0);
    for (int step = 0; step < 2; ++step) {
      v.ddp->zero_grad_buffer();
      {
        const auto scope = v.ddp->no_sync();
        v.backward(2);
      }
      v.contribute("c.w", 1);
      v.contribute("a.w", 1);
      v.ddp->finish_grad_sync();
      v.expect_gradient("b.w", 2);
      v.expect_gradient("a.w", 3);
    }
  });
}

} // namespace
} // namespace ostraka::ddp::test
