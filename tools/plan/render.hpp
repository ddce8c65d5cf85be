// SPDX-License-Identifier: Apache-2.0
// What a study looks like.
#pragma once

#include "study.hpp"

#include <string>
#include <vector>

namespace ostraka::tool {

/// For a terminal of 100 columns.
std::string to_table(const Study& study);

/// One document with everything, format `json_version`; docs/guide describes it.
inline constexpr int json_version = 1;
std::string to_json(const Study& study);

/// The bytes that a bar of memory is made of: they add up to Bytes::peak.
struct Part {
  const char* kind; ///< also the class in style sheets
  const char* title;
  std::int64_t bytes;
};
std::vector<Part> parts_of(const plan::Bytes& bytes);

/// A picture of its own: bars of all results, and the time line of the cheapest one on the last number of ranks.
std::string to_svg(const Study& study);

/// Elements <svg> inside a page that has svg_style: the peaks of a point, and the step of a result.
std::string bars_svg(const Study& study, const std::vector<const Point*>& points);
std::string time_line_svg(const Result& result);
std::string svg_style();

/// One page without references to others.
std::string to_html(const Study& study);

/// For text and attributes of XML and HTML.
std::string escaped(const std::string& text);

} // namespace ostraka::tool
