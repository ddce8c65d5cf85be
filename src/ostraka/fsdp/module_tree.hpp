// SPDX-License-Identifier: Apache-2.0
// How modules nest, and the order in which they are expected to run before anything is recorded.
// Source: spec/megatron_fsdp.md 3.6. Pure.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/fsdp/schedule.hpp>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ostraka::fsdp {

/// Modules are numbered in the order in which they are added.
class OSTRAKA_API ModuleTree {
public:
  /// Adds a root, or a child behind the other children of `parent`. Throws INVALID_ARGUMENT, naming the full name, when
  /// the name is empty or exists.
  int add(std::string name, std::optional<int> parent);

  int size() const { return static_cast<int>(nodes_.size()); }
  std::optional<int> parent(int module) const { return nodes_[module].parent; }
  const std::vector<int>& children(int module) const { return nodes_[module].children; }
  /// From the root: "root.child.grandchild".
  std::string full_name(int module) const;

  /// The hooks of a forward pass: roots as they were added, each around its children.
  std::vector<Event> forward() const;
  /// Of a backward pass: roots reversed, each around its children, which are reversed, too.
  std::vector<Event> backward() const;

private:
  struct Node {
    std::string name;
    std::optional<int> parent;
    std::vector<int> children;
  };
  void add_forward(const std::vector<int>& modules, std::vector<Event>& events) const;
  void add_backward(const std::vector<int>& modules, std::vector<Event>& events) const;

  std::vector<Node> nodes_;
  std::vector<int> roots_;
  std::set<std::string> full_names_; ///< names with dots may meet others than siblings
};

} // namespace ostraka::fsdp
