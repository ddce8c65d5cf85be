// SPDX-License-Identifier: Apache-2.0
// The collectives of the MPI back end as tasks over nonblocking MPI calls. Counts are checked when a task is made, so
// that a count that MPI cannot take is refused before anything is queued.
#pragma once

#include <ostraka/base/checked.hpp>
#include <ostraka/base/dtype.hpp>
#include <ostraka/comm/communicator.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ostraka::comm::impl {

/// Scratch memory of one communicator, kept between operations so that a steady step allocates none. Every operation in
/// flight has a piece of its own.
class ScratchPool {
public:
  std::vector<std::byte> take(std::int64_t bytes);
  void give_back(std::vector<std::byte> piece) { free_.push_back(std::move(piece)); }

private:
  std::vector<std::vector<std::byte>> free_;
};

using SharedScratch = std::shared_ptr<ScratchPool>;

class MpiCollective : public Collective {
public:
  explicit MpiCollective(MPI_Comm group);
  bool test() final;

protected:
  /// After the request is complete: true when the operation is, false when it started another request.
  virtual bool completed() { return true; }
  void check(int code) const;
  /// Divides sums of f64 or f32 by the number of ranks where an average was asked for.
  void conclude(Reduction reduction, void* sums, DType dtype, std::int64_t count) const;

  MPI_Comm group_;
  int rank_ = 0;
  int size_ = 1;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class AllGather final : public MpiCollective {
public:
  AllGather(MPI_Comm group, Operand in, Operand out, std::int64_t count, DType dtype);
  void start() override;

private:
  Operand in_;
  Operand out_;
  int count_;
  DType dtype_;
};

/// The result goes through scratch where it would alias the input, which MPI forbids.
class ReduceScatter final : public MpiCollective {
public:
  ReduceScatter(MPI_Comm group, Operand in, Operand out, std::int64_t count, DType dtype, Reduction reduction,
                SharedScratch pool);
  void start() override;

private:
  bool completed() override;

  Operand in_;
  Operand out_;
  int count_;
  DType dtype_;
  Reduction reduction_;
  SharedScratch pool_;
  std::vector<std::byte> scratch_;
  bool aliases_ = false;
};

/// Sums bf16 in f32, in rank order, and rounds the sum or average once: an all-to-all brings every rank its piece of
/// each peer. With `gather`, the results then go to all ranks, which makes it an all-reduce. Pieces differ by one
/// element where the ranks do not divide `total`.
class Sum16 final : public MpiCollective {
public:
  Sum16(MPI_Comm group, Operand in, Operand out, std::int64_t total, Reduction reduction, bool gather,
        SharedScratch pool);
  void start() override;
  bool will_start_again() const override { return gather_ && !is_summed_; }

private:
  bool completed() override;
  void sum_pieces();

  Operand in_;
  Operand out_;
  Reduction reduction_;
  bool gather_;
  SharedScratch pool_;
  std::vector<int> counts_, offsets_;         ///< [peer] its piece of the whole
  std::vector<int> own_counts_, own_offsets_; ///< [peer] our piece of it in scratch
  std::vector<std::byte> scratch_;
  bool is_summed_ = false;
};

class AllReduce final : public MpiCollective {
public:
  AllReduce(MPI_Comm group, Operand data, std::int64_t count, DType dtype, Reduction reduction);
  void start() override;

private:
  bool completed() override;

  Operand data_;
  int count_;
  DType dtype_;
  Reduction reduction_;
};

class Broadcast final : public MpiCollective {
public:
  Broadcast(MPI_Comm group, Operand data, std::int64_t bytes, int root);
  void start() override;

private:
  Operand data_;
  int bytes_;
  int root_;
};

} // namespace ostraka::comm::impl
