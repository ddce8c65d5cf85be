// SPDX-License-Identifier: Apache-2.0
// Spec 3.6: orders of modules that nest.
#include "support/expect_error.hpp"
#include <ostraka/fsdp/module_tree.hpp>

#include <gtest/gtest.h>

namespace ostraka::fsdp::test {
namespace {

using ostraka::test::expect_error;
using Names = std::vector<std::string>;

/// What is gathered in this order, by name.
Names gathered(const ModuleTree& tree, const std::vector<Event>& events, Hook begin) {
  Names names;
  for (const int module : gathers(events, begin))
    names.push_back(tree.full_name(module));
  return names;
}
Names forward(const ModuleTree& tree) { return gathered(tree, tree.forward(), Hook::pre_forward); }
Names backward(const ModuleTree& tree) { return gathered(tree, tree.backward(), Hook::pre_backward); }

TEST(ModuleTree, ExampleOfOneRoot) { // model{left{inner}, right}
  ModuleTree tree;
  const int model = tree.add("model", {});
  const int left = tree.add("left", model);
  tree.add("right", model);
  tree.add("inner", left); // added last, but runs inside left
  EXPECT_EQ(forward(tree), (Names{"model", "model.left", "model.left.inner", "model.right"}));
  EXPECT_EQ(backward(tree), (Names{"model", "model.right", "model.left", "model.left.inner"}));
}

TEST(ModuleTree, ExampleOfTwoRoots) {
  ModuleTree tree;
  const int left = tree.add("left", {});
  tree.add("inner", left);
  tree.add("right", {});
  EXPECT_EQ(forward(tree), (Names{"left", "left.inner", "right"}));
  EXPECT_EQ(backward(tree), (Names{"right", "left", "left.inner"}));
}

TEST(ModuleTree, ExampleOfTwoLayers) {
  ModuleTree tree;
  tree.add("l0", {});
  tree.add("l1", {});
  EXPECT_EQ(forward(tree), (Names{"l0", "l1"}));
  EXPECT_EQ(backward(tree), (Names{"l1", "l0"}));
}

TEST(ModuleTree, AModuleRunsAroundItsChildren) {
  ModuleTree tree;
  const int model = tree.add("model", {});
  tree.add("a", model);
  tree.add("b", model);
  using enum Hook;
  EXPECT_EQ(tree.forward(), (std::vector<Event>{{0, pre_forward},
                                                {1, pre_forward},
                                                {1, post_forward},
                                                {2, pre_forward},
                                                {2, post_forward},
                                                {0, post_forward}}));
  EXPECT_EQ(tree.backward(), (std::vector<Event>{{0, pre_backward},
                                                 {2, pre_backward},
                                                 {2, post_backward},
                                                 {1, pre_backward},
                                                 {1, post_backward},
                                                 {0, post_backward}}));
}

TEST(ModuleTree, FamiliesAndNames) {
  ModuleTree tree;
  const int model = tree.add("model", {}), other = tree.add("other", {});
  const int a = tree.add("a", model);
  EXPECT_EQ(tree.add("a", other), 3); // distinct among siblings only
  EXPECT_EQ(tree.parent(a), model);
  EXPECT_FALSE(tree.parent(model).has_value());
  EXPECT_EQ(tree.children(model), std::vector<int>{a});
  expect_error(Status::INVALID_ARGUMENT, [&] { tree.add("a", model); }, {"'model.a'", "exists"});
  expect_error(Status::INVALID_ARGUMENT, [&] { tree.add("", a); }, {"empty"});
  expect_error(Status::INVALID_ARGUMENT, [&] { tree.add("model.a", {}); }, {"'model.a'", "exists"});
  EXPECT_EQ(tree.size(), 4);
}

} // namespace
} // namespace ostraka::fsdp::test
