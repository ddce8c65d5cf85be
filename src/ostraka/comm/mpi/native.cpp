// SPDX-License-Identifier: Apache-2.0
// Operations that are MPI's own collectives.
#include <ostraka/base/checked.hpp>
#include <ostraka/comm/mpi/impl/mpi_collective.hpp>

#include <algorithm>

namespace ostraka::comm::impl {

std::vector<std::byte> ScratchPool::take(std::int64_t bytes) {
  std::vector<std::byte> piece;
  if (!free_.empty()) {
    piece = std::move(free_.back());
    free_.pop_back();
  }
  piece.resize(std::max(piece.size(), static_cast<std::size_t>(bytes)));
  return piece;
}

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
  case DType::f64:
    return MPI_DOUBLE;
  case DType::f32:
    return MPI_FLOAT;
  case DType::i64:
    return MPI_INT64_T;
  case DType::i32:
    return MPI_INT32_T;
  case DType::u8:
    return MPI_UINT8_T;
  case DType::bf16:
  case DType::f16:
    return MPI_UINT16_T; // moved only; reductions are our own
  }
  fail(Status::INTERNAL, "mpi_type: unknown data type");
}

bool is_native(DType dtype, layout::ReduceOp op) {
  const bool is_16_bit = dtype == DType::bf16 || dtype == DType::f16;
  const bool compares = op == layout::ReduceOp::max || op == layout::ReduceOp::min;
  if (dtype == DType::u8)
    return op == layout::ReduceOp::prod;
  return !is_16_bit && !(compares && is_floating(dtype));
}

namespace {

MPI_Op mpi_op(layout::ReduceOp op) {
  switch (op) {
  case layout::ReduceOp::sum:
  case layout::ReduceOp::mean: // a sum that is divided afterwards
    return MPI_SUM;
  case layout::ReduceOp::max:
    return MPI_MAX;
  case layout::ReduceOp::min:
    return MPI_MIN;
  case layout::ReduceOp::prod:
    return MPI_PROD;
  }
  fail(Status::INTERNAL, "mpi_op: unknown reduction");
}

template <class T>
void divide(T* values, std::int64_t count, int divisor) {
  for (std::int64_t i = 0; i < count; ++i)
    values[i] /= static_cast<T>(divisor);
}

// Makes means of sums of f64 or f32.
void conclude(layout::ReduceOp op, void* sums, DType dtype, std::int64_t count, int ranks) {
  if (op != layout::ReduceOp::mean)
    return;
  if (dtype == DType::f64)
    divide(static_cast<double*>(sums), count, ranks);
  else
    divide(static_cast<float*>(sums), count, ranks);
}

// Counts and displacements of unequal pieces as MPI wants them.
struct Cuts {
  explicit Cuts(const layout::Segments& pieces) {
    for (int k = 0; k < pieces.count(); ++k) {
      const layout::Range piece = pieces.range(k);
      counts.push_back(narrow(piece.size(), "pieces: count"));
      offsets.push_back(narrow(piece.begin, "pieces: offset"));
    }
  }
  std::vector<int> counts;
  std::vector<int> offsets;
};

class NativeCollective : public MpiCollective {
public:
  using MpiCollective::MpiCollective;
  bool test() final { return is_complete(request_) && completed(); }

protected:
  /// After a request is complete: true when the operation is, false when it started another request.
  virtual bool completed() { return true; }

  MPI_Request request_ = MPI_REQUEST_NULL;
};

class AllGather final : public NativeCollective {
public:
  AllGather(GroupPtr group, Operand in, Operand out, int count, DType dtype)
      : NativeCollective(std::move(group)), in_(std::move(in)), out_(std::move(out)), count_(count), dtype_(dtype) {}

  void start() override {
    std::byte* own = out_.data() + group_->rank * (count_ * size_of(dtype_));
    const void* source = in_.data() == own ? MPI_IN_PLACE : static_cast<const void*>(in_.data());
    const MPI_Datatype type = mpi_type(dtype_);
    // The send count is ignored by the standard when in place, but Open MPI chooses its algorithm by it.
    check(MPI_Iallgather(source, count_, type, out_.data(), count_, type, group_->comm, &request_));
  }

private:
  Operand in_;
  Operand out_;
  int count_;
  DType dtype_;
};

class UnequalAllGather final : public NativeCollective {
public:
  UnequalAllGather(GroupPtr group, Operand in, Operand out, const layout::Segments& pieces, DType dtype)
      : NativeCollective(std::move(group)), in_(std::move(in)), out_(std::move(out)), cuts_(pieces), dtype_(dtype) {}

  void start() override {
    const int rank = group_->rank;
    std::byte* own = out_.data() + cuts_.offsets[rank] * size_of(dtype_);
    const void* source = in_.data() == own ? MPI_IN_PLACE : static_cast<const void*>(in_.data());
    if (cuts_.counts[rank] == 0 && in_.data() == out_.data())
      source = nullptr; // MPICH calls equal pointers an alias even where nothing is sent
    const MPI_Datatype type = mpi_type(dtype_);
    check(MPI_Iallgatherv(source, cuts_.counts[rank], type, out_.data(), cuts_.counts.data(), cuts_.offsets.data(),
                          type, group_->comm, &request_));
  }

private:
  Operand in_;
  Operand out_;
  Cuts cuts_;
  DType dtype_;
};

/// The result goes through scratch where it would alias the input, which MPI forbids.
class ReduceScatter final : public NativeCollective {
public:
  ReduceScatter(GroupPtr group, Operand in, Operand out, const layout::Segments& pieces, DType dtype,
                layout::ReduceOp op)
      : NativeCollective(std::move(group)), in_(std::move(in)), out_(std::move(out)),
        own_(pieces.range(group_->rank).size()), total_(pieces.size()), dtype_(dtype), op_(op) {
    if (!pieces.are_equal())
      counts_ = Cuts(pieces).counts;
  }

  void start() override {
    const std::byte* begin = in_.data();
    const std::int64_t width = size_of(dtype_);
    aliases_ = out_.data() == begin || (out_.data() + own_ * width > begin && out_.data() < begin + total_ * width);
    if (aliases_)
      scratch_ = group_->scratch.take(own_ * width);
    void* result = aliases_ ? scratch_.data() : out_.data();
    if (counts_.empty())
      check(MPI_Ireduce_scatter_block(begin, result, static_cast<int>(own_), mpi_type(dtype_), mpi_op(op_),
                                      group_->comm, &request_));
    else
      check(MPI_Ireduce_scatter(begin, result, counts_.data(), mpi_type(dtype_), mpi_op(op_), group_->comm, &request_));
  }

private:
  bool completed() override {
    if (aliases_) {
      std::copy_n(scratch_.data(), own_ * size_of(dtype_), out_.data()); // perhaps none, from nowhere
      group_->scratch.give_back(std::move(scratch_));
    }
    conclude(op_, out_.data(), dtype_, own_, group_->size);
    return true;
  }

  Operand in_;
  Operand out_;
  std::int64_t own_;
  std::int64_t total_;
  std::vector<int> counts_; ///< of unequal pieces
  DType dtype_;
  layout::ReduceOp op_;
  std::vector<std::byte> scratch_;
  bool aliases_ = false;
};

/// An operation on one contiguous range, one call for each part of at most the count limit.
class InParts : public NativeCollective {
public:
  InParts(GroupPtr group, std::int64_t count, DType dtype)
      : NativeCollective(std::move(group)), count_(count), dtype_(dtype) {}

  void start() final { start_part(); }
  bool will_start_again() const final { return begun_ < count_; }

protected:
  /// On `count` elements from byte `first` on.
  virtual int call(std::int64_t first, int count) = 0;
  virtual void end() {}

  std::int64_t count_;
  DType dtype_;

private:
  void start_part() {
    const std::int64_t count = std::min(count_ - begun_, group_->settings.count_limit);
    const std::int64_t first = begun_ * size_of(dtype_);
    begun_ += count;
    check(call(first, static_cast<int>(count)));
  }

  bool completed() final {
    if (begun_ < count_) {
      start_part();
      return false;
    }
    end();
    return true;
  }

  std::int64_t begun_ = 0;
};

class AllReduce final : public InParts {
public:
  AllReduce(GroupPtr group, Operand in, Operand out, std::int64_t count, DType dtype, layout::ReduceOp op)
      : InParts(std::move(group), count, dtype), in_(std::move(in)), out_(std::move(out)), op_(op) {}

private:
  int call(std::int64_t first, int count) override {
    const std::byte* from = in_.data();
    std::byte* to = out_.data();
    const void* source = from == to ? MPI_IN_PLACE : static_cast<const void*>(from + first);
    return MPI_Iallreduce(source, to + first, count, mpi_type(dtype_), mpi_op(op_), group_->comm, &request_);
  }
  void end() override { conclude(op_, out_.data(), dtype_, count_, group_->size); }

  Operand in_;
  Operand out_;
  layout::ReduceOp op_;
};

class Broadcast final : public InParts {
public:
  Broadcast(GroupPtr group, Operand data, std::int64_t bytes, int root)
      : InParts(std::move(group), bytes, DType::u8), data_(std::move(data)), root_(root) {}

private:
  int call(std::int64_t first, int count) override {
    return MPI_Ibcast(data_.data() + first, count, MPI_BYTE, root_, group_->comm, &request_);
  }

  Operand data_;
  int root_;
};

// Beyond the limit: every rank sends its piece to all others.
std::unique_ptr<Collective> gather_by_exchange(GroupPtr group, Operand in, Operand out, const layout::Segments& pieces,
                                               DType dtype) {
  std::vector<Transfer> sends, receives;
  const std::int64_t own = pieces.range(group->rank).size();
  for (int peer = 0; peer < group->size; ++peer) {
    const layout::Range piece = pieces.range(peer);
    sends.push_back({peer, 0, own});
    receives.push_back({peer, piece.begin, piece.size()});
  }
  return make_exchange(std::move(group), std::move(in), std::move(sends), std::move(out), std::move(receives), dtype);
}

} // namespace

std::unique_ptr<Collective> make_allgather(GroupPtr group, Operand in, Operand out, const layout::Segments& pieces,
                                           DType dtype) {
  const std::int64_t limit = group->settings.count_limit;
  if (pieces.are_equal() && pieces.largest() <= limit)
    return std::make_unique<AllGather>(std::move(group), std::move(in), std::move(out),
                                       static_cast<int>(pieces.largest()), dtype);
  if (!pieces.are_equal() && pieces.size() <= limit)
    return std::make_unique<UnequalAllGather>(std::move(group), std::move(in), std::move(out), pieces, dtype);
  return gather_by_exchange(std::move(group), std::move(in), std::move(out), pieces, dtype);
}

std::unique_ptr<Collective> make_native_reduce_scatter(GroupPtr group, Operand in, Operand out,
                                                       const layout::Segments& pieces, DType dtype,
                                                       layout::ReduceOp op) {
  return std::make_unique<ReduceScatter>(std::move(group), std::move(in), std::move(out), pieces, dtype, op);
}

std::unique_ptr<Collective> make_native_allreduce(GroupPtr group, Operand in, Operand out, std::int64_t count,
                                                  DType dtype, layout::ReduceOp op) {
  return std::make_unique<AllReduce>(std::move(group), std::move(in), std::move(out), count, dtype, op);
}

std::unique_ptr<Collective> make_broadcast(GroupPtr group, Operand data, std::int64_t bytes, int root) {
  return std::make_unique<Broadcast>(std::move(group), std::move(data), bytes, root);
}

} // namespace ostraka::comm::impl
