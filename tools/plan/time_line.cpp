// SPDX-License-Identifier: Apache-2.0
// A step: what runs when on each track.
#include "drawing.hpp"
#include "quantity.hpp"
#include "render.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

namespace ostraka::tool {
namespace {

constexpr double lane_height = 30, box_height = 22, head_height = 24;
constexpr double thin = 0.75; // units of the picture: spans below are drawn together

struct Kind {
  const char* name;
  const char* title;
};
constexpr std::array kinds{Kind{"forward", "forward"},   Kind{"backward", "backward"}, Kind{"gather", "gathers"},
                           Kind{"reduce", "reductions"}, Kind{"update", "updates"},    Kind{"other", "other"}};

const char* kind_of(const std::string& operation) {
  if (operation == "forward" || operation == "backward" || operation == "update")
    return operation == "forward" ? "forward" : operation == "backward" ? "backward" : "update";
  if (operation == "allgather")
    return "gather";
  return operation == "reduce_scatter" || operation == "allreduce" ? "reduce" : "other";
}

/// Boxes of a track that has its top at y.
class Lane {
public:
  Lane(const plan::Report& report, plan::Span::Track track, double y) : report_(report), y_(y) {
    for (const plan::Span& span : report.spans)
      if (span.track == track)
        add(span);
    for (const char* kind : {"forward", "backward", "gather", "reduce", "update", "other"})
      flush(kind);
  }
  const std::string& text() const { return text_; }

private:
  struct Run {
    double begin = 0, end = -1;
  };

  double x(double seconds) const {
    return report_.step_s > 0 ? label_width + plot_width * seconds / report_.step_s : label_width;
  }

  void add(const plan::Span& span) {
    const char* kind = kind_of(span.operation);
    const double begin = x(span.begin_s), end = x(span.end_s);
    if (end - begin < thin) {
      add_thin(kind, begin, end);
      return;
    }
    const std::string module = span.module < 0 ? "" : " " + report_.modules[static_cast<std::size_t>(span.module)];
    std::string title = span.operation + module + ": " + seconds_text(span.end_s - span.begin_s) + " from " +
                        seconds_text(span.begin_s) + " on";
    if (span.bytes > 0)
      title += ", " + bytes_text(span.bytes);
    text_ += box_element(begin, y_, end - begin, box_height, kind, title);
  }

  /// Many thin spans are one path, or pages grow without anything more to see.
  void add_thin(const char* kind, double begin, double end) {
    Run& run = runs_[kind];
    if (run.end >= run.begin && begin - run.end > thin / 4)
      flush(kind);
    if (run.end < run.begin)
      run.begin = begin;
    run.end = std::max({run.end, end, run.begin});
  }

  void flush(const std::string& kind) {
    Run& run = runs_[kind];
    if (run.end < run.begin)
      return;
    text_ += "<path class=\"" + kind + "\" d=\"M" + at(run.begin) + " " + at(y_) + "h" +
             at(std::max(0.1, run.end - run.begin)) + "v" + at(box_height) + "H" + at(run.begin) + "z\"/>\n";
    run = {};
  }

  const plan::Report& report_;
  double y_;
  std::map<std::string, Run> runs_;
  std::string text_;
};

std::string axis(double step_s, double y) {
  std::string text;
  if (step_s <= 0)
    return text;
  const double tick = tick_step(step_s);
  for (double seconds = 0; seconds <= step_s * (1 + 1e-9); seconds += tick) {
    const double x = label_width + plot_width * seconds / step_s;
    text += "<path class=\"tick\" d=\"M" + at(x) + " " + at(head_height - 2) + "V" + at(y) + "\"/>\n" +
            text_element(x, y + 13, seconds_text(seconds), " text-anchor=\"middle\"");
  }
  return text;
}

std::string legend(double y) {
  std::string text;
  double x = label_width;
  for (const Kind& kind : kinds) {
    text += "<rect class=\"" + std::string(kind.name) + "\" x=\"" + at(x) + "\" y=\"" + at(y) +
            "\" width=\"10\" height=\"10\"/>\n" + text_element(x + 15, y + 9, kind.title);
    x += 100;
  }
  return text;
}

} // namespace

std::string time_line_svg(const Result& result) {
  using enum plan::Span::Track;
  const plan::Report& report = result.report();
  std::string lanes;
  double y = head_height + 4;
  for (const plan::Span::Track track : {compute, gather, reduce}) {
    lanes += text_element(label_width - 8, y + 15, name(track), " text-anchor=\"end\"") + Lane(report, track, y).text();
    y += lane_height;
  }
  const std::string label = "One step of " + result.recipe + ": " + seconds_text(report.step_s);
  return "<svg class=\"time-line\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"" + escaped(label) +
         "\" viewBox=\"0 0 " + at(picture_width) + " " + at(y + 20) + "\" width=\"" + at(picture_width) + "\">\n" +
         legend(4) + axis(report.step_s, y) + lanes + "</svg>\n";
}

} // namespace ostraka::tool
