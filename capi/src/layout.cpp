// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/layout.h>

using namespace ostraka;
using namespace ostraka::capi;

namespace {

ostraka_layout_t make_layout(layout::GlobalLayout layout) {
  std::string report = layout::report(layout);
  return make_handle<ostraka_layout_t>(std::make_shared<LayoutObject>(
      LayoutObject{std::make_shared<layout::GlobalLayout>(std::move(layout)), std::move(report)}));
}

} // namespace

extern "C" {

ostraka_status_t ostraka_layout_reference(int32_t num_tensors, const ostraka_shape_t* shapes, int32_t segments,
                                          ostraka_layout_t* layout) {
  return wall(__func__, [&] {
    ostraka_layout_t& result = output(layout, "layout"); // before there is something to lose
    result = make_layout(layout::build_reference(to_shapes(num_tensors, shapes), segments));
  });
}

ostraka_status_t ostraka_layout_planned(int32_t num_tensors, const ostraka_shape_t* shapes, int32_t segments,
                                        int64_t tensor_alignment, int64_t segment_multiple, ostraka_layout_t* layout) {
  return wall(__func__, [&] {
    ostraka_layout_t& result = output(layout, "layout");
    result = make_layout(
        layout::build_planned(to_shapes(num_tensors, shapes), segments, {tensor_alignment, segment_multiple}));
  });
}

ostraka_status_t ostraka_layout_destroy(ostraka_layout_t* layout) {
  return wall(__func__, [&] { remove(layout); });
}

ostraka_status_t ostraka_layout_size(ostraka_layout_t layout, int64_t* size) {
  return wall(__func__, [&] { output(size, "size") = get(layout)->layout->size(); });
}

ostraka_status_t ostraka_layout_payload(ostraka_layout_t layout, int64_t* payload) {
  return wall(__func__, [&] { output(payload, "payload") = get(layout)->layout->payload(); });
}

ostraka_status_t ostraka_layout_segment_size(ostraka_layout_t layout, int64_t* segment_size) {
  return wall(__func__, [&] { output(segment_size, "segment_size") = get(layout)->layout->segment_size(); });
}

ostraka_status_t ostraka_layout_num_tensors(ostraka_layout_t layout, int32_t* num_tensors) {
  return wall(__func__, [&] { output(num_tensors, "num_tensors") = get(layout)->layout->num_tensors(); });
}

ostraka_status_t ostraka_layout_tensor_shape(ostraka_layout_t layout, int32_t index, int32_t* ndim, int64_t* extents) {
  return wall(__func__, [&] { from_shape(get(layout)->layout->shape(index), ndim, extents); });
}

ostraka_status_t ostraka_layout_tensor_range(ostraka_layout_t layout, int32_t index, int64_t* begin, int64_t* end) {
  return wall(__func__, [&] {
    const layout::Range range = get(layout)->layout->tensor_range(index);
    output(begin, "begin") = range.begin;
    output(end, "end") = range.end;
  });
}

ostraka_status_t ostraka_layout_report(ostraka_layout_t layout, const char** text) {
  return wall(__func__, [&] { output(text, "text") = get(layout)->report.c_str(); });
}
}
