// SPDX-License-Identifier: Apache-2.0
#include "machine_file.hpp"

#include "quantity.hpp"
#include "text.hpp"
#include <ostraka/base/error.hpp>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace ostraka::tool {
namespace {

double read_rate(const JsonPlace& place) {
  double rate = 0;
  if (place.value().is_string()) {
    std::string text = place.text();
    if (text.ends_with("/s"))
      text.resize(text.size() - 2);
    std::string where = place.where();
    where.resize(where.size() - 2); // ": "
    rate = static_cast<double>(parse_bytes(text, where));
  } else {
    rate = place.number();
  }
  if (rate <= 0)
    place.refuse("more than 0 bytes per second");
  return rate;
}

double read_share(const JsonPlace& place) {
  const double share = place.number();
  if (!(share >= 0 && share <= 1))
    place.refuse("a share from 0 to 1");
  return share;
}

// [[bytes, seconds], ...], ascending.
std::vector<plan::Timing> read_timings(const JsonPlace& place) {
  place.expect_array();
  std::vector<plan::Timing> timings;
  for (std::size_t i = 0; i < place.size(); ++i) {
    const JsonPlace pair = place.element(i);
    pair.expect_array();
    if (pair.size() != 2)
      pair.refuse("[bytes, seconds]");
    const std::int64_t least = i > 0 ? timings[i - 1].bytes + 1 : 1; // ascending
    timings.push_back(
        {pair.element(0).whole(least, std::numeric_limits<std::int64_t>::max()), pair.element(1).number()});
    if (timings.back().seconds <= 0)
      pair.element(1).refuse("more than 0 seconds");
  }
  return timings;
}

plan::Link::Measured read_measured(const JsonPlace& place, const Warn& warn) {
  place.expect_object();
  place.warn_of_unknown({"ranks", "allgather", "reduce_scatter", "allreduce"}, warn);
  plan::Link::Measured measured;
  measured.ranks = static_cast<int>(place.at("ranks").whole(2, std::numeric_limits<int>::max()));
  for (const auto& [key, timings] : {std::pair{"allgather", &measured.allgather},
                                     {"reduce_scatter", &measured.reduce_scatter},
                                     {"allreduce", &measured.allreduce}})
    if (place.has(key))
      *timings = read_timings(place.at(key));
  return measured;
}

void read_link(const JsonPlace& place, plan::Link& link, const Warn& warn) {
  place.expect_object();
  place.warn_of_unknown({"latency_s", "bandwidth", "measured"}, warn);
  if (place.has("latency_s"))
    link.latency_s = place.at("latency_s").number();
  if (place.has("bandwidth"))
    link.bandwidth = read_rate(place.at("bandwidth"));
  if (place.has("measured"))
    link.measured = read_measured(place.at("measured"), warn);
}

void read_axes(const JsonPlace& place, plan::Request& request, const Warn& warn) {
  place.expect_object();
  request.machine.axes.assign(request.mesh.size(), request.machine.network);
  for (const auto& [key, value] : place.value().items()) {
    const auto axis = std::find_if(request.mesh.begin(), request.mesh.end(),
                                   [&, &axis_name = key](const plan::Axis& other) { return other.name == axis_name; });
    if (axis == request.mesh.end())
      warn(place.where() + "the mesh has no axis '" + printable(key) + "'");
    else
      read_link(place.at(key.c_str()), request.machine.axes[static_cast<std::size_t>(axis - request.mesh.begin())],
                warn);
  }
}

void read_units(const JsonPlace& place, plan::Request& request, std::vector<char>& has_times, const Warn& warn) {
  place.expect_object();
  for (const auto& [key, value] : place.value().items()) {
    const JsonPlace times = place.at(key.c_str());
    times.expect_object();
    times.warn_of_unknown({"forward_s", "backward_s"}, warn);
    const auto unit = std::find_if(request.units.begin(), request.units.end(),
                                   [&, &unit_name = key](const plan::Unit& other) { return other.name == unit_name; });
    if (unit == request.units.end()) {
      warn(place.where() + "the model has no unit '" + printable(key) + "'");
      continue;
    }
    char& is_known = has_times[static_cast<std::size_t>(unit - request.units.begin())];
    if (is_known)
      continue;
    is_known = 1;
    unit->forward_s = times.at("forward_s").number();
    unit->backward_s = times.at("backward_s").number();
  }
}

} // namespace

void read_machine(const std::string& path, const Model& model, std::int64_t samples, plan::Request& request,
                  const Warn& warn) {
  const JsonFile file(path);
  const JsonPlace root = file.root();
  root.expect_object();
  root.warn_of_unknown({"network", "node", "axes", "memory_bandwidth", "overlap", "flops", "units",
                        // what `collectives --json` writes beside
                        "benchmark", "version", "ranks", "dtype", "memory", "mpi", "rows"},
                       warn);
  plan::Machine& machine = request.machine;
  if (root.has("network"))
    read_link(root.at("network"), machine.network, warn);
  if (root.has("node"))
    read_link(root.at("node"), machine.node, warn);
  if (root.has("memory_bandwidth"))
    machine.memory_bandwidth = read_rate(root.at("memory_bandwidth"));
  if (root.has("overlap"))
    machine.overlap = read_share(root.at("overlap"));
  if (root.has("axes"))
    read_axes(root.at("axes"), request, warn);
  std::vector<char> has_times = model.has_times;
  if (root.has("units"))
    read_units(root.at("units"), request, has_times, warn);
  if (!root.has("flops"))
    return;
  const double flops = root.at("flops").number();
  if (flops <= 0)
    root.at("flops").refuse("more than 0 operations per second");
  for (std::size_t u = 0; u < request.units.size(); ++u) {
    if (has_times[u])
      continue;
    const double seconds =
        static_cast<double>(elements_of(request.units[u], true)) * static_cast<double>(samples) / flops;
    request.units[u].forward_s = 2 * seconds;
    request.units[u].backward_s = 4 * seconds;
  }
}

} // namespace ostraka::tool
