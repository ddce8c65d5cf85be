// SPDX-License-Identifier: Apache-2.0
// Set-up and optimizers at the wrong point of a step.
#include "mistakes.hpp"

#include <cmath>

namespace ostraka::fsdp::test {
namespace {

constexpr double values[net_size] = {};

void set(Net& n) { n.a.set_parameter("w", values, net_size, DType::f64); }
void set_from_root(Net& n) { n.a.set_from_root("w", values, net_size, DType::f64, 0); }
void set_root(Net& n, int root) { n.a.set_from_root("w", values, net_size, DType::f64, root); }

const std::vector<Mistake> set_up_mistakes{
    {At::rest, state, {"finalize", "already"}, [](Net& n) { n.context->finalize(); }},
    {At::rest, state, {"build", "'net.a'", "twice"}, [](Net& n) { n.a.build(); }},
    {At::rest, state, {"build of module 'net'", "finalised"}, [](Net& n) { n.net.build(); }},
    {At::rest, state, {"add_module('x')", "finalised", "before"}, [](Net& n) { n.context->add_module("x"); }},
    {At::rest, state, {"add_module('x')", "finalised"}, [](Net& n) { n.a.add_module("x"); }},
    {At::rest,
     state,
     {"add_parameter of module 'net'", "finalised", "before"},
     [](Net& n) {
       n.net.add_parameter({"x", {1}, DType::f64, true});
     }},
    {At::rest,
     state,
     {"add_parameter('x') after build", "'net.a'"},
     [](Net& n) {
       n.a.add_parameter({"x", {1}, DType::f64, true});
     }},
    {At::rest, state, {"tie_parameter('x') after build", "'net.a'"}, [](Net& n) { n.a.tie_parameter("x", "w"); }},
    {At::rest, state, {"set_precision after build", "'net.a'"}, [](Net& n) { n.a.set_precision({}); }},
    {At::rest, state, {"set_precision of module 'net'", "finalised"}, [](Net& n) { n.net.set_precision({}); }},
    {At::rest, state, {"set_allow_unused of module 'net.a'", "finalised"}, [](Net& n) { n.a.set_allow_unused(true); }},
    {At::rest, state, {"set_prefetch of module 'net.a'", "finalised"}, [](Net& n) { n.a.set_prefetch(0); }},
    {At::rest,
     state,
     {"set_gradient_divisor of module 'net.a'", "finalised"},
     [](Net& n) { n.a.set_gradient_divisor(2); }},
    {At::rest,
     argument,
     {"module 'net.a' has no parameter 'x'"},
     [](Net& n) { n.a.set_parameter("x", values, net_size, DType::f64); }},
    {At::rest, argument, {"null"}, [](Net& n) { n.a.set_parameter("w", nullptr, net_size, DType::f64); }},
    {At::rest,
     Status::SHAPE_MISMATCH,
     {"'net.a.w'", "has 5", "found 4"},
     [](Net& n) { n.a.set_parameter("w", values, 4, DType::f64); }},
    {At::rest,
     Status::TYPE_MISMATCH,
     {"'net.a.w'", "expected f64", "found i64"},
     [](Net& n) { n.a.set_parameter("w", values, net_size, DType::i64); }},
    {At::rest, argument, {"root", "found -1"}, [](Net& n) { set_root(n, -1); }},
    {At::rest, argument, {"root", "found 1000"}, [](Net& n) { set_root(n, 1000); }},
    {At::rest, argument, {"'net.a.w'", "empty"}, [](Net& n) { n.a.initialise("w", nullptr); }},
    {At::forward, state, {"set_parameter", "'net.a'", "in use (forward)"}, set},
    {At::forward, state, {"set_from_root", "'net.a'", "in use (forward)"}, set_from_root},
    {At::forward,
     state,
     {"initialise", "'net.a'", "in use (forward)"},
     [](Net& n) { n.a.initialise("w", [](auto...) {}); }},
    {At::backward, state, {"set_parameter", "'net.a'", "in use (backward)"}, set},
    {At::backward, state, {"set_from_root", "'net.a'", "in use (backward)"}, set_from_root},
    {At::inference, state, {"set_parameter", "'net.a'", "in use (inference)"}, set},
    {At::unsharded, state, {"set_parameter", "'net.a'", "unshard without reshard"}, set},
};

const std::vector<Mistake> optimizer_mistakes{
    {At::rest,
     state,
     {"optimizer step", "'net.a.w' has no complete gradient", "finish_backward"},
     [](Net& n) { n.sgd->step(); }},
    {At::rest, state, {"gradient_norm", "'net.a.w'"}, [](Net& n) { n.sgd->gradient_norm(); }},
    {At::rest, state, {"clip_gradients", "'net.a.w'"}, [](Net& n) { n.sgd->clip_gradients(1); }},
    {At::rest, state, {"scale_gradients", "'net.a.w'"}, [](Net& n) { n.sgd->scale_gradients(1); }},
    {At::rest, state, {"check_finite", "'net.a.w'"}, [](Net& n) { n.sgd->check_finite(); }},
    {At::rest, argument, {"learning_rate", "found -1"}, [](Net& n) { n.sgd->set_learning_rate(-1); }},
    {At::rest, argument, {"steps >= 0", "found -1"}, [](Net& n) { n.sgd->set_steps(-1); }},
    {At::rest, argument, {"'nobody'", "'net.a.w'"}, [](Net& n) { n.sgd->set_group("nobody", {}); }},
    {At::rest, argument, {"weight_decay", "found -2"}, [](Net& n) { n.sgd->set_group("*", {.weight_decay = -2}); }},
    {At::rest,
     argument,
     {"momentum", "found 1"},
     [](Net& n) { optim::make_sgd(n.context->named_states(), {.momentum = 1}); }},
    {At::forward, state, {"update", "'net.a'", "in use (forward)"}, [](Net& n) { n.sgd->step(); }},
    {At::between, state, {"optimizer step", "'net.a.w' has no complete gradient"}, [](Net& n) { n.sgd->step(); }},
    {At::backward, state, {"update", "'net.a'", "in use (backward)"}, [](Net& n) { n.sgd->step(); }},
    {At::closed, state, {"optimizer step", "'net.a.w'", "call finish_backward"}, [](Net& n) { n.sgd->step(); }},
    {At::finished, argument, {"max_norm >= 0", "found -1"}, [](Net& n) { n.sgd->clip_gradients(-1); }},
    {At::finished, argument, {"finite factor", "found nan"}, [](Net& n) { n.sgd->scale_gradients(std::nan("")); }},
    {At::finished, argument, {"norm", "found 9"}, [](Net& n) { n.sgd->gradient_norm(static_cast<optim::Norm>(9)); }},
    {At::stepped,
     state,
     {"after", "no parameter has a new gradient", "run a backward pass"},
     [](Net& n) { n.sgd->step(); }},
    {At::inference, state, {"update", "'net.a'", "in use (inference)"}, [](Net& n) { n.sgd->step(); }},
    {At::unsharded, state, {"update", "'net.a'", "unshard without reshard"}, [](Net& n) { n.sgd->step(); }},
};

TEST(AllErrors, SetUpInsideAStep) { make_all(set_up_mistakes); }
TEST(AllErrors, Optimizers) { make_all(optimizer_mistakes); }

// --- updates fused with reductions

TEST(AllErrors, FusedUpdates) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Net net(mesh, recipe);
    net.sgd->fuse_with_reduction();
    net.sgd->fuse_with_reduction(); // again is nothing new
    const auto other = optim::make_adamw(net.context->named_states(), {});
    const auto refuse = [&](const std::vector<std::string>& parts, const std::function<void()>& action) {
      net.step(At::finished, [&] { expect_refused(state, action, parts); });
      net.expect_weights();
      net.expect_trains();
    };
    refuse({"another optimizer", "'net.a.w'", "destroy that one"}, [&] { other->fuse_with_reduction(); });
    refuse({"'net.a.w'", "fuse_with_reduction"}, [&] { other->step(); });
    refuse({"'net.a.w'", "fuse_with_reduction"}, [&] { net.sgd->gradient_norm(); });
    refuse({"'net.a.w'", "fuse_with_reduction"}, [&] { net.sgd->clip_gradients(1); });
    refuse({"pre_forward of module 'net.a'", "optimizer's step"}, [&] { net.a.pre_forward(); });
    refuse({"unshard of module 'net.a'", "optimizer's step"}, [&] { net.a.unshard(); });
    refuse({"set_parameter of module 'net.a'", "optimizer's step"}, [&] { set(net); });
    refuse({"set_from_root of module 'net.a'", "optimizer's step"}, [&] { set_from_root(net); });
    refuse({"begin_inference of module 'net.a'", "optimizer's step"}, [&] { net.context->begin_inference(); });
    refuse({"main_gradient 'net.a.w'", "while it was reduced"}, [&] { net.a.main_gradient("w", DType::f64); });
    net.sgd = optim::make_sgd(net.context->named_states(), {.learning_rate = 1});
    net.expect_trains();
    net.sgd->fuse_with_reduction();
    net.expect_trains();
  }
}

} // namespace
} // namespace ostraka::fsdp::test
