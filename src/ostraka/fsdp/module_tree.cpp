// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/fsdp/module_tree.hpp>

#include <algorithm>

namespace ostraka::fsdp {

int ModuleTree::add(std::string name, std::optional<int> parent) {
  const std::string full = parent ? full_name(*parent) + "." + name : name;
  expect(!name.empty(), Status::INVALID_ARGUMENT, "add_module: the name is empty");
  expect(full_names_.insert(full).second, Status::INVALID_ARGUMENT, "add_module: '", full, "' exists already");
  const int module = size();
  nodes_.push_back({std::move(name), parent, {}});
  (parent ? nodes_[*parent].children : roots_).push_back(module);
  return module;
}

std::string ModuleTree::full_name(int module) const {
  const Node& node = nodes_[module];
  return node.parent ? full_name(*node.parent) + "." + node.name : node.name;
}

std::vector<Event> ModuleTree::forward() const {
  std::vector<Event> events;
  add_forward(roots_, events);
  return events;
}

std::vector<Event> ModuleTree::backward() const {
  std::vector<Event> events;
  add_backward(roots_, events);
  return events;
}

void ModuleTree::add_forward(const std::vector<int>& modules, std::vector<Event>& events) const {
  for (const int module : modules) {
    events.push_back({module, Hook::pre_forward});
    add_forward(nodes_[module].children, events);
    events.push_back({module, Hook::post_forward});
  }
}

void ModuleTree::add_backward(const std::vector<int>& modules, std::vector<Event>& events) const {
  for (auto module = modules.rbegin(); module != modules.rend(); ++module) {
    events.push_back({*module, Hook::pre_backward});
    add_backward(nodes_[*module].children, events);
    events.push_back({*module, Hook::post_backward});
  }
}

} // namespace ostraka::fsdp
