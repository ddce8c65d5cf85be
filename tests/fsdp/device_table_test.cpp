// SPDX-License-Identifier: Apache-2.0
// What NCCL carries in a step, call by call: against spec 3.9, worked out here from the recipes alone, and against what
// a dry run for devices foresees.
#include "network.hpp"
#include "support/double/double.hpp"
#include "support/scoped_environment.hpp"
#include <ostraka/plan/dry_run.hpp>

#include <map>
#include <set>
#include <tuple>

namespace ostraka::fsdp::test {
namespace {

constexpr int layers = 4, width = 8; // a layer needs no padding on up to four ranks
constexpr int nccl_float64 = 8;      // of nccl.h
constexpr std::int64_t elements = width * width + width;

/// [purpose and axis of the communicator, operation, bytes of the whole]: how many.
using Table = std::map<std::tuple<std::string, std::string, std::int64_t>, int>;

struct Case {
  Recipe recipe;
  std::vector<int> sizes; ///< of the mesh
  int micro_batches;

  int inner() const { return sizes.back(); }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int micro_batches : {1, 2, 3}) {
    for (const Recipe recipe : {Recipe::no_shard, Recipe::zero_1, Recipe::zero_2, Recipe::zero_3})
      all.push_back({recipe, {ranks}, micro_batches});
    if (ranks == 4)
      for (const Recipe recipe : {Recipe::hsdp, Recipe::hfsdp, Recipe::zero_1_zero_2})
        all.push_back({recipe, {2, 2}, micro_batches});
  }
  return all;
}

// Spec 3.9 and 3.3 to 3.5. What an axis gathers or reduces is the whole divided by the parts that the axes within it
// have already made.
Table table_of(const Case& c) {
  const int last = static_cast<int>(c.sizes.size()) - 1, m = c.micro_batches;
  Table table;
  const auto add = [&](int axis, const char* operation, std::int64_t parts, int calls) {
    const bool gathers = std::string(operation) == "ncclAllGather";
    const std::string communicator = "axis" + std::to_string(axis) + (gathers ? " gather" : " reduce");
    const std::int64_t bytes = elements / parts * static_cast<std::int64_t>(sizeof(double));
    table[{communicator, operation, bytes}] += calls * layers;
  };
  switch (c.recipe) {
  case Recipe::no_shard:
    add(0, "ncclAllReduce", 1, 1);
    break;
  case Recipe::zero_1:
    add(0, "ncclReduceScatter", 1, 1);
    add(0, "ncclAllGather", 1, 1);
    break;
  case Recipe::zero_2:
    add(0, "ncclReduceScatter", 1, m);
    add(0, "ncclAllGather", 1, 1);
    break;
  case Recipe::zero_3:
    add(0, "ncclReduceScatter", 1, m);
    add(0, "ncclAllGather", 1, 2 * m);
    break;
  case Recipe::hsdp:
    add(last, "ncclReduceScatter", 1, m);
    add(last, "ncclAllGather", 1, 2 * m);
    add(0, "ncclAllReduce", c.inner(), 1);
    break;
  case Recipe::hfsdp:
    add(last, "ncclReduceScatter", 1, m);
    add(last, "ncclAllGather", 1, 2 * m);
    add(0, "ncclReduceScatter", c.inner(), 1);
    add(0, "ncclAllGather", c.inner(), 1);
    break;
  case Recipe::zero_1_zero_2:
    add(last, "ncclReduceScatter", 1, m);
    add(last, "ncclAllGather", 1, 1);
    add(0, "ncclReduceScatter", c.inner(), 1);
    add(0, "ncclAllGather", c.inner(), 1);
    break;
  }
  return table;
}

int axis_of(const std::string& communicator) { return communicator.at(communicator.find("axis") + 4) - '0'; }

Table table_of(const std::vector<cuda_double::Call>& calls, const Case& c) {
  Table table;
  for (const auto& call : calls) {
    EXPECT_EQ(call.dtype, nccl_float64);
    const int size = c.sizes.at(static_cast<std::size_t>(axis_of(call.communicator)));
    const std::int64_t whole = call.name == "ncclAllReduce" ? call.count : call.count * size;
    const std::string communicator = call.communicator.substr(call.communicator.find("axis"));
    ++table[{communicator, call.name, whole * static_cast<std::int64_t>(sizeof(double))}];
  }
  return table;
}

Table table_of(const plan::Report& report) {
  constexpr const char* names[] = {"ncclAllGather", "ncclReduceScatter", "ncclAllReduce"};
  Table table;
  for (const plan::Call& call : report.calls)
    if (call.kind != plan::Collective::agreement) // of hosts
      ++table[{"axis" + std::to_string(call.axis) + (call.kind == plan::Collective::allgather ? " gather" : " reduce"),
               names[static_cast<int>(call.kind)], call.count * size_of(call.dtype)}];
  return table;
}

/// Bytes that one rank sends on each axis by the ring algorithm.
std::map<int, std::int64_t> ring_bytes(const Table& table, const Case& c) {
  std::map<int, std::int64_t> bytes;
  for (const auto& [key, calls] : table) {
    const auto& [communicator, operation, whole] = key;
    const std::int64_t size = c.sizes.at(static_cast<std::size_t>(axis_of(communicator)));
    bytes[axis_of(communicator)] += calls * (operation == "ncclAllReduce" ? 2 : 1) * (whole / size * (size - 1));
  }
  return bytes;
}

plan::Report foreseen(const Case& c, const ContextConfig& config) {
  plan::Request request;
  request.units = {
      {"layer", layers, {{"weight", {width, width}, DType::f64, true}, {"bias", {width}, DType::f64, true}}}};
  for (std::size_t axis = 0; axis < c.sizes.size(); ++axis)
    request.mesh.push_back({"axis" + std::to_string(axis), c.sizes[axis]});
  request.backend = plan::Backend::nccl;
  request.config = config;
  request.optimizer = plan::Optimizer::sgd;
  request.micro_batches = c.micro_batches;
  request.rank = rank;
  return plan::dry_run(request);
}

TEST(FsdpDevice, CallsOfAStepAreThoseOfTheTableAndOfADryRun) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0");
  if (ranks == 1)
    GTEST_SKIP() << "one rank has nothing to communicate";
  for (const Case& c : cases()) {
    SCOPED_TRACE(std::string(text(c.recipe)) + ", micro-batches " + std::to_string(c.micro_batches));
    Options options;
    options.net = mlp(std::vector<int>(layers + 1, width));
    options.config = make_config(c.recipe, layout::ReduceOp::sum);
    options.micro_batches = c.micro_batches;
    Training<double> training(mesh::DeviceMesh::create(MPI_COMM_WORLD, c.sizes, {}, runtime::Device::cuda), options);
    training.step();
    cuda_double::take_calls();
    training.step();
    const std::vector<cuda_double::Call> calls = cuda_double::take_calls();
    const Table expected = table_of(c), found = table_of(calls, c);
    EXPECT_EQ(found, expected);
    std::set<int> launches;
    for (const auto& call : calls)
      launches.insert(call.launch);
    EXPECT_EQ(launches.size(), calls.size()) << "each module launches by itself";

    const plan::Report report = foreseen(c, options.config);
    EXPECT_EQ(table_of(report), expected);
    const auto ring = ring_bytes(expected, c);
    for (std::size_t axis = 0; axis < c.sizes.size(); ++axis) {
      const auto entry = ring.find(static_cast<int>(axis));
      EXPECT_EQ(report.axes[axis].sent, entry == ring.end() ? 0 : entry->second) << "axis " << axis;
      EXPECT_EQ(report.axes[axis].received, report.axes[axis].sent) << "axis " << axis;
      EXPECT_EQ(report.axes[axis].backend, "nccl");
    }
    training.expect_equal(1e-12);
  }
}

} // namespace
} // namespace ostraka::fsdp::test
