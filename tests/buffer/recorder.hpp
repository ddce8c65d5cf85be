// SPDX-License-Identifier: Apache-2.0
// Communicators that note what they are asked to do and where, and do it for sums of i64 with blocking MPI calls.
#pragma once

#include "buffer_test.hpp"

#include <string>
#include <vector>

namespace ostraka::buffer::test {

/// One collective call: which, on which axis, and its places.
struct Call {
  std::string operation;
  int axis;
  comm::Operand in;
  comm::Operand out;
  std::int64_t count; ///< of all pieces
};

class Recorder final : public comm::Communicator {
public:
  Recorder(MPI_Comm group, int axis, int axis_rank, int axis_size, std::vector<Call>& calls)
      : Communicator("recorder", axis_rank, axis_size), group_(group), axis_(axis), calls_(calls) {}
  ~Recorder() override { MPI_Comm_free(&group_); }

private:
  /// Work that is complete when it has started.
  class Now final : public comm::Collective {
  public:
    explicit Now(std::function<void()> body) : body_(std::move(body)) {}
    void start() override { body_(); }
    bool test() override { return true; }

  private:
    std::function<void()> body_;
  };

  std::unique_ptr<comm::Collective> note(Call call, std::function<void()> body) {
    calls_.push_back(std::move(call));
    return std::make_unique<Now>(std::move(body));
  }

  static std::vector<int> counts(const Segments& pieces) {
    std::vector<int> result;
    for (int k = 0; k < pieces.count(); ++k)
      result.push_back(static_cast<int>(pieces.range(k).size()));
    return result;
  }
  static std::vector<int> offsets(const Segments& pieces) {
    std::vector<int> result;
    for (int k = 0; k < pieces.count(); ++k)
      result.push_back(static_cast<int>(pieces.begin(k)));
    return result;
  }

  std::unique_ptr<comm::Collective> make_allgather(comm::Operand in, comm::Operand out, const Segments& pieces,
                                                   DType) override {
    return note({"allgather", axis_, in, out, pieces.size()}, [this, in, out, pieces] {
      const std::vector<std::byte> own(in.data(), in.data() + 8 * pieces.range(rank()).size());
      MPI_Allgatherv(own.data(), static_cast<int>(own.size() / 8), MPI_INT64_T, out.data(), counts(pieces).data(),
                     offsets(pieces).data(), MPI_INT64_T, group_);
    });
  }
  std::unique_ptr<comm::Collective> make_reduce_scatter(comm::Operand in, comm::Operand out, const Segments& pieces,
                                                        DType, ReduceOp) override {
    return note({"reduce_scatter", axis_, in, out, pieces.size()}, [this, in, out, pieces] {
      std::vector<std::int64_t> result(static_cast<std::size_t>(pieces.range(rank()).size()));
      MPI_Reduce_scatter(in.data(), result.data(), counts(pieces).data(), MPI_INT64_T, MPI_SUM, group_);
      std::copy(result.begin(), result.end(), reinterpret_cast<std::int64_t*>(out.data()));
    });
  }
  std::unique_ptr<comm::Collective> make_allreduce(comm::Operand in, comm::Operand out, std::int64_t count, DType,
                                                   ReduceOp) override {
    return note({"allreduce", axis_, in, out, count}, [this, in, out, count] {
      const void* source = in.data() == out.data() ? MPI_IN_PLACE : static_cast<const void*>(in.data());
      MPI_Allreduce(source, out.data(), static_cast<int>(count), MPI_INT64_T, MPI_SUM, group_);
    });
  }
  std::unique_ptr<comm::Collective> make_broadcast(comm::Operand data, std::int64_t bytes, int) override {
    return note({"broadcast", axis_, data, data, bytes}, [] {});
  }
  std::unique_ptr<comm::Collective> make_exchange(comm::Operand in, std::vector<comm::Transfer>, comm::Operand out,
                                                  std::vector<comm::Transfer>, DType) override {
    return note({"exchange", axis_, in, out, 0}, [] {});
  }

  MPI_Comm group_;
  int axis_;
  std::vector<Call>& calls_;
};

/// Recorders for the lines of `mesh`; what they note goes to `calls`. Collective.
inline mesh::Communicators recorders(const mesh::DeviceMesh& mesh, std::vector<Call>& calls) {
  mesh::Communicators result;
  for (int axis = 0; axis < mesh.dims(); ++axis) {
    int color = 0;
    for (int other = 0; other < mesh.dims(); ++other)
      color = color * mesh.axis_size(other) + (other == axis ? 0 : mesh.coordinate(other));
    MPI_Comm line = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, color, mesh.coordinate(axis), &line);
    const auto recorder = std::make_shared<Recorder>(line, axis, mesh.coordinate(axis), mesh.axis_size(axis), calls);
    result.gather.push_back(recorder);
    result.reduce.push_back(recorder);
  }
  return result;
}

} // namespace ostraka::buffer::test
