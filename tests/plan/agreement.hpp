// SPDX-License-Identifier: Apache-2.0
// A dry run against the same run of the library: every byte and every call.
#pragma once

#include "real_run.hpp"
#include "support/rounds.hpp"

namespace ostraka::plan::test {

inline std::ostream& operator<<(std::ostream& out, const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    out << "\n    " << line;
  return out;
}

inline void expect_equal(const fsdp::MemoryReport& planned, const fsdp::MemoryReport& seen, const char* what) {
  EXPECT_EQ(planned.parameters, seen.parameters) << what;
  EXPECT_EQ(planned.gradients, seen.gradients) << what;
  EXPECT_EQ(planned.optimizer_state, seen.optimizer_state) << what;
  EXPECT_EQ(planned.transient, seen.transient) << what;
  EXPECT_EQ(planned.transient_peak, seen.transient_peak) << what;
  EXPECT_EQ(planned.num_elements, seen.num_elements) << what;
  EXPECT_EQ(planned.reserved, seen.reserved) << what;
}

/// Where the library says what an operation is.
inline std::string track_of(const Call& call, const Report& report) {
  if (call.axis < 0)
    return "fsdp context";
  return "fsdp context " + report.axes[static_cast<std::size_t>(call.axis)].name +
         (call.kind == Collective::allgather ? " gather" : " reduce");
}

inline Traced planned_operations(const Report& report) {
  Traced operations;
  for (const Call& call : report.calls) {
    const char* kind = call.kind == Collective::allgather        ? "allgather"
                       : call.kind == Collective::reduce_scatter ? "reduce-scatter"
                                                                 : "allreduce";
    operations[track_of(call, report)].push_back(std::string(kind) + " of " + std::to_string(call.count) + " " +
                                                 ostraka::name(call.dtype));
  }
  for (auto& [track, lines] : operations)
    std::sort(lines.begin(), lines.end());
  return operations;
}

inline bool is_reduced_by_mpi(const Call& call) {
  return call.kind == Collective::allgather || call.dtype == DType::f64 || call.dtype == DType::f32 ||
         call.dtype == DType::i64;
}

inline std::string backend_of(const Call& call, const Report& report, const Request& request) {
  if (call.axis >= 0)
    return report.axes[static_cast<std::size_t>(call.axis)].backend;
  if (ranks == 1)
    return "self";
  const int on_a_node = request.ranks_per_node == 0 ? ranks : request.ranks_per_node;
  if (request.backend == Backend::mpi || on_a_node == 1)
    return "mpi";
  return on_a_node >= ranks ? "node" : "hierarchical";
}

/// What MPI is asked for where it carries everything by its own collectives, in order for each communicator.
inline std::vector<std::vector<std::string>> planned_mpi_calls(const Report& report, const Request& request) {
  std::map<std::string, std::vector<std::string>> calls;
  for (const Call& call : report.calls) {
    if (backend_of(call, report, request) != "mpi")
      continue;
    const int size = call.axis < 0 ? ranks : report.axes[static_cast<std::size_t>(call.axis)].size;
    std::vector<std::string>& of_track = calls[track_of(call, report)];
    if (call.kind == Collective::allgather)
      of_track.push_back("MPI_Iallgather " + std::to_string(call.count / size));
    else if (call.kind == Collective::reduce_scatter)
      of_track.push_back("MPI_Ireduce_scatter_block " + std::to_string(call.count / size));
    else
      of_track.push_back("MPI_Iallreduce " + std::to_string(call.count));
  }
  std::vector<std::vector<std::string>> sorted;
  for (auto& [track, lines] : calls)
    sorted.push_back(std::move(lines));
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

inline void expect_mpi_calls(const Report& report, const Request& request, const MpiCalls& seen) {
  for (const Call& call : report.calls) // others are messages of our own
    if (backend_of(call, report, request) == "mpi" && !is_reduced_by_mpi(call))
      return;
  std::vector<std::vector<std::string>> found;
  for (const auto& [communicator, calls] : seen.collectives)
    found.push_back(calls);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, planned_mpi_calls(report, request));
}

/// Messages of our own: between nodes, and where MPI cannot reduce.
inline std::int64_t planned_messages(const Report& report, const Request& request) {
  std::int64_t bytes = 0;
  for (const Call& call : report.calls) {
    const std::string backend = backend_of(call, report, request);
    if (backend == "hierarchical")
      bytes += call.received;
    else if (backend == "mpi" && !is_reduced_by_mpi(call)) // an all-reduce gathers by MPI's collective
      bytes += call.kind == Collective::allreduce ? call.received / 2 : call.received;
  }
  return bytes;
}

/// Bytes of parts and their sums.
inline void expect_sums(const Report& report) {
  const Bytes& bytes = report.bytes;
  EXPECT_EQ(bytes.model_weights + bytes.main_weights, report.memory.parameters);
  EXPECT_EQ(bytes.main_gradients + bytes.addends, report.memory.gradients);
  EXPECT_EQ(bytes.moments, report.memory.optimizer_state);
  EXPECT_EQ(bytes.total, report.memory.parameters + report.memory.gradients + report.memory.optimizer_state);
  EXPECT_EQ(bytes.peak, bytes.total + report.memory.transient_peak);
  EXPECT_GE(bytes.slots_peak + bytes.gathered_peak + bytes.scratch_peak, bytes.transient_peak);
  EXPECT_EQ(report.node_bytes.total,
            report.node_memory.parameters + report.node_memory.gradients + report.node_memory.optimizer_state);
}

/// Collective. On more than four ranks under scripts/test --full only.
inline void expect_agreement(Request request) {
  if (ranks > 4 && rounds(1) == 1)
    GTEST_SKIP() << "more than four ranks: scripts/test --full";
  stand_here(request);
  const Report report = dry_run(request);
  const Seen seen = RealRun(request).run();
  expect_equal(report.memory, seen.memory, "of the rank");
  expect_equal(report.node_memory, seen.node_memory, "of the node");
  expect_sums(report);
  EXPECT_EQ(planned_operations(report), seen.operations);
  expect_mpi_calls(report, request, seen.calls);
  EXPECT_EQ(planned_messages(report, request), seen.calls.received);
}

} // namespace ostraka::plan::test
