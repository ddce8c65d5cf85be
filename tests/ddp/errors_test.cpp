// SPDX-License-Identifier: Apache-2.0
// Mistakes in steps: each is refused with its name and what to do, changes nothing, and the step goes on. And failures
// that are told to all ranks at the end of a step.
#include "vectors.hpp"

namespace ostraka::ddp::test {
namespace {

/// Where in a step a mistake is made.
enum class At {
  rest,     ///< before the first gradient
  open,     ///< "c.w" is written, its bucket is not complete
  flight,   ///< everything is, nothing was finished
  finished, ///< reduced
  stepped,  ///< weights may be stale
  no_sync,
};

/// Buckets of "c.w" and "b.w", and of "a.w"; "a.fixed" is frozen.
struct Net : Lowered {
  Net(const buffer::MeshPtr& mesh, const Config& config)
      : Lowered(mesh, config,
                {vector_of("a.w", 50), frozen(vector_of("a.fixed", 5)), vector_of("b.w", 30), vector_of("c.w", 30)}) {}

  void step_with(At at, const std::function<void()>& mistake) {
    const auto point = [&](At here) {
      if (here == at)
        mistake();
    };
    ddp->zero_grad_buffer();
    point(At::rest);
    {
      const auto scope = ddp->no_sync();
      point(At::no_sync);
    }
    contribute("c.w", 1);
    point(At::open);
    contribute("b.w", 1);
    contribute("a.w", 1);
    point(At::flight);
    ddp->finish_grad_sync();
    point(At::finished);
    optimizer->step();
    ++steps;
    point(At::stepped);
  }
};

/// `make` throws `status` with all `parts` in the text.
struct Mistake {
  At at;
  Status status;
  std::vector<std::string> parts;
  std::function<void(DistributedDataParallel&)> make;
};

constexpr Status state = Status::INVALID_STATE, argument = Status::INVALID_ARGUMENT, type = Status::TYPE_MISMATCH;
const double zeros[50] = {};

std::vector<Mistake> mistakes_of_every_configuration() {
  using Ddp = DistributedDataParallel;
  return {
      {At::rest, argument, {"parameter", "'x'", "'a.w', 'a.fixed'"}, [](Ddp& d) { d.parameter("x", DType::f64); }},
      {At::rest, type, {"parameter 'a.w'", "f64", "f32"}, [](Ddp& d) { d.parameter("a.w", DType::f32); }},
      {At::open, type, {"parameter 'a.fixed'", "i32"}, [](Ddp& d) { d.parameter("a.fixed", DType::i32); }},
      {At::rest, type, {"set_parameter", "'a.w'", "u8"}, [](Ddp& d) { d.set_parameter("a.w", zeros, 50, DType::u8); }},
      {At::rest,
       Status::SHAPE_MISMATCH,
       {"set_parameter 'a.w'", "(50)", "found 49"},
       [](Ddp& d) { d.set_parameter("a.w", zeros, 49, DType::f64); }},
      {At::open, argument, {"'a.w'", "null"}, [](Ddp& d) { d.set_parameter("a.w", nullptr, 50, DType::f64); }},
      {At::rest, argument, {"set_parameter", "'x'"}, [](Ddp& d) { d.set_parameter("x", zeros, 5, DType::f64); }},
      {At::rest, argument, {"gradient", "'x'"}, [](Ddp& d) { d.gradient("x", DType::f64); }},
      {At::rest, type, {"gradient 'a.w'", "f64", "f32"}, [](Ddp& d) { d.gradient("a.w", DType::f32); }},
      {At::rest, state, {"gradient 'a.fixed'", "frozen"}, [](Ddp& d) { d.gradient("a.fixed", DType::f64); }},
      {At::rest, state, {"gradient_dtype 'a.fixed'", "frozen"}, [](Ddp& d) { d.gradient_dtype("a.fixed"); }},
      {At::rest, state, {"gradient_ready 'a.w'", "write it first"}, [](Ddp& d) { d.gradient_ready("a.w"); }},
      {At::open, state, {"gradient_ready 'a.fixed'", "frozen"}, [](Ddp& d) { d.gradient_ready("a.fixed"); }},
      {At::finished, state, {"gradient 'a.w'", "zero_grad_buffer"}, [](Ddp& d) { d.gradient("a.w", DType::f64); }},
      {At::stepped, state, {"gradient_ready 'c.w'", "zero_grad_buffer"}, [](Ddp& d) { d.gradient_ready("c.w"); }},
      {At::rest, argument, {"set_uses 'a.w'", "-2"}, [](Ddp& d) { d.set_uses("a.w", -2); }},
      {At::rest, state, {"set_uses 'a.fixed'", "frozen"}, [](Ddp& d) { d.set_uses("a.fixed", 1); }},
      {At::rest, state, {"end_no_sync", "begin_no_sync"}, [](Ddp& d) { d.end_no_sync(); }},
      {At::no_sync, state, {"start_grad_sync", "no_sync"}, [](Ddp& d) { d.start_grad_sync(); }},
      {At::no_sync, state, {"finish_grad_sync", "no_sync"}, [](Ddp& d) { d.finish_grad_sync(); }},
      {At::rest, argument, {"scale_gradients", "finite", "inf"}, [](Ddp& d) { d.scale_gradients(HUGE_VAL); }},
      {At::finished, argument, {"scale_gradients", "finite", "nan"}, [](Ddp& d) { d.scale_gradients(NAN); }},
      {At::rest, state, {"main_gradient 'a.w'", "finish"}, [](Ddp& d) { d.main_gradient("a.w", DType::f64); }},
      {At::flight, state, {"main_gradient 'c.w'", "finish"}, [](Ddp& d) { d.main_gradient("c.w", DType::f64); }},
      {At::finished, type, {"main_gradient 'a.w'", "f64"}, [](Ddp& d) { d.main_gradient("a.w", DType::f32); }},
      {At::finished,
       state,
       {"main_gradient 'a.fixed'", "frozen"},
       [](Ddp& d) { d.main_gradient("a.fixed", DType::f64); }},
      {At::finished, argument, {"main_gradient", "'x'"}, [](Ddp& d) { d.main_gradient("x", DType::f64); }},
      {At::rest, state, {"restore_grad_buffers", "not offloaded"}, [](Ddp& d) { d.restore_grad_buffers(); }},
      {At::rest, argument, {"pre_forward", "'x'"}, [](Ddp& d) { d.pre_forward("x"); }},
      {At::stepped, argument, {"ensure_ready", "'x'"}, [](Ddp& d) { d.ensure_ready("x"); }},
      {At::rest, argument, {"ready_callback", "'x'"}, [](Ddp& d) { d.ready_callback("x"); }},
      {At::open, state, {"finalize", "called already"}, [](Ddp& d) { d.finalize(); }},
  };
}

std::vector<Mistake> mistakes_with_overlap() {
  using Ddp = DistributedDataParallel;
  const char* finish = "finish_grad_sync first";
  return {
      {At::open, state, {"set_uses 'c.w'", "between steps"}, [](Ddp& d) { d.set_uses("c.w", 2); }},
      {At::flight, state, {"set_uses 'a.w'", "between steps"}, [](Ddp& d) { d.set_uses("a.w", 2); }},
      {At::flight, state, {"zero_grad_buffer", finish}, [](Ddp& d) { d.zero_grad_buffer(); }},
      {At::flight, state, {"scale_gradients", finish}, [](Ddp& d) { d.scale_gradients(2); }},
      {At::flight, state, {"offload_grad_buffers", finish}, [](Ddp& d) { d.offload_grad_buffers(); }},
      {At::flight, state, {"broadcast_params", finish}, [](Ddp& d) { d.broadcast_params(); }},
  };
}

/// As expect_error, for tables.
void expect_refused(const Mistake& mistake, DistributedDataParallel& ddp) {
  try {
    mistake.make(ddp);
    ADD_FAILURE() << "expected " << name(mistake.status) << ", nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(name(error.status()), name(mistake.status)) << error.what();
    for (const std::string& part : mistake.parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "'" << part << "' in: " << error.what();
  }
}

TEST(Mistakes, AreRefusedAndChangeNothing) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    auto mistakes = mistakes_of_every_configuration();
    if (config.overlap_grad_reduce)
      for (const Mistake& mistake : mistakes_with_overlap())
        mistakes.push_back(mistake);
    Net net(mesh, config);
    for (const Mistake& mistake : mistakes) {
      SCOPED_TRACE(mistake.parts.front());
      bool is_made = false;
      net.step_with(mistake.at, [&] {
        expect_refused(mistake, *net.ddp);
        is_made = true;
      });
      EXPECT_TRUE(is_made);
      net.expect_all_current();
      if (testing::Test::HasFailure())
        return; // the rest would only repeat it
    }
  });
}

TEST(Mistakes, ManyNamesAreCut) {
  Vectors v(make_mesh(), Config{}, letters(26, 1));
  try {
    v.ddp->parameter("x", DType::f64);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'t.w', ..."), std::string::npos) << error.what();
  }
}

TEST(Mistakes, ManyMissingGradientsAreCut) {
  Vectors v(make_mesh(), make_config(false), letters(26, 1));
  v.contribute("c.w", 1);
  expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->finish_grad_sync(); },
                          {"for 'a.w', 'b.w', 'd.w'", "'u.w' and 5 more ("});
}

// --- failures of one rank

TEST(FailStep, IsToldToAll) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Net net(mesh, config);
    for (const At at : {At::rest, At::open, At::flight, At::no_sync}) {
      const auto step = [&] {
        net.step_with(at, [&] {
          if (rank == ranks - 1)
            net.ddp->fail_step("the solver diverged");
        });
      };
      expect_error_everywhere(Status::USER_FAILURE, step, {"rank " + std::to_string(ranks - 1), "the solver diverged"});
      EXPECT_THROW(net.optimizer->step(), Error);
      net.step_with(At::rest, [] {});
      net.expect_all_current();
    }
  });
}

// A rank that cannot even begin a step: the others wait for what it owes them.
TEST(FailStep, BeforeTheStepBegins) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Net net(mesh, config);
    net.step_with(At::rest, [] {});
    const auto step = [&] {
      if (rank == ranks - 1) {
        net.ddp->fail_step("no input");
      } else {
        net.ddp->zero_grad_buffer();
        net.backward(1);
      }
      net.ddp->finish_grad_sync();
    };
    expect_error_everywhere(Status::USER_FAILURE, step, {"rank " + std::to_string(ranks - 1), "no input"});
    net.step_with(At::rest, [] {});
    net.expect_all_current();
  });
}

TEST(FailStep, TheLowestRankIsReported) {
  Net net(make_mesh(), make_config(false));
  net.backward(1);
  net.ddp->fail_step(rank == 0 ? "" : "another");
  net.ddp->fail_step("the second failure of a rank");
  expect_error_everywhere(Status::USER_FAILURE, [&] { net.ddp->finish_grad_sync(); },
                          {"rank 0", "the caller reported a failure"});
}

// A rank that stops in the middle of its backward pass.
TEST(FailStep, WithoutTheRestOfTheGradients) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    for (const bool is_forced : {false, true}) {
      Net net(mesh, config);
      net.ddp->zero_grad_buffer();
      net.contribute("c.w", 1);
      if (rank == 0) {
        net.ddp->fail_step("stopped");
      } else {
        net.contribute("b.w", 1);
        net.contribute("a.w", 1);
      }
      expect_error_everywhere(Status::USER_FAILURE, [&] { net.ddp->finish_grad_sync(is_forced); }, {"stopped"});
      net.step_with(At::rest, [] {});
      net.expect_all_current();
    }
  });
}

} // namespace
} // namespace ostraka::ddp::test
