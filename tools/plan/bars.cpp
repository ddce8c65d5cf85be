// SPDX-License-Identifier: Apache-2.0
// Memory: a bar per result, of what its rank holds at the peak.
#include "drawing.hpp"
#include "quantity.hpp"
#include "render.hpp"

#include <algorithm>
#include <string>

namespace ostraka::tool {
namespace {

constexpr double row_height = 22, bar_height = 14, head_height = 24, point_gap = 8;

struct Scale {
  double most;        ///< bytes of the whole width
  std::int64_t limit; ///< per rank, 0: none is drawn
  double x(std::int64_t bytes) const { return plot_width * static_cast<double>(bytes) / most; }
};

Scale scale_of(const Study& study, const std::vector<const Point*>& points) {
  std::int64_t most = 1;
  for (const Point* point : points)
    for (const Result& result : point->results)
      if (result.outcome.report)
        most = std::max(most, result.report().bytes.peak);
  const std::int64_t limit = study.limit.rank_bytes.value_or(0);
  // A limit far beyond all bars would leave nothing to see of them.
  const bool is_near = limit > 0 && limit <= 4 * most;
  return {static_cast<double>(is_near ? std::max(most, limit) : most), is_near ? limit : 0};
}

std::string bar(const Result& result, const std::string& label, double y, const Scale& scale) {
  const plan::Bytes& bytes = result.report().bytes;
  std::string text = text_element(label_width - 8, y + bar_height - 2, label, " text-anchor=\"end\"");
  double x = label_width;
  for (const Part& part : parts_of(bytes)) {
    if (part.bytes == 0)
      continue;
    const std::string title =
        label + ": " + part.title + " " + bytes_text(part.bytes) + " (" + grouped_text(part.bytes) + " bytes)";
    text += box_element(x, y, scale.x(part.bytes), bar_height, part.kind, title,
                        " data-bytes=\"" + std::to_string(part.bytes) + "\"");
    x += scale.x(part.bytes);
  }
  const char* mark = result.is_cheapest ? " *" : "";
  return text + text_element(x + 6, y + bar_height - 2, bytes_text(bytes.peak) + mark,
                             result.fits ? " class=\"number\"" : " class=\"number unfit\"");
}

std::string legend(double y) {
  std::string text;
  double x = label_width;
  for (const Part& part : parts_of({})) {
    text += "<rect class=\"" + std::string(part.kind) + "\" x=\"" + at(x) + "\" y=\"" + at(y) +
            "\" width=\"10\" height=\"10\"/>\n" + text_element(x + 15, y + 9, part.title);
    x += 34 + 6.6 * static_cast<double>(std::string(part.title).size());
  }
  return text;
}

std::string limit_line(const Scale& scale, double height) {
  if (scale.limit == 0)
    return "";
  const double x = label_width + scale.x(scale.limit);
  return "<path class=\"limit\" d=\"M" + at(x) + " " + at(head_height - 4) + "V" + at(height) + "\"/>\n" +
         text_element(x, height + 12, "limit " + bytes_text(scale.limit),
                      " class=\"limit-text\" text-anchor=\"middle\"");
}

} // namespace

std::vector<Part> parts_of(const plan::Bytes& bytes) {
  return {{"weights", "weights", bytes.model_weights},
          {"main", "main weights", bytes.main_weights},
          {"gradients", "gradients", bytes.main_gradients + bytes.addends},
          {"moments", "moments", bytes.moments},
          {"buffers", "buffers", bytes.transient_peak}};
}

std::string bars_svg(const Study& study, const std::vector<const Point*>& points) {
  const Scale scale = scale_of(study, points);
  std::string rows;
  double y = head_height;
  for (const Point* point : points) {
    y += point == points.front() ? 0 : point_gap;
    for (const Result& result : point->results) {
      if (!result.outcome.report)
        continue;
      const std::string ranks = points.size() > 1 ? std::to_string(point->request.ranks()) + " " : "";
      rows += bar(result, ranks + result.recipe, y, scale);
      y += row_height;
    }
  }
  const double height = y + 16;
  return "<svg class=\"bars\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"Bytes of a rank at the "
         "peak\" "
         "viewBox=\"0 0 " +
         at(picture_width) + " " + at(height) + "\" width=\"" + at(picture_width) + "\">\n" + legend(4) + rows +
         limit_line(scale, y) + "</svg>\n";
}

} // namespace ostraka::tool
