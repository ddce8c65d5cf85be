// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/layout/shape.hpp>

#include <algorithm>

namespace ostraka::layout {
namespace {

void check_extents(std::span<const std::int64_t> shape) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] < 0)
      fail(Status::INVALID_ARGUMENT, "elements of shape ", to_string(shape), ": expected extents >= 0, found ",
           shape[axis], " on axis ", axis);
}

/// The product of the extents from axis `first` on.
std::int64_t product_from(std::size_t first, std::span<const std::int64_t> shape) {
  check_extents(shape);
  const auto extents = shape.subspan(std::min(first, shape.size()));
  // A zero makes the product zero even where the other extents alone would leave 64 bits.
  if (std::find(extents.begin(), extents.end(), 0) != extents.end())
    return 0;
  std::int64_t product = 1;
  for (const std::int64_t extent : extents)
    if (__builtin_mul_overflow(product, extent, &product))
      fail(Status::INVALID_ARGUMENT, "elements of shape ", to_string(shape),
           ": expected a number within 64 bits, found more");
  return product;
}

} // namespace

std::int64_t numel(std::span<const std::int64_t> shape) { return product_from(0, shape); }

std::int64_t row_numel(std::span<const std::int64_t> shape) { return product_from(1, shape); }

std::int64_t rows(std::span<const std::int64_t> shape) { return shape.empty() ? 1 : shape.front(); }

std::string to_string(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    text += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
  return text + ")";
}

} // namespace ostraka::layout
