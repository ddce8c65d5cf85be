// SPDX-License-Identifier: Apache-2.0
// A network whose training steps have room for a mistake at every point.
#pragma once

#include "vectors.hpp"

#include <functional>

namespace ostraka::fsdp::test {

constexpr std::int64_t net_size = 5; ///< elements of "w"

/// Where in Net::step a mistake is made.
enum class At { rest, forward, between, recomputed, backward, closed, finished, stepped, inference, unsharded };

/// "net", without parameters, around "a" (trainable "w", also called "v", and frozen "fixed"), "b" and "spare", which
/// is never used. Every rank contributes 1 to every gradient, so a step lowers weights by the number of ranks.
struct Net {
  explicit Net(const buffer::MeshPtr& mesh, Recipe recipe)
      : context(FsdpContext::create(mesh, make_config(recipe, layout::ReduceOp::sum))), net(context->add_module("net")),
        a(net.add_module("a")), b(net.add_module("b")), spare(net.add_module("spare")) {
    a.add_parameter({"fixed", {2, 3}, DType::f64, false});
    a.tie_parameter("v", "fixed");
    spare.set_allow_unused(true);
    for (FsdpModule* module : {&a, &b, &spare})
      with_vectors(*module, {{"w", net_size}});
    context->finalize();
    sgd = optim::make_sgd(context->named_states(), {.learning_rate = 1});
  }

  void step(At at, const std::function<void()>& mistake) {
    const auto point = [&](At here) {
      if (here == at)
        mistake();
    };
    context->zero_grad();
    point(At::rest);
    net.pre_forward();
    a.pre_forward();
    point(At::forward);
    a.post_forward();
    forward(b);
    net.post_forward();
    point(At::between);
    net.pre_backward();
    backward(b, 1);
    a.pre_forward();
    point(At::recomputed);
    a.post_forward();
    a.pre_backward();
    point(At::backward);
    write(a, "w", 1);
    a.post_backward();
    net.post_backward();
    point(At::closed);
    context->finish_backward();
    point(At::finished);
    sgd->step();
    expected -= ranks;
    point(At::stepped);
    context->begin_inference();
    point(At::inference);
    context->end_inference();
    a.unshard();
    point(At::unsharded);
    a.reshard();
  }

  void expect_weights() {
    for (FsdpModule* module : {&a, &b})
      EXPECT_EQ(whole_parameter(*module, "w"), constant(net_size, expected));
    EXPECT_EQ(whole_parameter(spare, "w"), constant(net_size, 0));
    EXPECT_FALSE(context->has_failed_step());
  }
  void expect_trains() {
    step(At::rest, [] {});
    expect_weights();
  }

  std::shared_ptr<FsdpContext> context;
  FsdpModule &net, &a, &b, &spare;
  std::unique_ptr<optim::Optimizer> sgd;
  double expected = 0;
};

/// `make` throws `status` with all `parts` in the text.
struct Mistake {
  At at;
  Status status;
  std::vector<std::string> parts;
  std::function<void(Net&)> make;
};

constexpr Status state = Status::INVALID_STATE, argument = Status::INVALID_ARGUMENT;

/// As expect_error, for tables.
inline void expect_refused(Status status, const std::function<void()>& action, const std::vector<std::string>& parts) {
  try {
    action();
    ADD_FAILURE() << "expected " << name(status) << ", nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(name(error.status()), name(status)) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "'" << part << "' in: " << error.what();
  }
}

/// One at a time: refused with its name, what was found and what to do; the step in which it is made gives the right
/// weights, as does the next.
inline void make_all(const std::vector<Mistake>& mistakes) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Net net(mesh, recipe);
    for (const Mistake& mistake : mistakes) {
      SCOPED_TRACE(text(recipe) + (" " + mistake.parts.front()));
      bool is_made = false;
      net.step(mistake.at, [&] {
        expect_refused(
            mistake.status, [&] { mistake.make(net); }, mistake.parts);
        is_made = true;
      });
      EXPECT_TRUE(is_made);
      net.expect_weights();
      net.expect_trains();
      if (testing::Test::HasFailure())
        return; // the rest would only repeat it
    }
  }
}

} // namespace ostraka::fsdp::test
