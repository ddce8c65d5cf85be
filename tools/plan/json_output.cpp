// SPDX-License-Identifier: Apache-2.0
#include "render.hpp"
#include <ostraka/base/version.hpp>
#include <ostraka/layout/report.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace ostraka::tool {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json to_json(const plan::Bytes& bytes) {
  return {{"model_weights", bytes.model_weights},
          {"main_weights", bytes.main_weights},
          {"main_gradients", bytes.main_gradients},
          {"addends", bytes.addends},
          {"moments", bytes.moments},
          {"slots_peak", bytes.slots_peak},
          {"gathered_peak", bytes.gathered_peak},
          {"scratch_peak", bytes.scratch_peak},
          {"transient_peak", bytes.transient_peak},
          {"shared_memory", bytes.shared_memory},
          {"total", bytes.total},
          {"peak", bytes.peak}};
}

Json to_json(const fsdp::MemoryReport& memory) {
  return {{"parameters", memory.parameters},
          {"gradients", memory.gradients},
          {"optimizer_state", memory.optimizer_state},
          {"transient", memory.transient},
          {"transient_peak", memory.transient_peak},
          {"num_elements", memory.num_elements},
          {"reserved", memory.reserved}};
}

Json to_json(const plan::AxisTraffic& axis) {
  Json collectives = Json::object();
  for (int c = 0; c < plan::num_collectives; ++c)
    collectives[plan::name(static_cast<plan::Collective>(c))] = axis.collectives[static_cast<std::size_t>(c)];
  return {{"name", axis.name}, {"size", axis.size},         {"backend", axis.backend}, {"collectives", collectives},
          {"sent", axis.sent}, {"received", axis.received}, {"moved", axis.moved}};
}

Json to_json(const plan::Call& call) {
  return {{"kind", plan::name(call.kind)},
          {"axis", call.axis},
          {"module", call.module},
          {"group", call.group},
          {"dtype", ostraka::name(call.dtype)},
          {"count", call.count},
          {"sent", call.sent},
          {"received", call.received}};
}

Json to_json(const plan::Span& span) {
  return {{"track", plan::name(span.track)}, {"module", span.module}, {"operation", span.operation},
          {"begin_s", span.begin_s},         {"end_s", span.end_s},   {"bytes", span.bytes}};
}

template <class T>
Json list_json(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values)
    list.push_back(to_json(value));
  return list;
}

void add_report(const plan::Report& report, Json& json) {
  json.update({{"rank", report.rank},
               {"node", report.node},
               {"node_ranks", report.node_ranks},
               {"bytes", to_json(report.bytes)},
               {"node_bytes", to_json(report.node_bytes)},
               {"memory", to_json(report.memory)},
               {"node_memory", to_json(report.node_memory)},
               {"elements", report.elements},
               {"padding_elements", report.padding_elements},
               {"bytes_per_parameter", report.bytes_per_parameter},
               {"formula_bytes_per_parameter", report.formula_bytes_per_parameter},
               {"gradient_slots", report.gradient_slots},
               {"axes", list_json(report.axes)},
               {"step_s", report.step_s},
               {"arithmetic_s", report.arithmetic_s},
               {"exposed_s", report.exposed_s},
               {"modules", report.modules},
               {"calls", list_json(report.calls)},
               {"spans", list_json(report.spans)}});
}

Json to_json(const Study& study, const Result& result) {
  Json json{{"recipe", result.recipe}, {"refused", nullptr}, {"fits", result.fits}, {"cheapest", result.is_cheapest}};
  if (!result.outcome.report) {
    json["refused"] = result.outcome.refused;
    return json;
  }
  add_report(result.report(), json);
  json["largest"] = nullptr;
  if (result.largest)
    json["largest"] = {{"unit", study.model.units[static_cast<std::size_t>(study.largest_unit)].name},
                       {"count", result.largest->count},
                       {"elements", result.largest->report.elements},
                       {"peak", result.largest->report.bytes.peak},
                       {"node_peak", result.largest->report.node_bytes.peak}};
  return json;
}

Json layouts_json(const Study& study, const Point& point) {
  Json list = Json::array();
  for (const plan::UnitLayouts& layouts : point.layouts) {
    Json reports = Json::array();
    for (std::size_t i = 0; i < layouts.reports.size(); ++i) {
      const layout::LayoutReport& report = layouts.reports[i];
      if (layouts.refused[i].empty())
        reports.push_back(Json::parse(layout::to_json(report)));
      else
        reports.push_back({{"policy", layout::name(report.policy)}, {"refused", layouts.refused[i]}});
    }
    list.push_back({{"unit", study.model.units[static_cast<std::size_t>(layouts.unit)].name},
                    {"group", layouts.group},
                    {"reports", reports}});
  }
  return list;
}

Json to_json(const Study& study, const Point& point) {
  const plan::Request& request = point.request;
  Json mesh = Json::array(), outcomes = Json::array();
  for (const plan::Axis& axis : request.mesh)
    mesh.push_back({{"name", axis.name}, {"size", axis.size}});
  for (const Result& result : point.results)
    outcomes.push_back(to_json(study, result));
  Json json{{"ranks", request.ranks()},
            {"nodes", point.nodes()},
            {"ranks_per_node", request.ranks_per_node == 0 ? request.ranks() : request.ranks_per_node},
            {"backend", plan::name(request.backend)},
            {"mesh", mesh},
            {"outcomes", outcomes}};
  if (study.options.layouts)
    json["layouts"] = layouts_json(study, point);
  return json;
}

Json model_json(const Study& study) {
  const std::vector<plan::Unit>& read = study.points.front().request.units; // with the machine's seconds
  Json units = Json::array();
  for (const plan::Unit& unit : read)
    units.push_back(
        {{"name", unit.name},
         {"count", unit.count},
         {"tensors", unit.parameters.size()},
         {"elements", elements_of(unit)},
         {"dtype", unit.parameters.empty() ? Json(nullptr) : Json(ostraka::name(unit.parameters.front().dtype))},
         {"trainable", unit.parameters.empty() || unit.parameters.front().trainable},
         {"forward_s", unit.forward_s},
         {"backward_s", unit.backward_s},
         {"parent", unit.parent ? Json(read[static_cast<std::size_t>(*unit.parent)].name) : Json(nullptr)}});
  return {{"file", study.model.file},
          {"name", study.model.name},
          {"parameters", study.model.parameters},
          {"modules", study.model.modules},
          {"units", units}};
}

Json timings_json(const std::vector<plan::Timing>& timings) {
  Json list = Json::array();
  for (const plan::Timing& timing : timings)
    list.push_back(Json::array({timing.bytes, timing.seconds}));
  return list;
}

Json link_json(const plan::Link& link) {
  Json json{{"latency_s", link.latency_s}, {"bandwidth", link.bandwidth}, {"measured", nullptr}};
  if (link.measured.ranks > 0)
    json["measured"] = {{"ranks", link.measured.ranks},
                        {"allgather", timings_json(link.measured.allgather)},
                        {"reduce_scatter", timings_json(link.measured.reduce_scatter)},
                        {"allreduce", timings_json(link.measured.allreduce)}};
  return json;
}

Json machine_json(const plan::Request& request) {
  Json axes = Json::object();
  for (std::size_t a = 0; a < request.machine.axes.size(); ++a)
    axes[request.mesh[a].name] = link_json(request.machine.axes[a]);
  return {{"network", link_json(request.machine.network)},
          {"node", link_json(request.machine.node)},
          {"axes", axes},
          {"memory_bandwidth", request.machine.memory_bandwidth},
          {"overlap", optional_json(request.machine.overlap)}};
}

Json request_json(const Study& study) {
  const plan::Request& request = study.points.front().request;
  const fsdp::ContextConfig& config = request.config;
  const auto type = [](const std::optional<DType>& dtype) {
    return dtype ? Json(ostraka::name(*dtype)) : Json(nullptr);
  };
  return {{"optimizer", plan::name(request.optimizer)},
          {"fuse_with_reduction", request.fuse_with_reduction},
          {"micro_batches", request.micro_batches},
          {"main_dtype", type(config.main_dtype)},
          {"compute_dtype", type(config.compute_dtype)},
          {"reduction_dtype", type(config.reduction_dtype)},
          {"gradient_slots", config.gradient_slots},
          {"gradient_slot_bytes", optional_json(config.gradient_slot_bytes)},
          {"prefetch", optional_json(config.prefetch)},
          {"unified_stream", config.unified_stream},
          {"cache_bytes", optional_json(request.cache_bytes)},
          {"limit_rank_bytes", optional_json(study.limit.rank_bytes)},
          {"limit_node_bytes", optional_json(study.limit.node_bytes)},
          {"machine", machine_json(request)}};
}

} // namespace

std::string to_json(const Study& study) {
  Json json{{"format", "ostraka plan"},   {"format_version", json_version}, {"library_version", OSTRAKA_VERSION_STRING},
            {"model", model_json(study)}, {"request", request_json(study)}, {"points", Json::array()}};
  for (const Point& point : study.points)
    json["points"].push_back(to_json(study, point));
  // Names of users are UTF-8, since JSON files are; paths need not be.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace ostraka::tool
