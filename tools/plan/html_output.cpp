// SPDX-License-Identifier: Apache-2.0
#include "page.hpp"
#include "quantity.hpp"
#include "render.hpp"
#include <ostraka/base/version.hpp>

#include <algorithm>
#include <array>
#include <string>

namespace ostraka::tool {
namespace {

std::string cell(std::int64_t bytes, const char* key) {
  return "<td data-key=\"" + std::string(key) + "\" data-value=\"" + std::to_string(bytes) + "\" title=\"" +
         grouped_text(bytes) + " bytes\">" + bytes_text(bytes) + "</td>";
}

std::string seconds_cell(double seconds, const char* key) {
  return "<td data-key=\"" + std::string(key) + "\">" + seconds_text(seconds) + "</td>";
}

std::string row(const Study& study, const Result& result) {
  if (!result.outcome.report)
    return "<tr data-recipe=\"" + result.recipe + "\"><th scope=\"row\">" + result.recipe +
           "</th><td class=\"reason\" colspan=\"11\">not possible: " + escaped(result.outcome.refused) + "</td></tr>\n";
  const plan::Report& report = result.report();
  const plan::Bytes& bytes = report.bytes;
  std::int64_t sent = 0;
  for (const plan::AxisTraffic& axis : report.axes)
    sent += axis.sent;
  const char* verdict = result.is_cheapest ? "cheapest" : !study.has_limit() ? "" : result.fits ? "fits" : "too large";
  std::string text = "<tr data-recipe=\"" + result.recipe + "\" class=\"" +
                     (result.is_cheapest ? "cheapest"
                      : result.fits      ? "fit"
                                         : "unfit") +
                     "\"><th scope=\"row\">" + result.recipe + "</th>";
  text += cell(bytes.model_weights, "model_weights") + cell(bytes.main_weights, "main_weights") +
          cell(bytes.main_gradients + bytes.addends, "gradients") + cell(bytes.moments, "moments") +
          cell(bytes.transient_peak, "transient_peak") + cell(bytes.peak, "peak") +
          cell(report.node_bytes.peak, "node_peak") + cell(sent, "sent");
  text += seconds_cell(report.step_s, "step_s") + seconds_cell(report.exposed_s, "exposed_s");
  return text + "<td data-key=\"verdict\">" + verdict + "</td></tr>\n";
}

std::string table(const Study& study, const Point& point) {
  std::string text = "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Numbers\"><table>\n"
                     "<caption>The rank that holds most; point at a number for its bytes</caption>\n<thead><tr>";
  for (const char* title : {"recipe", "weights", "main weights", "gradients", "moments", "buffers", "peak", "node",
                            "sent", "step", "exposed", ""})
    text += "<th scope=\"col\">" + std::string(title) + "</th>";
  text += "</tr></thead>\n<tbody>\n";
  for (const Result& result : point.results)
    text += row(study, result);
  return text + "</tbody></table></div>\n";
}

std::string steps(const Point& point) {
  std::string text;
  for (const Result& result : point.results) {
    text += "<figure class=\"step\" data-recipe=\"" + result.recipe + "\" hidden>\n";
    if (result.outcome.report)
      text += "<figcaption class=\"soft\">" + result.recipe + ": " + seconds_text(result.report().step_s) +
              ", of which arithmetic " + seconds_text(result.report().arithmetic_s) + ", exposed " +
              seconds_text(result.report().exposed_s) + "</figcaption>\n" + time_line_svg(result);
    else
      text += "<figcaption class=\"bad\">" + result.recipe + ": not possible: " + escaped(result.outcome.refused) +
              "</figcaption>\n";
    text += "</figure>\n";
  }
  return text;
}

std::string section(const Study& study, const Point& point) {
  const Result* shown = point.shown();
  return "<section class=\"point\" data-ranks=\"" + std::to_string(point.request.ranks()) + "\" data-shown=\"" +
         (shown ? shown->recipe : "") + "\" hidden>\n<h2>" + escaped(point_text(point)) + "</h2>\n" +
         bars_svg(study, {&point}) + table(study, point) + "<h2>One step</h2>\n" + steps(point) + "</section>\n";
}

std::string controls(const Study& study) {
  const std::string last = std::to_string(study.points.size() - 1);
  std::string text = "<div class=\"controls\">\n<div class=\"slider\"><label for=\"ranks\">Ranks</label>"
                     "<input type=\"range\" id=\"ranks\" min=\"0\" max=\"" +
                     last + "\" step=\"1\" value=\"0\"" + (study.points.size() == 1 ? " disabled" : "") +
                     "><output id=\"ranks-text\" for=\"ranks\" aria-live=\"polite\"></output></div>\n"
                     "<fieldset><legend>Time line</legend>\n<label><input type=\"radio\" name=\"recipe\" value=\"\" "
                     "checked> cheapest</label>\n";
  for (const Result& result : study.points.front().results)
    text +=
        "<label><input type=\"radio\" name=\"recipe\" value=\"" + result.recipe + "\"> " + result.recipe + "</label>\n";
  return text + "</fieldset>\n</div>\n";
}

std::string head(const Study& study) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\">\n<meta name=\"generator\" content=\"ostraka-plan " +
         std::string(OSTRAKA_VERSION_STRING) + "\">\n<link rel=\"icon\" href=\"data:,\">\n<title>" +
         escaped(model_text(study.model)) + "</title>\n<style>" + svg_style() + page_css + "</style>\n</head>\n";
}

} // namespace

std::string to_html(const Study& study) {
  std::string text = head(study) + "<body>\n<main>\n<h1>" + escaped(model_text(study.model)) +
                     "</h1>\n<p class=\"soft\">" + escaped(types_text(study)) + "; optimizer " +
                     name(study.points.front().request.optimizer) + "; " + std::to_string(study.options.micro_batches) +
                     (study.options.micro_batches == 1 ? " micro-batch" : " micro-batches") + "; memory limit " +
                     limit_text(study.limit) +
                     "</p>\n<noscript><p class=\"bad\">This page needs scripts to choose what is "
                     "shown.</p><style>[hidden] { display: block !important; }</style></noscript>\n";
  text += controls(study);
  for (const Point& point : study.points)
    text += section(study, point);
  return text + "</main>\n<script>" + page_js + "</script>\n</body>\n</html>\n";
}

} // namespace ostraka::tool
