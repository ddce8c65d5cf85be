// SPDX-License-Identifier: Apache-2.0
#include "drawing.hpp"
#include "quantity.hpp"
#include "render.hpp"

#include <string>

namespace ostraka::tool {
namespace {

/// The height that an element <svg> says in its viewBox.
double height_of(const std::string& svg) {
  const std::string begin = "viewBox=\"0 0 " + at(picture_width) + " ";
  return std::strtod(svg.c_str() + svg.find(begin) + begin.size(), nullptr);
}

std::string moved(const std::string& svg, double y) {
  const std::string begin = "<svg ";
  return begin + "y=\"" + at(y) + "\" height=\"" + at(height_of(svg)) + "\" " + svg.substr(begin.size());
}

} // namespace

std::string svg_style() {
  // Colours that differ for all kinds of sight, on light and on dark.
  return R"(
svg { font: 12px system-ui, sans-serif; color-scheme: light dark; }
svg text { fill: #1c1c1c; paint-order: stroke; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round; }
.title { font-size: 16px; font-weight: 600; }
.weights, .backward { fill: #0072b2; } .main { fill: #56b4e9; } .gradients, .gather { fill: #e69f00; }
.moments, .forward { fill: #009e73; } .buffers, .update { fill: #cc79a7; } .reduce { fill: #d55e00; } .other { fill: #8a8a8a; }
.limit { stroke: #b00020; stroke-width: 1.5; stroke-dasharray: 5 3; fill: none; }
svg text.limit-text, svg text.unfit { fill: #b00020; }
.tick { stroke: #8a8a8a66; stroke-width: 1; fill: none; }
.paper { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  svg text { fill: #e8e8e8; stroke: #16181c; }
  .limit { stroke: #ff8a80; }
  svg text.limit-text, svg text.unfit { fill: #ff8a80; }
  .paper { fill: #16181c; }
}
)";
}

std::string to_svg(const Study& study) {
  std::vector<const Point*> points;
  for (const Point& point : study.points)
    points.push_back(&point);
  const Point& last = *points.back();
  const std::string bars = bars_svg(study, points);
  double y = 64 + height_of(bars);
  std::string content = text_element(20, 28, model_text(study.model), " class=\"title\"") +
                        text_element(20, 48, point_text(last) + "; memory limit " + limit_text(study.limit)) +
                        moved(bars, 60);
  if (const Result* shown = last.shown()) {
    const std::string line = time_line_svg(*shown);
    const plan::Report& report = shown->report();
    content += text_element(20, y + 20,
                            "One step of " + shown->recipe + " on " + std::to_string(last.request.ranks()) +
                                " ranks: " + seconds_text(report.step_s) + ", of which " +
                                seconds_text(report.exposed_s) + " are not hidden behind arithmetic",
                            " class=\"title\"") +
               moved(line, y + 32);
    y += 40 + height_of(line);
  }
  const std::string size = at(picture_width) + " " + at(y + 10);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\">\n<title>" +
         escaped(model_text(study.model)) + "</title>\n<style>" + svg_style() +
         "</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n" + content + "</svg>\n";
}

} // namespace ostraka::tool
