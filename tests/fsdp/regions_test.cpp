// SPDX-License-Identifier: Apache-2.0
// What a Kokkos tool sees of hooks.
#include "vectors.hpp"

#include <Kokkos_Core.hpp>

namespace ostraka::fsdp::test {
namespace {

std::vector<std::string> log;

void push(const char* name) { log.push_back(name); }
void pop() { log.emplace_back("end"); }

TEST(Regions, OfHooksGathersAndReductions) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh);
  FsdpModule& root = context->add_module("root");
  FsdpModule& module = with_vectors(root.add_module("m"), {{"w", 5}});
  context->finalize();
  const auto hooks = [&] {
    forward(module);
    backward(module, 1);
    context->finish_backward();
    context->zero_grad();
  };
  hooks();
  EXPECT_TRUE(log.empty());
  Kokkos::Tools::Experimental::set_push_region_callback(push);
  Kokkos::Tools::Experimental::set_pop_region_callback(pop);
  hooks();
  Kokkos::Tools::Experimental::set_push_region_callback(nullptr);
  Kokkos::Tools::Experimental::set_pop_region_callback(nullptr);
  std::vector<std::string> ours;
  int depth = 0;
  for (const std::string& entry : log) {
    depth += entry == "end" ? -1 : 1;
    EXPECT_GE(depth, 0);
    if (entry.starts_with("ostraka::fsdp::"))
      ours.push_back(entry.substr(15));
  }
  EXPECT_EQ(depth, 0);
  EXPECT_EQ(ours, (std::vector<std::string>{"pre_forward root.m", "gather root.m", "post_forward root.m",
                                            "pre_backward root.m", "gather root.m", "post_backward root.m",
                                            "reduce root.m"}));
}

} // namespace
} // namespace ostraka::fsdp::test
