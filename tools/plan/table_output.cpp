// SPDX-License-Identifier: Apache-2.0
#include "quantity.hpp"
#include "render.hpp"
#include "table.hpp"
#include "text.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>

namespace ostraka::tool {
namespace {

const char* mark(const Result& result) { return result.is_cheapest ? "*" : result.fits ? "+" : "-"; }

/// The unit in which all bytes of the table are written: that of the least peak, so that no number is a tiny fraction.
ByteUnit unit_of(const Study& study) {
  std::int64_t least = INT64_MAX;
  for (const Point& point : study.points)
    for (const Result& result : point.results)
      if (result.outcome.report)
        least = std::min(least, result.report().bytes.peak);
  return unit_for(least);
}

std::string percent(double part, double whole) {
  return whole > 0 ? digits_text(std::max(0.0, 100 * part / whole)).substr(0, 4) + " %" : "-";
}

std::int64_t sent_of(const plan::Report& report) {
  std::int64_t sent = 0;
  for (const plan::AxisTraffic& axis : report.axes)
    sent += axis.sent;
  return sent;
}

Row numbers(const Result& result, const ByteUnit& unit) {
  const plan::Report& report = result.report();
  const plan::Bytes& bytes = report.bytes;
  Row row;
  for (const std::int64_t value :
       {bytes.model_weights, bytes.main_gradients + bytes.addends, bytes.main_weights + bytes.moments,
        bytes.transient_peak, bytes.peak, report.node_bytes.peak, sent_of(report)})
    row.push_back(digits_text(static_cast<double>(value) / unit.bytes));
  row.push_back(seconds_text(report.step_s));
  row.push_back(percent(report.exposed_s, report.step_s));
  return row;
}

/// Where there are several numbers of ranks they stand first.
Row first_cells(const Study& study, const Point& point) {
  return study.points.size() > 1 ? Row{std::to_string(point.request.ranks())} : Row{};
}

Row joined(Row row, const Row& more) {
  row.insert(row.end(), more.begin(), more.end());
  return row;
}

/// The table; numbers stand right, names of recipes left.
std::string rows_text(const Study& study, const std::vector<Row>& rows, std::size_t names) {
  std::vector<bool> right(study.points.size() > 1 ? 1 : 0, true);
  right.resize(right.size() + names, false);
  for (const Row& row : rows)
    right.resize(std::max(right.size(), row.size()), true);
  return table_text(rows, right);
}

/// Reasons that differ by the recipe's name only are one.
std::string without(std::string reason, const std::string& recipe) {
  const std::string begin = "recipe " + recipe + ": ";
  return reason.starts_with(begin) ? reason.substr(begin.size()) : reason;
}

/// Lines of up to 100 columns; those behind the first are indented.
std::string wrapped(const std::string& text) {
  std::string lines, line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!line.empty() && width(line) + 1 + width(word) > 100) {
      lines += line + "\n";
      line = " ";
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return lines + line + "\n";
}

/// Each recipe that is not possible once, with a reason; meshes of several numbers of ranks have equal axes.
std::string refused_text(const Study& study) {
  std::map<std::string, std::string> recipes_of; // [reason]
  for (const Result& result : study.points.front().results)
    if (!result.outcome.report) {
      std::string& names = recipes_of[without(result.outcome.refused, result.recipe)];
      names += (names.empty() ? "" : ", ") + result.recipe;
    }
  std::string text;
  for (const auto& [reason, names] : recipes_of)
    text += wrapped("Not possible: " + names + ": " + printable(reason));
  return text;
}

std::string results_text(const Study& study, const ByteUnit& unit) {
  const Row ranks = study.points.size() > 1 ? Row{"RANKS"} : Row{};
  std::vector<Row> rows{
      joined(ranks, {"", "RECIPE", "WEIGHTS", "GRADS", "STATE", "BUFFERS", "PEAK", "NODE", "SENT", "STEP", "EXPOSED"})};
  for (const Point& point : study.points)
    for (const Result& result : point.results)
      if (result.outcome.report)
        rows.push_back(joined(joined(first_cells(study, point), {mark(result), result.recipe}), numbers(result, unit)));
  return rows_text(study, rows, 2) + refused_text(study);
}

std::string legend(const Study& study) {
  std::string text =
      "Of the rank that holds most. STATE: main weights and moments. BUFFERS: gathered weights and gradient\n"
      "slots. PEAK: all of these. NODE: all ranks of the node. SENT: in a step. EXPOSED: of STEP, what no\n"
      "arithmetic hides. ";
  text += study.has_limit() ? "* cheapest (least STEP, then PEAK) that fits; + fits; - does not.\n"
                            : "* cheapest: least STEP, then PEAK.\n";
  const Result* shown = study.points.front().shown();
  if (shown && shown->report().arithmetic_s == 0)
    text += "No unit says its seconds of arithmetic: nothing can hide behind it.\n";
  if (study.options.machine.empty())
    text += "Times are those of a default machine; --machine names another.\n";
  return text;
}

std::string largest_text(const Study& study) {
  const plan::Unit& unit = study.model.units[static_cast<std::size_t>(study.largest_unit)];
  std::vector<Row> rows{
      joined(study.points.size() > 1 ? Row{"RANKS"} : Row{}, {"RECIPE", "COUNT", "PARAMETERS", "PEAK", "NODE"})};
  for (const Point& point : study.points)
    for (const Result& result : point.results) {
      if (!result.outcome.report)
        continue;
      Row row = joined(first_cells(study, point), {result.recipe});
      if (result.largest)
        row = joined(row, {std::to_string(result.largest->count), count_text(result.largest->report.elements),
                           bytes_text(result.largest->report.bytes.peak),
                           bytes_text(result.largest->report.node_bytes.peak)});
      else
        row.push_back("none");
      rows.push_back(std::move(row));
    }
  return "\nThe largest model that fits, by the count of unit " + printable(unit.name) + ", now " +
         std::to_string(unit.count) + ":\n" + rows_text(study, rows, 1);
}

/// Why a policy was chosen is in the JSON only.
std::string layouts_text(const Study& study, const Point& point) {
  std::vector<Row> rows{{"UNIT", "GROUP", "POLICY", "PADDING", "LARGEST SEGMENT", "OVERHEAD"}};
  std::string refused;
  for (const plan::UnitLayouts& layouts : point.layouts)
    for (std::size_t i = 0; i < layouts.reports.size(); ++i) {
      const layout::LayoutReport& report = layouts.reports[i];
      const std::string unit = printable(study.model.units[static_cast<std::size_t>(layouts.unit)].name);
      if (layouts.refused[i].empty())
        rows.push_back({unit, std::to_string(layouts.group), name(report.policy), grouped_text(report.padding),
                        grouped_text(report.largest_segment), digits_text(100 * report.overhead) + " %"});
      else
        refused += wrapped("Not possible: " + std::string(name(report.policy)) + " for " + unit + ": " +
                           printable(layouts.refused[i]));
    }
  return "\nLayouts on " + std::to_string(point.request.ranks()) +
         " ranks, in elements; OVERHEAD: what the largest segment on every rank adds:\n" +
         table_text(rows, {false, true, false, true, true, true}) + refused;
}

} // namespace

std::string to_table(const Study& study) {
  const ByteUnit unit = unit_of(study);
  const plan::Request& request = study.points.front().request;
  const int micro_batches = request.micro_batches;
  std::string text = printable(model_text(study.model)) + "; " + types_text(study) + ";\noptimizer " +
                     name(request.optimizer) + "; " + std::to_string(micro_batches) +
                     (micro_batches == 1 ? " micro-batch" : " micro-batches") + "; memory limit " +
                     limit_text(study.limit) + "\n";
  text += point_text(study.points.front());
  if (study.points.size() > 1)
    text += " to\n" + point_text(study.points.back());
  text += "\n\nBytes in " + std::string(unit.name) + ":\n" + results_text(study, unit) + legend(study);
  if (study.options.largest)
    text += largest_text(study);
  for (const Point& point : study.points)
    if (study.options.layouts)
      text += layouts_text(study, point);
  return text;
}

} // namespace ostraka::tool
