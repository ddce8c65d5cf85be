// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/layout.h>
#include <ostraka/layout/boxes.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/layout/report.hpp>

using namespace ostraka;
using namespace ostraka::capi;

ostraka_layout_t ostraka::capi::make_layout(buffer::LayoutPtr layout) {
  const layout::LayoutReport report = layout::report(*layout);
  return make_handle<ostraka_layout_t>(std::make_shared<LayoutObject>(
      LayoutObject{std::move(layout), layout::to_text(report), layout::to_json(report)}));
}

namespace {

ostraka_layout_t make_layout(layout::GlobalLayout layout) {
  return ostraka::capi::make_layout(std::make_shared<layout::GlobalLayout>(std::move(layout)));
}

const layout::GlobalLayout& layout_of(ostraka_layout_t handle) { return *get(handle)->layout; }

layout::Atoms to_atoms(std::int32_t count, const ostraka_atom_t* atoms) {
  expect(count >= 0, Status::INVALID_ARGUMENT, "expected a number of atoms >= 0, found ", count);
  expect(count == 0 || atoms != nullptr, Status::INVALID_ARGUMENT, "'atoms' is null");
  layout::Atoms result;
  for (std::int32_t i = 0; i < count; ++i)
    result.push_back({static_cast<layout::Atom::Kind>(atoms[i].kind), atoms[i].count});
  return result;
}

template <class T>
std::span<const T> to_span(std::int32_t count, const T* values, const char* what) {
  expect(count >= 0, Status::INVALID_ARGUMENT, "expected a number of ", what, " >= 0, found ", count);
  expect(count == 0 || values != nullptr, Status::INVALID_ARGUMENT, "'", what, "' is null");
  return {values, static_cast<std::size_t>(count)};
}

void from_range(const layout::Range& range, std::int64_t* begin, std::int64_t* end) {
  std::int64_t& first = output(begin, "begin");
  output(end, "end") = range.end;
  first = range.begin;
}

// The elements of tensor `index` inside an absolute range, counted from the tensor's first.
layout::Range elements_of(const layout::GlobalLayout& layout, std::int32_t index, const layout::Range& absolute) {
  return layout::owned_elements(layout.tensor_range(index), absolute);
}

} // namespace

extern "C" {

ostraka_status_t ostraka_layout_build(int32_t policy, int32_t num_tensors, const ostraka_shape_t* shapes,
                                      int32_t num_atoms, const ostraka_atom_t* atoms, int32_t segments,
                                      int64_t tensor_alignment, int64_t segment_multiple, ostraka_layout_t* layout) {
  return wall(__func__, [&] {
    ostraka_layout_t& result = output(layout, "layout"); // before there is something to lose
    result = make_layout(layout::build(static_cast<layout::Policy>(policy), to_shapes(num_tensors, shapes), segments,
                                       {tensor_alignment, segment_multiple}, to_atoms(num_atoms, atoms)));
  });
}

ostraka_status_t ostraka_layout_tensor_atomic(int32_t num_tensors, const ostraka_shape_t* shapes, const int32_t* owners,
                                              int32_t segments, ostraka_layout_t* layout) {
  return wall(__func__, [&] {
    ostraka_layout_t& result = output(layout, "layout");
    result = make_layout(
        layout::build_tensor_atomic(to_shapes(num_tensors, shapes), segments, to_span(num_tensors, owners, "owners")));
  });
}

ostraka_status_t ostraka_layout_plan_owners(int32_t num_layouts, const ostraka_layout_t* layouts, int64_t steps,
                                            int32_t* owners) {
  return wall(__func__, [&] {
    std::vector<layout::GlobalLayout> groups;
    for (const ostraka_layout_t handle : to_span(num_layouts, layouts, "layouts"))
      groups.push_back(layout_of(handle));
    int32_t* next = &output(owners, "owners");
    for (const std::vector<int>& planned : layout::plan_owners(groups, steps))
      next = std::copy(planned.begin(), planned.end(), next);
  });
}

ostraka_status_t ostraka_layout_destroy(ostraka_layout_t* layout) {
  return wall(__func__, [&] { remove(layout); });
}

ostraka_status_t ostraka_layout_policy(ostraka_layout_t layout, int32_t* policy) {
  return wall(__func__, [&] { output(policy, "policy") = static_cast<int32_t>(layout_of(layout).policy()); });
}

ostraka_status_t ostraka_layout_num_tensors(ostraka_layout_t layout, int32_t* num_tensors) {
  return wall(__func__, [&] { output(num_tensors, "num_tensors") = layout_of(layout).num_tensors(); });
}

ostraka_status_t ostraka_layout_size(ostraka_layout_t layout, int64_t* size) {
  return wall(__func__, [&] { output(size, "size") = layout_of(layout).size(); });
}

ostraka_status_t ostraka_layout_payload(ostraka_layout_t layout, int64_t* payload) {
  return wall(__func__, [&] { output(payload, "payload") = layout_of(layout).payload(); });
}

ostraka_status_t ostraka_layout_segment_size(ostraka_layout_t layout, int64_t* segment_size) {
  return wall(__func__, [&] { output(segment_size, "segment_size") = layout_of(layout).segment_size(); });
}

ostraka_status_t ostraka_layout_num_segments(ostraka_layout_t layout, int32_t* num_segments) {
  return wall(__func__, [&] { output(num_segments, "num_segments") = layout_of(layout).segments(); });
}

ostraka_status_t ostraka_layout_tensor_shape(ostraka_layout_t layout, int32_t index, int32_t* ndim, int64_t* extents) {
  return wall(__func__, [&] { from_shape(layout_of(layout).shape(index), ndim, extents); });
}

ostraka_status_t ostraka_layout_tensor_range(ostraka_layout_t layout, int32_t index, int64_t* begin, int64_t* end) {
  return wall(__func__, [&] { from_range(layout_of(layout).tensor_range(index), begin, end); });
}

ostraka_status_t ostraka_layout_segment_range(ostraka_layout_t layout, int32_t segment, int64_t* begin, int64_t* end) {
  return wall(__func__, [&] { from_range(layout_of(layout).segment_range(segment), begin, end); });
}

ostraka_status_t ostraka_layout_owners(ostraka_layout_t layout, int32_t index, int32_t* first, int32_t* last) {
  return wall(__func__, [&] {
    const layout::GlobalLayout::Owners owners = layout_of(layout).owners(index);
    int32_t& low = output(first, "first");
    output(last, "last") = owners.last;
    low = owners.first;
  });
}

ostraka_status_t ostraka_layout_local_range(ostraka_layout_t layout, int32_t dims,
                                            const ostraka_placement_t* placements, const int32_t* sizes,
                                            const int32_t* coordinates, int64_t* begin, int64_t* end) {
  return wall(__func__, [&] {
    const layout::MeshPosition position{to_span(dims, sizes, "sizes"), to_span(dims, coordinates, "coordinates")};
    from_range(layout_of(layout).local_range(to_placements(placements, dims), position), begin, end);
  });
}

ostraka_status_t ostraka_layout_row_chunk(ostraka_layout_t layout, int32_t index, int64_t begin, int64_t end,
                                          int64_t* first_row, int64_t* num_rows) {
  return wall(__func__, [&] {
    const layout::GlobalLayout& of = layout_of(layout);
    const layout::RowChunk chunk = layout::row_chunk(of.shape(index), elements_of(of, index, {begin, end}));
    int64_t& first = output(first_row, "first_row");
    output(num_rows, "num_rows") = chunk.num_rows;
    first = chunk.first_row;
  });
}

ostraka_status_t ostraka_layout_boxes(ostraka_layout_t layout, int32_t index, int64_t begin, int64_t end,
                                      int32_t max_boxes, int64_t* offsets, int64_t* sizes, int32_t* num_boxes) {
  return wall(__func__, [&] {
    const layout::GlobalLayout& of = layout_of(layout);
    const auto boxes = layout::boxes(of.shape(index), elements_of(of, index, {begin, end}));
    from_boxes(boxes, max_boxes, offsets, sizes, num_boxes);
  });
}

ostraka_status_t ostraka_layout_validate(ostraka_layout_t layout, int32_t num_atoms, const ostraka_atom_t* atoms) {
  return wall(__func__, [&] { layout::validate_atoms(layout_of(layout), to_atoms(num_atoms, atoms)); });
}

ostraka_status_t ostraka_layout_hash(ostraka_layout_t layout, int64_t* hash) {
  return wall(__func__, [&] { output(hash, "hash") = layout_of(layout).hash(); });
}

ostraka_status_t ostraka_layout_report(ostraka_layout_t layout, const char** text) {
  return wall(__func__, [&] { output(text, "text") = get(layout)->report.c_str(); });
}

ostraka_status_t ostraka_layout_report_json(ostraka_layout_t layout, const char** text) {
  return wall(__func__, [&] { output(text, "text") = get(layout)->report_json.c_str(); });
}
}
