// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/order.hpp>

#include <algorithm>

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

std::span<const int> Order::upcoming() const {
  if (!follows_)
    return {};
  return std::span(recorded_).subspan(visited_.size());
}

std::span<const int> Order::after(int module) const {
  const auto begin = recorded_.begin(), end = recorded_.end();
  const auto now = begin + static_cast<std::ptrdiff_t>(follows_ ? visited_.size() : 0);
  auto found = std::find(now, end, module);
  if (found == end)
    found = std::find(begin, now, module);
  if (found == now && (now == end || *now != module))
    return {};
  return {found + 1, end};
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
