// SPDX-License-Identifier: Apache-2.0
#include "prediction.hpp"

#include <ostraka/base/error.hpp>
#include <ostraka/comm/node/node.hpp>
#include <ostraka/plan/dry_run.hpp>

#include <nlohmann/json.hpp>

#include <fstream>
#include <limits>

namespace ostraka::bench {

namespace {

std::vector<plan::Timing> timings(const nlohmann::json& measured, const char* kind) {
  std::vector<plan::Timing> result;
  if (measured.contains(kind))
    for (const auto& timing : measured.at(kind))
      result.push_back({timing.at(0), timing.at(1)});
  return result;
}

plan::Link to_link(const nlohmann::json& json) {
  const nlohmann::json& measured = json.at("measured");
  return {json.at("latency_s"),
          json.at("bandwidth"),
          {measured.at("ranks"), timings(measured, "allgather"), timings(measured, "reduce_scatter"),
           timings(measured, "allreduce")}};
}

} // namespace

plan::Machine read_machine(const std::vector<std::string>& files) {
  plan::Machine machine;
  for (const std::string& file : files) {
    std::ifstream stream(file);
    const auto json = nlohmann::json::parse(stream, nullptr, false);
    expect(json.is_object(), Status::INPUT_OUTPUT, "'", file, "' is no file of collectives --json");
    if (json.contains("network"))
      machine.network = to_link(json.at("network"));
    if (json.contains("node"))
      machine.node = to_link(json.at("node"));
    if (json.contains("memory_bandwidth"))
      machine.memory_bandwidth = json.at("memory_bandwidth");
  }
  return machine;
}

double foreseen_step(const Kind& kind, plan::Backend backend, int ranks, const Arithmetic& arithmetic,
                     const plan::Machine& machine) {
  plan::Request request;
  request.units = {{"layer", num_layers, {{"weight", {dim, dim}, kind.storage}}}};
  request.units[0].forward_s = arithmetic.forward / num_layers;
  request.units[0].backward_s = arithmetic.backward / num_layers;
  request.mesh = {{"ranks", ranks}};
  request.backend = backend;
  request.config.reduction = layout::ReduceOp::sum;
  request.config.compute_dtype = kind.storage;
  if (!kind.is_bounded)
    request.config.gradient_slot_bytes = std::numeric_limits<std::int64_t>::max();
  request.optimizer = kind.updates ? plan::Optimizer::adamw : plan::Optimizer::none;
  request.fuse_with_reduction = kind.fuses;
  request.cache_bytes = comm::last_level_cache_bytes();
  request.machine = machine;
  return plan::dry_run(request).step_s;
}

} // namespace ostraka::bench
