// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/order.hpp>

namespace ostraka::fsdp {

void Order::expect_first(std::vector<int> modules) { recorded_ = std::move(modules); }

void Order::visit(int module) {
  if (follows_ && !visited_.empty() && visited_.size() == recorded_.size()) {
    ++complete_passes_; // another forward pass without a backward one between
    visited_.clear();
  }
  follows_ = follows_ && visited_.size() < recorded_.size() && recorded_[visited_.size()] == module;
  visited_.push_back(module);
}

std::optional<int> Order::next() const {
  if (!follows_ || visited_.size() == recorded_.size())
    return std::nullopt;
  return recorded_[visited_.size()];
}

void Order::finish() {
  if (!visited_.empty()) {
    std::vector<int> order;
    for (int i = 0; i < complete_passes_; ++i)
      order.insert(order.end(), recorded_.begin(), recorded_.end());
    order.insert(order.end(), visited_.begin(), visited_.end());
    recorded_ = std::move(order);
  }
  cancel();
}

void Order::cancel() {
  visited_.clear();
  complete_passes_ = 0;
  follows_ = true;
}

} // namespace ostraka::fsdp
