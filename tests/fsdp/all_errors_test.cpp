// SPDX-License-Identifier: Apache-2.0
// Every hook and query in every wrong phase of a step, and what finish_backward reports.
#include "mistakes.hpp"

namespace ostraka::fsdp::test {
namespace {

const std::vector<Mistake> phase_mistakes{
    {At::rest,
     state,
     {"post_forward of module 'net.a'", "expected the forward", "found resting", "call pre_forward"},
     [](Net& n) { n.a.post_forward(); }},
    {At::rest,
     state,
     {"pre_backward of module 'net.a'", "0 forward and 0 backward"},
     [](Net& n) { n.a.pre_backward(); }},
    {At::rest, state, {"pre_backward of module 'net.a'", "no forward pass"}, [](Net& n) { n.a.skip_backward(); }},
    {At::rest,
     state,
     {"post_backward of module 'net.a'", "found resting", "call pre_backward"},
     [](Net& n) { n.a.post_backward(); }},
    {At::rest,
     state,
     {"'net.a.w'", "sharded now", "between pre_forward and post_forward"},
     [](Net& n) { n.a.parameter("w", DType::f64); }},
    {At::rest,
     state,
     {"gradient of module 'net.a'", "found resting", "call pre_backward"},
     [](Net& n) { n.a.gradient("w", DType::f64); }},
    {At::rest,
     state,
     {"main_gradient 'net.a.w'", "finish_backward", "zero_grad"},
     [](Net& n) { n.a.main_gradient("w", DType::f64); }},
    {At::rest,
     state,
     {"main_gradient 'net.a.fixed'", "frozen"},
     [](Net& n) { n.a.main_gradient("fixed", DType::f64); }},
    {At::rest, state, {"reshard of module 'net.a'", "call unshard"}, [](Net& n) { n.a.reshard(); }},
    {At::rest,
     argument,
     {"unshard of module 'net.a'", "found 7"},
     [](Net& n) { n.a.unshard(static_cast<FsdpModule::Ahead>(7)); }},
    {At::rest, state, {"end_inference", "begin_inference was not called"}, [](Net& n) { n.context->end_inference(); }},
    {At::forward,
     state,
     {"pre_forward of module 'net.a'", "expected the resting", "found forward", "call post_forward"},
     [](Net& n) { n.a.pre_forward(); }},
    {At::forward, state, {"pre_forward of module 'net.a'", "found forward"}, [](Net& n) { n.a.skip_forward(); }},
    {At::forward, state, {"pre_backward of module 'net.a'", "found forward"}, [](Net& n) { n.a.pre_backward(); }},
    {At::forward, state, {"post_backward of module 'net.a'", "found forward"}, [](Net& n) { n.a.post_backward(); }},
    {At::forward,
     state,
     {"gradient of module 'net.a'", "found forward"},
     [](Net& n) { n.a.gradient("w", DType::f64); }},
    {At::forward,
     state,
     {"reduce_gradients of module 'net.a'", "found forward"},
     [](Net& n) { n.a.reduce_gradients(); }},
    {At::forward,
     state,
     {"begin_backward of module 'net'", "found forward", "call post_forward"},
     [](Net& n) { n.context->begin_backward(); }},
    {At::forward,
     state,
     {"begin_inference of module 'net'", "found forward"},
     [](Net& n) { n.context->begin_inference(); }},
    {At::forward,
     state,
     {"skip_microbatch", "hooks of this micro-batch have run"},
     [](Net& n) { n.context->skip_microbatch(); }},
    {At::forward,
     Status::TYPE_MISMATCH,
     {"'net.a.w'", "handed out as f64", "asked for f32"},
     [](Net& n) { n.a.parameter("w", DType::f32); }},
    {At::between, state, {"skip_microbatch", "finish_backward"}, [](Net& n) { n.context->skip_microbatch(); }},
    {At::between, state, {"post_backward of module 'net.b'", "call pre_backward"}, [](Net& n) { n.b.post_backward(); }},
    {At::recomputed,
     state,
     {"pre_forward of module 'net.a'", "being recomputed", "call post_forward"},
     [](Net& n) { n.a.pre_forward(); }},
    {At::recomputed, state, {"pre_backward of module 'net.a'", "found forward"}, [](Net& n) { n.a.pre_backward(); }},
    {At::recomputed,
     state,
     {"pre_forward of module 'net.b'", "no use to recompute", "call finish_backward"},
     [](Net& n) { n.b.pre_forward(); }},
    {At::backward,
     state,
     {"pre_backward of module 'net.a'", "found backward", "call post_backward"},
     [](Net& n) { n.a.pre_backward(); }},
    {At::backward,
     state,
     {"post_forward of module 'net.a'", "found backward", "call post_backward"},
     [](Net& n) { n.a.post_forward(); }},
    {At::backward,
     state,
     {"reduce_gradients of module 'net.a'", "found backward"},
     [](Net& n) { n.a.reduce_gradients(); }},
    {At::backward, state, {"gradient 'net.a.fixed'", "frozen"}, [](Net& n) { n.a.gradient("v", DType::f64); }},
    {At::backward,
     Status::TYPE_MISMATCH,
     {"'net.a.w'", "taken as f64", "asked for bf16"},
     [](Net& n) { n.a.gradient("w", DType::bf16); }},
    {At::backward,
     argument,
     {"module 'net.a' has no parameter 'x'", "'fixed', 'w'"},
     [](Net& n) { n.a.gradient("x", DType::f64); }},
    {At::backward,
     state,
     {"zero_grad", "module 'net'", "call finish_backward"},
     [](Net& n) { n.context->zero_grad(); }},
    {At::backward, state, {"skip_microbatch", "hooks"}, [](Net& n) { n.context->skip_microbatch(); }},
    {At::closed,
     state,
     {"pre_backward of module 'net.a'", "1 forward and 1 backward"},
     [](Net& n) { n.a.pre_backward(); }},
    {At::closed, state, {"pre_forward of module 'net.a'", "call finish_backward"}, [](Net& n) { n.a.pre_forward(); }},
    {At::closed, state, {"zero_grad", "call finish_backward"}, [](Net& n) { n.context->zero_grad(); }},
    {At::closed,
     state,
     {"main_gradient 'net.a.w'", "finish_backward"},
     [](Net& n) { n.a.main_gradient("w", DType::f64); }},
    {At::finished,
     Status::TYPE_MISMATCH,
     {"'net.a.w'", "kept as f64", "asked for f32"},
     [](Net& n) { n.a.main_gradient("w", DType::f32); }},
    {At::inference, state, {"begin_inference", "already"}, [](Net& n) { n.context->begin_inference(); }},
    {At::inference, state, {"begin_backward", "end_inference"}, [](Net& n) { n.context->begin_backward(); }},
    {At::inference, state, {"finish_backward", "end_inference"}, [](Net& n) { n.context->finish_backward(); }},
    {At::inference, state, {"skip_microbatch", "end_inference"}, [](Net& n) { n.context->skip_microbatch(); }},
    {At::inference, state, {"pre_backward of module 'net.a'", "end_inference"}, [](Net& n) { n.a.pre_backward(); }},
    {At::inference,
     state,
     {"reduce_gradients of module 'net.a'", "end_inference"},
     [](Net& n) { n.a.reduce_gradients(); }},
    {At::inference,
     state,
     {"gradient of module 'net.a'", "expected the backward"},
     [](Net& n) { n.a.gradient("w", DType::f64); }},
};

TEST(AllErrors, Phases) { make_all(phase_mistakes); }

/// A micro-batch with a mistake that finish_backward reports, made by one rank or all.
struct Failure {
  Status status;
  bool by_all; ///< else by one rank
  std::vector<std::string> parts;
  std::function<void(Net&, bool makes_it)> micro_batch;
};

const std::vector<Failure> failures{
    {state,
     false,
     {"post_backward of module 'net.a'", "parameter 'w' got no gradient", "ask for it and write it"},
     [](Net& n, bool makes_it) {
       forward(n.a);
       forward(n.b);
       backward(n.b, 1);
       backward(n.a, 1, makes_it ? std::vector<std::string>{} : std::vector<std::string>{"w"});
     }},
    {state,
     true,
     {"module 'net.b'", "neither forward nor backward", "parameter 'w'", "say allow_unused", "skip_forward"},
     [](Net& n, bool) {
       forward(n.a);
       backward(n.a, 1);
     }},
    {state,
     true,
     {"module 'net.b'", "went forward 1 times but backward 0 times", "begin_inference"},
     [](Net& n, bool) {
       forward(n.a);
       forward(n.b);
       backward(n.a, 1);
     }},
    {state,
     true,
     {"module 'net.a'", "went forward 2 times but backward 1 times"},
     [](Net& n, bool) {
       forward(n.a);
       forward(n.a);
       backward(n.a, 1);
     }},
    {state,
     false,
     {"module 'net.a' is still in its forward phase"},
     [](Net& n, bool makes_it) {
       n.a.pre_forward();
       if (makes_it)
         return;
       n.a.post_forward();
       forward(n.b);
       backward(n.b, 1);
       backward(n.a, 1);
     }},
    {state,
     false,
     {"module 'net.a' is still in its backward phase"},
     [](Net& n, bool makes_it) {
       forward(n.a);
       forward(n.b);
       backward(n.b, 1);
       n.a.pre_backward();
       write(n.a, "w", 1);
       if (!makes_it)
         n.a.post_backward();
     }},
    {state,
     true,
     {"module 'net.a' has gradients", "not reduced", "call reduce_gradients"},
     [](Net& n, bool) {
       n.a.unshard();
       write(n.a, "w", 1);
       expect_error(state, [&] { n.a.reshard(); }, {"reshard of module 'net.a'", "call reduce_gradients"});
     }},
    {state,
     true,
     {"reduce_gradients of module 'net.a'", "parameter 'w' got no gradient"},
     [](Net& n, bool) { n.a.reduce_gradients(); }},
    {Status::USER_FAILURE,
     false,
     {"the disk is full"},
     [](Net& n, bool makes_it) {
       forward(n.a);
       if (makes_it)
         return n.context->fail_step("the disk is full");
       forward(n.b);
       backward(n.b, 1);
       backward(n.a, 1);
     }},
};

TEST(AllErrors, ReportedByFinishBackward) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Net net(mesh, recipe);
    for (const Failure& failure : failures)
      for (const int odd : {0, ranks - 1}) {
        SCOPED_TRACE(text(recipe) + (" " + failure.parts.front()));
        net.context->zero_grad();
        failure.micro_batch(net, failure.by_all || rank == odd);
        expect_refused(
            failure.status, [&] { net.context->finish_backward(); }, failure.parts);
        if (!failure.by_all)
          expect_error(state, [&] { net.sgd->step(); }, {"'net.a.w' has no complete gradient"});
        try {
          net.a.reshard();
        } catch (const Error&) { // only where it was unsharded
        }
        net.expect_weights();
        net.expect_trains();
        if (testing::Test::HasFailure())
          return;
      }
  }
}

TEST(AllErrors, WithoutZeroGrad) { // where gradients are complete after the last micro-batch
  const auto mesh = make_mesh();
  Net net(mesh, Recipe::no_shard);
  net.expect_trains();
  forward(net.a);
  for (const auto& hook : {&FsdpModule::pre_backward, &FsdpModule::skip_backward, &FsdpModule::reduce_gradients})
    expect_error(state, [&] { (net.a.*hook)(); }, {"module 'net.a'", "already reduced", "call zero_grad"});
  net.context->finish_backward();
  net.expect_trains();
}

} // namespace
} // namespace ostraka::fsdp::test
