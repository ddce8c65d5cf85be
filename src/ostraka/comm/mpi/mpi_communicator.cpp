// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/float16.hpp>
#include <ostraka/comm/mpi/mpi_communicator.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

namespace ostraka::comm {

void check_mpi(int code, const std::string& operation) {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(Status::COMMUNICATION, operation, ": ", std::string(text, static_cast<std::size_t>(length)));
}

namespace {

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
    return MPI_UINT16_T; // moved only; sums are our own
  }
  fail(Status::INTERNAL, "mpi_type: unknown data type");
}

MPI_Op mpi_op(Reduction reduction) {
  switch (reduction) {
  case Reduction::sum:
    return MPI_SUM;
  case Reduction::max:
    return MPI_MAX;
  case Reduction::min:
    return MPI_MIN;
  }
  fail(Status::INTERNAL, "mpi_op: unknown reduction");
}

bool is_16_bit(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

// Scratch memory of one communicator, kept between operations so that a steady step allocates none. Every operation in
// flight has a piece of its own.
class ScratchPool {
public:
  std::vector<std::byte> take(std::int64_t bytes) {
    std::vector<std::byte> piece;
    if (!free_.empty()) {
      piece = std::move(free_.back());
      free_.pop_back();
    }
    piece.resize(std::max(piece.size(), static_cast<std::size_t>(bytes)));
    return piece;
  }
  void give_back(std::vector<std::byte> piece) { free_.push_back(std::move(piece)); }

private:
  std::vector<std::vector<std::byte>> free_;
};

using SharedScratch = std::shared_ptr<ScratchPool>;

class MpiCollective : public Collective {
public:
  explicit MpiCollective(MPI_Comm group) : group_(group) { 
    MPI_Comm_size(group, &size_);
    MPI_Comm_rank(group, &rank_);
  }
  bool test() final {
    int flag = 0;
    check_mpi(MPI_Test(&request_, &flag, MPI_STATUS_IGNORE), label);
    return flag != 0 && completed();
  }

protected:
  /// After the request is complete: true when the operation is, false when it started another request.
  virtual bool completed() { return true; }
  void check(int code) const { check_mpi(code, label); }
  int narrowed(std::int64_t count) const { return narrow(count, label + ": count"); }

  MPI_Comm group_;
  int rank_ = 0;
  int size_ = 1;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class AllGather final : public MpiCollective {
public:
  AllGather(MPI_Comm group, Operand in, Operand out, std::int64_t count, DType dtype)
      : MpiCollective(group), in_(std::move(in)), out_(std::move(out)), count_(count), dtype_(dtype) {}
  void start() override {
    std::byte* own = out_.data() + rank_ * count_ * size_of(dtype_);
    const void* source = in_.data() == own ? MPI_IN_PLACE : static_cast<const void*>(in_.data());
    const MPI_Datatype type = mpi_type(dtype_);
    // The send count is ignored by the standard when in place, but Open MPI chooses its algorithm by it.
    check(MPI_Iallgather(source, narrowed(count_), type, out_.data(), narrowed(count_), type, group_, &request_));
  }

private:
  Operand in_;
  Operand out_;
  std::int64_t count_;
  DType dtype_;
};

// The result goes through scratch where it would alias the input, which MPI forbids.
class ReduceScatter final : public MpiCollective {
public:
  ReduceScatter(MPI_Comm group, Operand in, Operand out, std::int64_t count, DType dtype,
                SharedScratch pool)
      : MpiCollective(group), in_(std::move(in)), out_(std::move(out)), count_(count), dtype_(dtype),
        pool_(std::move(pool)) {}
  void start() override {
    const std::int64_t bytes = count_ * size_of(dtype_);
    const std::byte* begin = in_.data();
    aliases_ = out_.data() + bytes > begin && out_.data() < begin + size_ * bytes;
    if (aliases_)
      scratch_ = pool_->take(bytes);
    check(MPI_Ireduce_scatter_block(begin, aliases_ ? scratch_.data() : out_.data(), narrowed(count_),
                                    mpi_type(dtype_), MPI_SUM, group_, &request_));
  }

private:
  bool completed() override {
    if (aliases_) {
      std::memcpy(out_.data(), scratch_.data(), static_cast<std::size_t>(count_ * size_of(dtype_)));
      pool_->give_back(std::move(scratch_));
    }
    return true;
  }

  Operand in_;
  Operand out_;
  std::int64_t count_;
  DType dtype_;
  SharedScratch pool_;
  std::vector<std::byte> scratch_;
  bool aliases_ = false;
};

// Sums bf16 pieces in f32, in rank order, rounded once: an all-to-all brings every rank the pieces of its segment.
// With `gather`, the sums then go to all ranks, which makes it an all-reduce.
class Sum16 final : public MpiCollective {
public:
  Sum16(MPI_Comm group, Operand in, Operand out, std::int64_t count, bool gather, SharedScratch pool)
      : MpiCollective(group), in_(std::move(in)), out_(std::move(out)), count_(count), gather_(gather),
        pool_(std::move(pool)) {}
  void start() override {
    scratch_ = pool_->take(count_ * size_ * size_of(DType::bf16));
    check(MPI_Ialltoall(in_.data(), narrowed(count_), MPI_UINT16_T, scratch_.data(), narrowed(count_), MPI_UINT16_T,
                        group_, &request_));
  }

private:
  bool completed() override {
    if (summed_)
      return true;
    summed_ = true;
    const auto* pieces = reinterpret_cast<const bfloat16*>(scratch_.data());
    auto* sums = reinterpret_cast<bfloat16*>(out_.data()) + (gather_ ? rank_ * count_ : 0);
    for (std::int64_t i = 0; i < count_; ++i) {
      float sum = 0;
      for (int peer = 0; peer < size_; ++peer)
        sum += static_cast<float>(pieces[peer * count_ + i]);
      sums[i] = bfloat16(sum);
    }
    pool_->give_back(std::move(scratch_));
    if (!gather_)
      return true;
    check(MPI_Iallgather(MPI_IN_PLACE, narrowed(count_), MPI_UINT16_T, out_.data(), narrowed(count_), MPI_UINT16_T,
                         group_, &request_));
    return false;
  }

  Operand in_;
  Operand out_;
  std::int64_t count_;
  bool gather_;
  SharedScratch pool_;
  std::vector<std::byte> scratch_;
  bool summed_ = false;
};

class AllReduce final : public MpiCollective {
public:
  AllReduce(MPI_Comm group, Operand data, std::int64_t count, DType dtype, Reduction reduction)
      : MpiCollective(group), data_(std::move(data)), count_(count), dtype_(dtype), reduction_(reduction) {}
  void start() override {
    check(MPI_Iallreduce(MPI_IN_PLACE, data_.data(), narrowed(count_), mpi_type(dtype_), mpi_op(reduction_), group_,
                         &request_));
  }

private:
  Operand data_;
  std::int64_t count_;
  DType dtype_;
  Reduction reduction_;
};

class Broadcast final : public MpiCollective {
public:
  Broadcast(MPI_Comm group, Operand data, std::int64_t bytes, int root)
      : MpiCollective(group), data_(std::move(data)), bytes_(bytes), root_(root) {}
  void start() override {
    check(MPI_Ibcast(data_.data(), narrowed(bytes_), MPI_BYTE, root_, group_, &request_));
  }

private:
  Operand data_;
  std::int64_t bytes_;
  int root_;
};

class MpiCommunicator final : public Communicator {
public:
  MpiCommunicator(MPI_Comm group, std::string name, int rank, int size)
      : Communicator(std::move(name), rank, size), group_(group) {}

  ~MpiCommunicator() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized == 0 && !has_failed()) // a failed group may have requests in flight
      MPI_Comm_free(&group_);
  }

protected:
  std::unique_ptr<Collective> make_allgather(Operand in, Operand out, std::int64_t count, DType dtype) override {
    return std::make_unique<AllGather>(group_, std::move(in), std::move(out), count, dtype);
  }
  std::unique_ptr<Collective> make_reduce_scatter(Operand in, Operand out, std::int64_t count, DType dtype) override {
    expect(dtype != DType::f16, Status::NOT_SUPPORTED, "reduce-scatter: f16 sums are not provided by this version");
    if (is_16_bit(dtype))
      return std::make_unique<Sum16>(group_, std::move(in), std::move(out), count, false, scratch_);
    return std::make_unique<ReduceScatter>(group_, std::move(in), std::move(out), count, dtype, scratch_);
  }
  std::unique_ptr<Collective> make_allreduce(Operand data, std::int64_t count, DType dtype,
                                             Reduction reduction) override {
    expect(dtype != DType::f16, Status::NOT_SUPPORTED, "allreduce: f16 sums are not provided by this version");
    if (!is_16_bit(dtype))
      return std::make_unique<AllReduce>(group_, std::move(data), count, dtype, reduction);
    expect(reduction == Reduction::sum && count % size() == 0, Status::NOT_SUPPORTED,
           "allreduce: 16-bit types are summed only, in equal pieces; found ", count, " elements on ", size(),
           " ranks");
    return std::make_unique<Sum16>(group_, data, data, count / size(), true, scratch_);
  }
  std::unique_ptr<Collective> make_broadcast(Operand data, std::int64_t bytes, int root) override {
    return std::make_unique<Broadcast>(group_, std::move(data), bytes, root);
  }

private:
  MPI_Comm group_;
  SharedScratch scratch_ = std::make_shared<ScratchPool>();
};

} // namespace

std::shared_ptr<Communicator> make_mpi_communicator(MPI_Comm group, std::string name) {
  check_mpi(MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN), "communicator " + name);
  int rank = 0, size = 0;
  check_mpi(MPI_Comm_rank(group, &rank), "communicator " + name);
  check_mpi(MPI_Comm_size(group, &size), "communicator " + name);
  return std::make_shared<MpiCommunicator>(group, std::move(name), rank, size);
}

} // namespace ostraka::comm
