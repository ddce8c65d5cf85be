// SPDX-License-Identifier: Apache-2.0
// Collective operations of one group of ranks. A communicator has one FIFO: operations start strictly in call order,
// whatever stream they are queued on, so the order is equal on all ranks (design section 3, "Communicators").
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/memory/storage.hpp>
#include <ostraka/runtime/progress.hpp>
#include <ostraka/runtime/stream.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

namespace ostraka::comm {

/// `mean` is the sum divided by the number of ranks, for floating types.
enum class Reduction : std::int32_t { sum, mean, max, min };

/// A place in storage; the address is read when the operation starts.
struct Operand {
  std::shared_ptr<memory::Storage> storage;
  std::int64_t byte_offset = 0;

  std::byte* data() const { return storage->data() + byte_offset; }
};

/// One operation of a back end. start() and test() may throw; the communicator then fails.
class Collective : public runtime::Task {
public:
  virtual void start() = 0;
  virtual bool test() = 0; ///< true when complete
  /// Whether test() will start a second part: nothing may start before it, or starts would differ between ranks.
  virtual bool will_start_again() const { return false; }
  bool is_started = false;
  std::string label; ///< "allgather of 640 f64"
};

class OSTRAKA_API Communicator : public runtime::Progressable {
public:
  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }

  // All operations are asynchronous on `stream` and collective: every rank of the group calls them in the same order
  // with the same counts and types. `count` is in elements. Storage is kept alive until the operation is complete.

  /// Gathers `count` elements of every rank into out[rank * count]. `in` may be this rank's place inside `out`.
  void allgather(runtime::Stream& stream, Operand in, Operand out, std::int64_t count, DType dtype);
  /// Sums or averages in[rank * count, +count) over the ranks into `out`, which may be that place inside `in`. bf16 is
  /// summed in f32 in rank order and rounded once. NOT_SUPPORTED for f16, max and min.
  void reduce_scatter(runtime::Stream& stream, Operand in, Operand out, std::int64_t count, DType dtype,
                      Reduction reduction = Reduction::sum);
  /// Reduces `count` elements in place, bf16 as in reduce_scatter; max and min of i64 only.
  void allreduce(runtime::Stream& stream, Operand data, std::int64_t count, DType dtype,
                 Reduction reduction = Reduction::sum);
  /// Copies `bytes` bytes from `root` to all ranks.
  void broadcast(runtime::Stream& stream, Operand data, std::int64_t bytes, int root);

  void progress() noexcept final;
  std::string pending() const final;
  void abandon(const std::string& cause) noexcept final;

protected:
  Communicator(std::string name, int rank, int size) : name_(std::move(name)), rank_(rank), size_(size) {}

  virtual std::unique_ptr<Collective> make_allgather(Operand in, Operand out, std::int64_t count, DType dtype) = 0;
  virtual std::unique_ptr<Collective> make_reduce_scatter(Operand in, Operand out, std::int64_t count, DType dtype,
                                                          Reduction reduction) = 0;
  virtual std::unique_ptr<Collective> make_allreduce(Operand data, std::int64_t count, DType dtype,
                                                     Reduction reduction) = 0;
  virtual std::unique_ptr<Collective> make_broadcast(Operand data, std::int64_t bytes, int root) = 0;

  bool has_failed() const { return !failure_.empty(); }

private:
  void enqueue(runtime::Stream& stream, std::unique_ptr<Collective> operation, std::string label);
  void advance();
  void give_up(std::exception_ptr error) noexcept;

  std::string name_;
  int rank_;
  int size_;
  std::deque<std::shared_ptr<Collective>> fifo_;
  std::string failure_; ///< the first cause, once failed
};

} // namespace ostraka::comm
