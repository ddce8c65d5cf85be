// SPDX-License-Identifier: Apache-2.0
#include "fsdp_structs.hpp"
#include "objects.hpp"
#include <ostraka/comm/node/node.hpp>
#include <ostraka/plan.h>
#include <ostraka/plan/compare.hpp>
#include <ostraka/plan/dry_run.hpp>

using namespace ostraka;
using namespace ostraka::capi;

namespace {

const plan::Request default_request;
const plan::Machine default_machine;

const ostraka_plan_config_t default_config{sizeof(ostraka_plan_config_t),
                                           OSTRAKA_PLAN_CONFIG_VERSION,
                                           static_cast<std::int32_t>(default_request.backend),
                                           default_request.ranks_per_node,
                                           default_request.micro_batches,
                                           static_cast<std::int32_t>(default_request.optimizer),
                                           0,
                                           -1,
                                           0,
                                           -1,
                                           default_machine.network.latency_s,
                                           default_machine.network.bandwidth,
                                           default_machine.node.latency_s,
                                           default_machine.node.bandwidth,
                                           default_machine.memory_bandwidth,
                                           -1};

constexpr Versions config_versions{"plan config", OSTRAKA_PLAN_CONFIG_VERSION, 96};
constexpr Versions bytes_versions{"plan bytes", OSTRAKA_PLAN_BYTES_VERSION, 112};
constexpr Versions traffic_versions{"plan traffic", OSTRAKA_PLAN_TRAFFIC_VERSION, 72};
constexpr Versions summary_versions{"plan summary", OSTRAKA_PLAN_SUMMARY_VERSION, 88};

/// Fills a caller's struct that its _init function prepared.
template <class Struct>
void fill(Struct* out, const Struct& values, const Versions& versions) {
  const Struct& asked = output(out, versions.what);
  write(out, values, asked.struct_size, asked.version, versions);
}

std::vector<plan::Axis> to_axes(std::int32_t dims, const std::int32_t* sizes, const char* const* names) {
  expect(dims >= 1, Status::INVALID_ARGUMENT, "expected a number of axes >= 1, found ", dims);
  expect(sizes != nullptr, Status::INVALID_ARGUMENT, "'sizes' is null, expected ", dims);
  std::vector<plan::Axis> axes;
  for (std::int32_t axis = 0; axis < dims; ++axis)
    axes.push_back({names != nullptr ? text(names[axis], "names") : "axis" + std::to_string(axis), sizes[axis]});
  return axes;
}

plan::Machine to_machine(const ostraka_plan_config_t& config) {
  plan::Machine machine;
  machine.network.latency_s = config.network_latency_s;
  machine.network.bandwidth = config.network_bandwidth;
  machine.node.latency_s = config.node_latency_s;
  machine.node.bandwidth = config.node_bandwidth;
  machine.memory_bandwidth = config.memory_bandwidth;
  if (config.overlap != -1)
    machine.overlap = config.overlap;
  return machine;
}

plan::Request to_request(std::vector<plan::Axis> axes, const ostraka_fsdp_config_t* context,
                         const ostraka_plan_config_t& config) {
  plan::Request request;
  request.config = to_config(context, static_cast<int>(axes.size()));
  request.mesh = std::move(axes);
  request.backend = static_cast<plan::Backend>(config.backend);
  request.ranks_per_node = config.ranks_per_node;
  request.optimizer = static_cast<plan::Optimizer>(config.optimizer);
  request.fuse_with_reduction = config.fuse_with_reduction != 0;
  request.micro_batches = config.micro_batches;
  request.cache_bytes = to_budget(config.cache_bytes).value_or(comm::last_level_cache_bytes());
  request.machine = to_machine(config);
  if (config.rank != -1)
    request.rank = config.rank;
  return request;
}

/// The request behind a handle, to be changed: what was computed is no longer true.
plan::Request& request_of(ostraka_plan_t handle) {
  PlanObject& plan = *get(handle);
  plan.report.reset();
  plan.refused.clear();
  return plan.request;
}

plan::Unit& unit_of(ostraka_plan_t handle, std::int32_t unit) {
  const std::size_t index = index_of("a unit", unit, std::ssize(get(handle)->request.units));
  return request_of(handle).units[index];
}

std::size_t axis_of(const plan::Request& request, std::int32_t axis) {
  return index_of("an axis", axis, std::ssize(request.mesh));
}

const plan::Report& report_of(const PlanObject& plan) {
  expect(plan.refused.empty(), Status::INVALID_ARGUMENT, plan.refused);
  expect(plan.report.has_value(), Status::INVALID_STATE,
         "nothing is computed, or something was added since; call "
         "ostraka_plan_compute first");
  return *plan.report;
}

plan::Outcome to_outcome(ostraka_plan_t handle) {
  const auto plan = get(handle);
  if (plan->refused.empty())
    report_of(*plan); // throws when there is none
  return {plan->request.config.recipe, plan->report, plan->refused};
}

plan::Limit to_limit(std::int64_t rank_bytes, std::int64_t node_bytes) {
  for (const std::int64_t bytes : {rank_bytes, node_bytes})
    expect(bytes >= -1, Status::INVALID_ARGUMENT, "expected bytes >= 0, or -1 for any amount, found ", bytes);
  return {to_budget(rank_bytes), to_budget(node_bytes)};
}

template <class T>
std::span<const T> to_list(std::int32_t count, const T* values, const char* what) {
  expect(count >= 0, Status::INVALID_ARGUMENT, "expected a number of ", what, " >= 0, found ", count);
  expect(count == 0 || values != nullptr, Status::INVALID_ARGUMENT, "'", what, "' is null, expected ", count);
  return {values, static_cast<std::size_t>(count)};
}

ostraka_plan_t make_plan(const plan::Request& request, plan::Outcome outcome) {
  PlanObject plan{request, std::move(outcome.report), std::move(outcome.refused)};
  plan.request.config.recipe = outcome.recipe;
  plan.request.config.placements.reset();
  return make_handle<ostraka_plan_t>(std::make_shared<PlanObject>(std::move(plan)));
}

ostraka_plan_bytes_t to_struct(const plan::Bytes& found) {
  ostraka_plan_bytes_t bytes{};
  bytes.model_weights = found.model_weights;
  bytes.main_weights = found.main_weights;
  bytes.main_gradients = found.main_gradients;
  bytes.addends = found.addends;
  bytes.moments = found.moments;
  bytes.slots_peak = found.slots_peak;
  bytes.gathered_peak = found.gathered_peak;
  bytes.scratch_peak = found.scratch_peak;
  bytes.transient_peak = found.transient_peak;
  bytes.shared_memory = found.shared_memory;
  bytes.total = found.total;
  bytes.peak = found.peak;
  return bytes;
}

ostraka_plan_traffic_t to_struct(const plan::AxisTraffic& found) {
  const auto number = [&](plan::Collective kind) { return found.collectives[static_cast<std::size_t>(kind)]; };
  ostraka_plan_traffic_t traffic{};
  traffic.size = found.size;
  traffic.allgathers = number(plan::Collective::allgather);
  traffic.reduce_scatters = number(plan::Collective::reduce_scatter);
  traffic.allreduces = number(plan::Collective::allreduce);
  traffic.agreements = number(plan::Collective::agreement);
  traffic.sent = found.sent;
  traffic.received = found.received;
  traffic.moved = found.moved;
  return traffic;
}

ostraka_plan_summary_t to_summary(const plan::Report& found) {
  ostraka_plan_summary_t summary{};
  summary.recipe = static_cast<std::int32_t>(found.recipe);
  summary.rank = found.rank;
  summary.node = found.node;
  summary.node_ranks = found.node_ranks;
  summary.gradient_slots = found.gradient_slots;
  summary.num_elements = found.elements;
  summary.padding_elements = found.padding_elements;
  summary.bytes_per_parameter = found.bytes_per_parameter;
  summary.formula_bytes_per_parameter = found.formula_bytes_per_parameter;
  summary.step_s = found.step_s;
  summary.arithmetic_s = found.arithmetic_s;
  summary.exposed_s = found.exposed_s;
  return summary;
}

} // namespace

extern "C" {

ostraka_status_t ostraka_plan_config_init_versioned(ostraka_plan_config_t* config, int64_t struct_size,
                                                    int32_t version) {
  return wall(__func__, [&] { write(config, default_config, struct_size, version, config_versions); });
}

ostraka_status_t ostraka_plan_bytes_init_versioned(ostraka_plan_bytes_t* bytes, int64_t struct_size, int32_t version) {
  return wall(__func__, [&] { write(bytes, ostraka_plan_bytes_t{}, struct_size, version, bytes_versions); });
}

ostraka_status_t ostraka_plan_traffic_init_versioned(ostraka_plan_traffic_t* traffic, int64_t struct_size,
                                                     int32_t version) {
  return wall(__func__, [&] { write(traffic, ostraka_plan_traffic_t{}, struct_size, version, traffic_versions); });
}

ostraka_status_t ostraka_plan_summary_init_versioned(ostraka_plan_summary_t* summary, int64_t struct_size,
                                                     int32_t version) {
  return wall(__func__, [&] { write(summary, ostraka_plan_summary_t{}, struct_size, version, summary_versions); });
}

ostraka_status_t ostraka_plan_create(int32_t dims, const int32_t* sizes, const char* const* names,
                                     const ostraka_fsdp_config_t* context, const ostraka_plan_config_t* config,
                                     ostraka_plan_t* plan) {
  return wall(__func__, [&] {
    ostraka_plan_t& result = output(plan, "plan");
    PlanObject made{
        to_request(to_axes(dims, sizes, names), context, read(config, default_config, config_versions)), {}, {}};
    result = make_handle<ostraka_plan_t>(std::make_shared<PlanObject>(std::move(made)));
  });
}

ostraka_status_t ostraka_plan_destroy(ostraka_plan_t* plan) {
  return wall(__func__, [&] { remove(plan); });
}

ostraka_status_t ostraka_plan_add_unit(ostraka_plan_t plan, const char* name, int32_t count, int32_t parent,
                                       int32_t* unit) {
  return wall(__func__, [&] {
    int32_t& number = output(unit, "unit");
    plan::Unit added;
    added.name = text(name, "name");
    added.count = count;
    if (parent != -1)
      added.parent = parent;
    std::vector<plan::Unit>& units = request_of(plan).units;
    number = static_cast<int32_t>(units.size());
    units.push_back(std::move(added));
  });
}

ostraka_status_t ostraka_plan_add_parameter(ostraka_plan_t plan, int32_t unit, const char* name, ostraka_shape_t shape,
                                            int32_t dtype, int32_t trainable) {
  return wall(__func__, [&] {
    const fsdp::ParameterSpec added{text(name, "name"), to_shape(shape), to_dtype(dtype), trainable != 0};
    unit_of(plan, unit).parameters.push_back(added);
  });
}

ostraka_status_t ostraka_plan_set_precision(ostraka_plan_t plan, int32_t unit, int32_t main_dtype,
                                            int32_t compute_dtype, int32_t reduction_dtype) {
  return wall(__func__, [&] {
    const fsdp::Precision asked{to_choice(main_dtype), to_choice(compute_dtype), to_choice(reduction_dtype)};
    unit_of(plan, unit).precision = asked;
  });
}

ostraka_status_t ostraka_plan_set_prefetch(ostraka_plan_t plan, int32_t unit, int64_t elements) {
  return wall(__func__, [&] { unit_of(plan, unit).prefetch = plan::Unit::Prefetch{to_budget(elements)}; });
}

ostraka_status_t ostraka_plan_set_gradient_divisor(ostraka_plan_t plan, int32_t unit, double divisor) {
  return wall(__func__, [&] { unit_of(plan, unit).gradient_divisor = divisor; });
}

ostraka_status_t ostraka_plan_set_times(ostraka_plan_t plan, int32_t unit, double forward_s, double backward_s) {
  return wall(__func__, [&] {
    plan::Unit& of = unit_of(plan, unit);
    of.forward_s = forward_s;
    of.backward_s = backward_s;
  });
}

ostraka_status_t ostraka_plan_set_link(ostraka_plan_t plan, int32_t axis, double latency_s, double bandwidth) {
  return wall(__func__, [&] {
    const std::size_t which = axis_of(get(plan)->request, axis);
    plan::Request& request = request_of(plan);
    if (request.machine.axes.empty())
      request.machine.axes.assign(request.mesh.size(), request.machine.network);
    request.machine.axes[which].latency_s = latency_s;
    request.machine.axes[which].bandwidth = bandwidth;
  });
}

ostraka_status_t ostraka_plan_set_nodes(ostraka_plan_t plan, int32_t num_ranks, const int32_t* nodes) {
  return wall(__func__, [&] {
    const auto list = to_list(num_ranks, nodes, "nodes");
    request_of(plan).nodes.assign(list.begin(), list.end());
  });
}

ostraka_status_t ostraka_plan_compute(ostraka_plan_t plan) {
  return wall(__func__, [&] {
    const auto object = get(plan);
    const plan::Request& request = request_of(plan);
    object->report = plan::dry_run(request);
  });
}

ostraka_status_t ostraka_plan_memory(ostraka_plan_t plan, ostraka_memory_report_t* report) {
  return wall(__func__, [&] { write_report(report, to_report(report_of(*get(plan)).memory)); });
}

ostraka_status_t ostraka_plan_node_memory(ostraka_plan_t plan, ostraka_memory_report_t* report) {
  return wall(__func__, [&] { write_report(report, to_report(report_of(*get(plan)).node_memory)); });
}

ostraka_status_t ostraka_plan_bytes(ostraka_plan_t plan, ostraka_plan_bytes_t* bytes) {
  return wall(__func__, [&] { fill(bytes, to_struct(report_of(*get(plan)).bytes), bytes_versions); });
}

ostraka_status_t ostraka_plan_node_bytes(ostraka_plan_t plan, ostraka_plan_bytes_t* bytes) {
  return wall(__func__, [&] { fill(bytes, to_struct(report_of(*get(plan)).node_bytes), bytes_versions); });
}

ostraka_status_t ostraka_plan_traffic(ostraka_plan_t plan, int32_t axis, ostraka_plan_traffic_t* traffic) {
  return wall(__func__, [&] {
    const auto object = get(plan);
    fill(traffic, to_struct(report_of(*object).axes.at(axis_of(object->request, axis))), traffic_versions);
  });
}

ostraka_status_t ostraka_plan_carrier(ostraka_plan_t plan, int32_t axis, const char** name) {
  return wall(__func__, [&] {
    const auto object = get(plan);
    output(name, "name") = report_of(*object).axes.at(axis_of(object->request, axis)).backend.c_str();
  });
}

ostraka_status_t ostraka_plan_summary(ostraka_plan_t plan, ostraka_plan_summary_t* summary) {
  return wall(__func__, [&] { fill(summary, to_summary(report_of(*get(plan))), summary_versions); });
}

ostraka_status_t ostraka_plan_fits(ostraka_plan_t plan, int64_t rank_bytes, int64_t node_bytes, int32_t* fits) {
  return wall(__func__, [&] {
    output(fits, "fits") = plan::fits(report_of(*get(plan)), to_limit(rank_bytes, node_bytes)) ? 1 : 0;
  });
}

ostraka_status_t ostraka_plan_compare(ostraka_plan_t plan, int32_t num_recipes, const int32_t* recipes,
                                      ostraka_plan_t* plans) {
  return wall(__func__, [&] {
    const auto object = get(plan);
    std::vector<fsdp::Recipe> asked;
    for (const int32_t recipe : to_list(num_recipes, recipes, "recipes"))
      asked.push_back(static_cast<fsdp::Recipe>(recipe));
    ostraka_plan_t* next = &output(plans, "plans");
    for (plan::Outcome& outcome : plan::compare(object->request, asked))
      *next++ = make_plan(object->request, std::move(outcome));
  });
}

ostraka_status_t ostraka_plan_cheapest(int32_t num_plans, const ostraka_plan_t* plans, int64_t rank_bytes,
                                       int64_t node_bytes, int32_t* index) {
  return wall(__func__, [&] {
    std::vector<plan::Outcome> outcomes;
    for (const ostraka_plan_t plan : to_list(num_plans, plans, "plans"))
      outcomes.push_back(to_outcome(plan));
    output(index, "index") = plan::cheapest(outcomes, to_limit(rank_bytes, node_bytes)).value_or(-1);
  });
}

ostraka_status_t ostraka_plan_largest(ostraka_plan_t plan, int32_t unit, int64_t rank_bytes, int64_t node_bytes,
                                      int32_t* count) {
  return wall(__func__, [&] {
    const auto found = plan::largest(get(plan)->request, unit, to_limit(rank_bytes, node_bytes));
    output(count, "count") = found ? found->count : 0;
  });
}
}
