// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/float16.hpp>
#include <ostraka/comm/mpi/impl/mpi_collectives.hpp>
#include <ostraka/comm/mpi/mpi_communicator.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ostraka::comm::impl {

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
  case Reduction::mean: // a sum that is divided afterwards
    return MPI_SUM;
  case Reduction::max:
    return MPI_MAX;
  case Reduction::min:
    return MPI_MIN;
  }
  fail(Status::INTERNAL, "mpi_op: unknown reduction");
}

template <class T>
void divide(T* values, std::int64_t count, int divisor) {
  for (std::int64_t i = 0; i < count; ++i)
    values[i] /= static_cast<T>(divisor);
}

} // namespace

std::vector<std::byte> ScratchPool::take(std::int64_t bytes) {
  std::vector<std::byte> piece;
  if (!free_.empty()) {
    piece = std::move(free_.back());
    free_.pop_back();
  }
  piece.resize(std::max(piece.size(), static_cast<std::size_t>(bytes)));
  return piece;
}

MpiCollective::MpiCollective(MPI_Comm group) : group_(group) {
  MPI_Comm_size(group, &size_);
  MPI_Comm_rank(group, &rank_);
}

bool MpiCollective::test() {
  int flag = 0;
  check(MPI_Test(&request_, &flag, MPI_STATUS_IGNORE));
  return flag != 0 && completed();
}

void MpiCollective::check(int code) const { check_mpi(code, label); }

void MpiCollective::conclude(Reduction reduction, void* sums, DType dtype, std::int64_t count) const {
  if (reduction != Reduction::mean)
    return;
  if (dtype == DType::f64)
    divide(static_cast<double*>(sums), count, size_);
  else
    divide(static_cast<float*>(sums), count, size_);
}

AllGather::AllGather(MPI_Comm group, Operand in, Operand out, std::int64_t count, DType dtype)
    : MpiCollective(group), in_(std::move(in)), out_(std::move(out)), count_(narrow(count, "allgather: count")),
      dtype_(dtype) {}

void AllGather::start() {
  std::byte* own = out_.data() + rank_ * (count_ * size_of(dtype_));
  const void* source = in_.data() == own ? MPI_IN_PLACE : static_cast<const void*>(in_.data());
  const MPI_Datatype type = mpi_type(dtype_);
  // The send count is ignored by the standard when in place, but Open MPI chooses its algorithm by it.
  check(MPI_Iallgather(source, count_, type, out_.data(), count_, type, group_, &request_));
}

ReduceScatter::ReduceScatter(MPI_Comm group, Operand in, Operand out, std::int64_t count, DType dtype,
                             Reduction reduction, SharedScratch pool)
    : MpiCollective(group), in_(std::move(in)), out_(std::move(out)), count_(narrow(count, "reduce-scatter: count")),
      dtype_(dtype), reduction_(reduction), pool_(std::move(pool)) {}

void ReduceScatter::start() {
  const std::int64_t bytes = count_ * size_of(dtype_);
  const std::byte* begin = in_.data();
  aliases_ = out_.data() + bytes > begin && out_.data() < begin + size_ * bytes;
  if (aliases_)
    scratch_ = pool_->take(bytes);
  check(MPI_Ireduce_scatter_block(begin, aliases_ ? scratch_.data() : out_.data(), count_, mpi_type(dtype_),
                                  mpi_op(reduction_), group_, &request_));
}

bool ReduceScatter::completed() {
  if (aliases_) {
    std::memcpy(out_.data(), scratch_.data(), static_cast<std::size_t>(count_ * size_of(dtype_)));
    pool_->give_back(std::move(scratch_));
  }
  conclude(reduction_, out_.data(), dtype_, count_);
  return true;
}

Sum16::Sum16(MPI_Comm group, Operand in, Operand out, std::int64_t total, Reduction reduction, bool gather,
             SharedScratch pool)
    : MpiCollective(group), in_(std::move(in)), out_(std::move(out)), reduction_(reduction), gather_(gather),
      pool_(std::move(pool)) {
  const auto begin_of = [&](int peer) { return total / size_ * peer + std::min<std::int64_t>(peer, total % size_); };
  for (int peer = 0; peer < size_; ++peer) {
    offsets_.push_back(narrow(begin_of(peer), "reduction of 16-bit elements: offset"));
    counts_.push_back(narrow(begin_of(peer + 1) - begin_of(peer), "reduction of 16-bit elements: count"));
  }
  const int own = counts_[rank_];
  narrow(static_cast<std::int64_t>(own) * size_, "reduction of 16-bit elements: scratch");
  for (int peer = 0; peer < size_; ++peer)
    own_offsets_.push_back(peer * own);
  own_counts_.assign(static_cast<std::size_t>(size_), own);
}

void Sum16::start() {
  scratch_ = pool_->take(static_cast<std::int64_t>(counts_[rank_]) * size_ * size_of(DType::bf16));
  check(MPI_Ialltoallv(in_.data(), counts_.data(), offsets_.data(), MPI_UINT16_T, scratch_.data(), own_counts_.data(),
                       own_offsets_.data(), MPI_UINT16_T, group_, &request_));
}

bool Sum16::completed() {
  if (is_summed_)
    return true;
  is_summed_ = true;
  sum_pieces();
  pool_->give_back(std::move(scratch_));
  if (!gather_)
    return true;
  check(MPI_Iallgatherv(MPI_IN_PLACE, counts_[rank_], MPI_UINT16_T, out_.data(), counts_.data(), offsets_.data(),
                        MPI_UINT16_T, group_, &request_));
  return false;
}

void Sum16::sum_pieces() {
  const auto* pieces = reinterpret_cast<const bfloat16*>(scratch_.data());
  auto* results = reinterpret_cast<bfloat16*>(out_.data()) + (gather_ ? offsets_[rank_] : 0);
  const float divisor = reduction_ == Reduction::mean ? static_cast<float>(size_) : 1.0f;
  for (int i = 0; i < counts_[rank_]; ++i) {
    float sum = 0;
    for (int peer = 0; peer < size_; ++peer)
      sum += static_cast<float>(pieces[own_offsets_[peer] + i]);
    results[i] = bfloat16(sum / divisor);
  }
}

AllReduce::AllReduce(MPI_Comm group, Operand data, std::int64_t count, DType dtype, Reduction reduction)
    : MpiCollective(group), data_(std::move(data)), count_(narrow(count, "allreduce: count")), dtype_(dtype),
      reduction_(reduction) {}

void AllReduce::start() {
  check(MPI_Iallreduce(MPI_IN_PLACE, data_.data(), count_, mpi_type(dtype_), mpi_op(reduction_), group_, &request_));
}

bool AllReduce::completed() {
  conclude(reduction_, data_.data(), dtype_, count_);
  return true;
}

Broadcast::Broadcast(MPI_Comm group, Operand data, std::int64_t bytes, int root)
    : MpiCollective(group), data_(std::move(data)), bytes_(narrow(bytes, "broadcast: bytes")), root_(root) {}

void Broadcast::start() { check(MPI_Ibcast(data_.data(), bytes_, MPI_BYTE, root_, group_, &request_)); }

} // namespace ostraka::comm::impl
