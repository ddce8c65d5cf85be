// SPDX-License-Identifier: Apache-2.0
// The planned builder with element atoms: cuts may fall anywhere, so only alignment costs padding.
#include <ostraka/base/checked.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/layout/global_layout.hpp>
#include <ostraka/layout/impl/describe.hpp>

#include <utility>

namespace ostraka::layout {
namespace {

struct Packing {
  std::vector<std::int64_t> offsets;
  std::int64_t end = 0;
};

Packing pack(const std::vector<Shape>& shapes, std::int64_t alignment) {
  Packing packing;
  packing.offsets.reserve(shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::int64_t count = impl::numel_of("build_planned", i, shapes[i]);
    if (count == 0) {
      // Aligned backwards: an empty tensor must neither cost padding nor start behind the buffer's end.
      packing.offsets.push_back(packing.end - packing.end % alignment);
      continue;
    }
    packing.offsets.push_back(impl::naming("build_planned", i, shapes[i], [&] {
      const std::int64_t offset = round_up(packing.end, alignment, "offset");
      packing.end = add(offset, count, "end");
      return offset;
    }));
  }
  return packing;
}

void check_arguments(int segments, const Alignment& alignment) {
  expect(segments >= 1, Status::INVALID_ARGUMENT, "build_planned: expected segments >= 1, found ", segments);
  expect(alignment.tensor >= 1, Status::INVALID_ARGUMENT, "build_planned: expected a tensor alignment >= 1, found ",
         alignment.tensor);
  expect(alignment.segment >= 1, Status::INVALID_ARGUMENT, "build_planned: expected a segment alignment >= 1, found ",
         alignment.segment);
}

} // namespace

GlobalLayout build_planned(std::vector<Shape> shapes, int segments, const Alignment& alignment) {
  check_arguments(segments, alignment);
  Packing packing = pack(shapes, alignment.tensor);
  const std::int64_t share = packing.end / segments + (packing.end % segments != 0 ? 1 : 0);
  const std::int64_t segment_size = round_up(share, alignment.segment, "build_planned: segment");
  return {Policy::planned, std::move(shapes), std::move(packing.offsets), segments, segment_size};
}

} // namespace ostraka::layout
