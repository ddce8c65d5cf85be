// SPDX-License-Identifier: Apache-2.0
// Hooks of modules without parameters, which some ranks leave out: they gather nothing for others.
#include "vectors.hpp"

namespace ostraka::fsdp::test {
namespace {

TEST(Container, RanksMayLeaveItsHooksOut) {
  const auto mesh = make_mesh();
  for (const bool in_backward : {false, true}) {
    const auto context = FsdpContext::create(mesh, make_config(Recipe::zero_3, layout::ReduceOp::sum));
    FsdpModule& container = context->add_module("container");
    std::vector<FsdpModule*> modules;
    for (const char* name : {"a", "b"})
      modules.push_back(&with_vectors(container.add_module(name), {{"w", 5}}));
    context->finalize();
    const bool has_hooks = rank == 0;
    for (int step = 1; step <= 3; ++step) { // each pass in another order than the one before
      context->zero_grad();
      if (has_hooks)
        container.pre_forward();
      for (int k = 0; k < 2; ++k)
        forward(*modules[(k + (in_backward ? 0 : step)) % 2]);
      if (has_hooks)
        container.post_forward();
      if (has_hooks)
        container.pre_backward();
      for (int k = 0; k < 2; ++k)
        backward(*modules[(k + (in_backward ? step + 1 : 0)) % 2], step);
      if (has_hooks)
        container.post_backward();
      context->finish_backward();
      for (const FsdpModule* module : modules)
        expect_gradient(*module, "w", step * ranks);
    }
  }
}

} // namespace
} // namespace ostraka::fsdp::test
