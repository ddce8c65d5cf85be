// SPDX-License-Identifier: Apache-2.0
// Names tensors in error texts, for the files of this room only.
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/layout/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ostraka::layout::impl {

/// "tensor 2 of shape (5, 3)"
inline std::string describe(std::size_t index, std::span<const std::int64_t> shape) {
  return "tensor " + std::to_string(index) + " of shape " + to_string(shape);
}

/// Runs `action`; an error that it throws is thrown again with the operation and the tensor named in front.
template <class Action>
auto naming(std::string_view operation, std::size_t index, std::span<const std::int64_t> shape, Action action) {
  try {
    return action();
  } catch (const Error& error) {
    fail(error.status(), operation, ": ", describe(index, shape), ": ", error.what());
  }
}

/// numel(shape) of tensor `index`.
inline std::int64_t numel_of(std::string_view operation, std::size_t index, std::span<const std::int64_t> shape) {
  return naming(operation, index, shape, [&] { return numel(shape); });
}

} // namespace ostraka::layout::impl
