// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/layout/boxes.hpp>

#include <algorithm>

namespace ostraka::layout {
namespace {

// Splits ranges at the borders of ever larger rows: a head inside a row, whole rows, a tail inside a row.
class Splitter {
public:
  explicit Splitter(std::span<const std::int64_t> shape) : shape_(shape), corner_(shape.size(), 0) {}

  // `elements` count from the begin of the sub-tensor at corner_ whose dimensions start at `dim`.
  void split(std::size_t dim, const Range& elements) {
    if (elements.size() == 0)
      return;
    if (dim == shape_.size())
      return emit(dim, 0, 0); // a scalar
    const std::int64_t row = numel(shape_.subspan(dim + 1));
    const std::int64_t first = elements.begin / row, last = elements.end / row;
    if (elements.begin % row != 0) {
      const std::int64_t head_end = std::min(elements.end, (first + 1) * row);
      inside_row(dim, first, {elements.begin - first * row, head_end - first * row});
      if (head_end < elements.end)
        split(dim, {head_end, elements.end});
      return;
    }
    if (last > first)
      emit(dim, first, last - first);
    if (elements.end % row != 0)
      inside_row(dim, last, {0, elements.end - last * row});
  }

  std::vector<Box> result;

private:
  void inside_row(std::size_t dim, std::int64_t index, const Range& elements) {
    corner_[dim] = index;
    split(dim + 1, elements);
    corner_[dim] = 0;
  }

  void emit(std::size_t dim, std::int64_t first, std::int64_t count) {
    Box box{corner_, Shape(shape_.size(), 1)};
    if (dim < shape_.size()) {
      box.offsets[dim] = first;
      box.sizes[dim] = count;
    }
    for (std::size_t inner = dim + 1; inner < shape_.size(); ++inner) {
      box.offsets[inner] = 0;
      box.sizes[inner] = shape_[inner];
    }
    result.push_back(std::move(box));
  }

  std::span<const std::int64_t> shape_;
  Shape corner_;
};

} // namespace

Range owned_elements(const Range& tensor, const Range& local) {
  const Range common = intersect(tensor, local);
  const std::int64_t begin = common.size() > 0 ? common.begin : std::clamp(local.begin, tensor.begin, tensor.end);
  return {begin - tensor.begin, begin - tensor.begin + common.size()};
}

RowChunk row_chunk(std::span<const std::int64_t> shape, const Range& elements) {
  const std::int64_t row = std::max<std::int64_t>(row_numel(shape), 1);
  if (elements.size() == 0)
    return {elements.begin / row, 0};
  expect(elements.begin % row == 0 && elements.end % row == 0, Status::INVALID_ARGUMENT, "row_chunk: elements [",
         elements.begin, ", ", elements.end, ") of a tensor of shape ", to_string(shape), " are not whole rows of ",
         row, "; boxes() describes them");
  return {elements.begin / row, elements.size() / row};
}

std::vector<Box> boxes(std::span<const std::int64_t> shape, const Range& elements) {
  const std::int64_t count = numel(shape);
  expect(elements.begin >= 0 && elements.begin <= elements.end && elements.end <= count, Status::INVALID_ARGUMENT,
         "boxes: expected elements inside [0, ", count, ") of a tensor of shape ", to_string(shape), ", found [",
         elements.begin, ", ", elements.end, ")");
  Splitter splitter(shape);
  splitter.split(0, elements);
  return std::move(splitter.result);
}

} // namespace ostraka::layout
