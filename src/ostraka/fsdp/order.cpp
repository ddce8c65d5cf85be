// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/order.hpp>

namespace ostraka::fsdp {

void Order::expect_first(std::vector<int> modules) { recorded_ = std::move(modules); }

void Order::visit(int module) {
  if (follows_ && visited_.size() == recorded_.size())
    finish(); // another forward pass without a backward one between
  follows_ = follows_ && recorded_[visited_.size()] == module;
  visited_.push_back(module);
}

std::optional<int> Order::next() const {
  if (!follows_ || visited_.size() == recorded_.size())
    return std::nullopt;
  return recorded_[visited_.size()];
}

void Order::finish() {
  if (!visited_.empty())
    recorded_ = visited_;
  cancel();
}

void Order::cancel() {
  visited_.clear();
  follows_ = true;
}

} // namespace ostraka::fsdp
