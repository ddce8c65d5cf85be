// SPDX-License-Identifier: Apache-2.0
// Collective operations of one group of ranks. A communicator has one FIFO: operations start strictly in call order,
// whatever stream they are queued on, so the order is equal on all ranks (design section 3, "Communicators").
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/base/recycle.hpp>
#include <ostraka/comm/transfer.hpp>
#include <ostraka/layout/placement.hpp>
#include <ostraka/layout/segments.hpp>
#include <ostraka/memory/storage.hpp>
#include <ostraka/runtime/progress.hpp>
#include <ostraka/runtime/stream.hpp>
#include <ostraka/runtime/trace.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ostraka::comm {

/// A place in storage; the address is read when the operation starts.
struct Operand {
  std::shared_ptr<memory::Storage> storage;
  std::int64_t byte_offset = 0;

  std::byte* data() const { return storage->data() + byte_offset; }
};

/// The name of what an operation moves, for messages; null: it has none.
using Name = std::shared_ptr<const std::string>;

/// Takes results of a reduction as they come, `count` elements from element `first` of this rank's piece on: every
/// element once, in order. `values` is valid during the call, which runs inside whatever waits and must not throw.
using Consumer = std::function<void(const runtime::Execution& execution, std::int64_t first, std::int64_t count,
                                    const void* values)>;

/// What an operation is: what messages say about it and what all ranks must agree on.
struct Description {
  const char* operation = ""; ///< a literal
  std::int64_t count = 0;     ///< elements of the whole
  DType dtype = DType::u8;
  layout::ReduceOp op = layout::ReduceOp::sum;
  std::int64_t detail = 0; ///< root, or the hash of unequal pieces and of what else callers agree on
  Name name;
  std::int64_t sequence = 0; ///< operations of this communicator before this one

  /// "allgather of 640 f64 of 'layer1'"
  std::string text() const;
};

/// One operation of a back end. start() and test() may throw; the communicator then fails.
class Collective : public runtime::Task {
public:
  virtual void start() = 0;
  virtual bool test() = 0; ///< true when complete
  /// Whether test() will start a further part: nothing may start before it, or starts would differ between ranks.
  virtual bool will_start_again() const { return false; }

  static void* operator new(std::size_t bytes) { return take_recycled(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept { recycle(memory, bytes); }

  bool is_started = false;
  runtime::trace::Clock::time_point started_at; ///< when tracing
  Description description;
};

class Group;

class OSTRAKA_API Communicator : public runtime::Progressable {
public:
  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }
  /// Why it cannot be used any more; empty while it can.
  const std::string& failure() const { return failure_; }

  // All operations are asynchronous on `stream` and collective: every rank of the group calls them in the same order
  // with the same pieces, types and names. Counts and pieces are in elements; `pieces` has one segment per rank.
  // Storage is kept alive until the operation is complete. With OSTRAKA_CHECK=1 the ranks compare each operation before
  // it starts, and an operation that differs fails everywhere with RANKS_DISAGREE; `agreement` is a number that is
  // compared too, a hash of what the elements mean.

  /// Brings piece k of rank k to `out`, the whole, on every rank. `in` is this rank's piece and may stand at its place
  /// in `out`.
  void allgather(runtime::Stream& stream, Operand in, Operand out, const layout::Segments& pieces, DType dtype,
                 Name name = nullptr, std::int64_t agreement = 0);
  /// Reduces piece k of `in`, the whole, over the ranks into `out` of rank k, which may be that place inside `in`.
  /// 16-bit types are reduced in f32, in rank order (over several nodes: within nodes, then over them), and rounded
  /// once; max and min are NaN where any rank's element is.
  /// Throws TYPE_MISMATCH for the mean of integers.
  void reduce_scatter(runtime::Stream& stream, Operand in, Operand out, const layout::Segments& pieces, DType dtype,
                      layout::ReduceOp op, Name name = nullptr, std::int64_t agreement = 0);
  /// The same for a `consumer`, which gets results while they are in the cache where the back end allows. Afterwards
  /// `out` is undefined. NOT_SUPPORTED while a Group collects operations.
  void reduce_scatter(runtime::Stream& stream, Operand in, Operand out, const layout::Segments& pieces, DType dtype,
                      layout::ReduceOp op, Consumer consumer, Name name = nullptr, std::int64_t agreement = 0);
  /// Reduces `count` elements of `in` into `out` of all ranks, with the rules of reduce_scatter. `out` is `in`
  /// on all ranks, or on none and then does not overlap it.
  void allreduce(runtime::Stream& stream, Operand in, Operand out, std::int64_t count, DType dtype, layout::ReduceOp op,
                 Name name = nullptr, std::int64_t agreement = 0);
  /// The same in place.
  void allreduce(runtime::Stream& stream, const Operand& data, std::int64_t count, DType dtype, layout::ReduceOp op,
                 Name name = nullptr, std::int64_t agreement = 0) {
    allreduce(stream, data, data, count, dtype, op, std::move(name), agreement);
  }
  /// Copies `bytes` bytes from `root` to all ranks.
  void broadcast(runtime::Stream& stream, Operand data, std::int64_t bytes, int root, Name name = nullptr);
  /// Sends parts of `in` and fills parts of `out`, which do not overlap: the k-th element sent to a rank is the k-th
  /// that it receives from here. Transfers of a peer stand together. Throws INVALID_ARGUMENT where what this rank lists
  /// is wrong by itself, and the operation fails with RANKS_DISAGREE where a peer sends less than this rank expects.
  void exchange(runtime::Stream& stream, Operand in, std::vector<Transfer> sends, Operand out,
                std::vector<Transfer> receives, DType dtype, std::int64_t agreement, Name name = nullptr);

  /// Registers the memory in which `storage` lies for symmetric-memory collectives, once; afterwards the operations of
  /// this communicator on it may go straight between the memories of GPUs. False where that cannot be had, and nothing
  /// has changed: other back ends, other memory, other sizes on other ranks, NCCL that refuses. Collective, returns
  /// when done. Throws RANKS_DISAGREE where ranks have registered memory in another order.
  bool rendezvous(const memory::Storage& storage);

  void progress() noexcept final;
  std::string pending() const final;
  void abandon(const std::string& cause) noexcept final;

protected:
  Communicator(std::string name, int rank, int size) : name_(std::move(name)), rank_(rank), size_(size) {}

  virtual std::unique_ptr<Collective> make_allgather(Operand in, Operand out, const layout::Segments& pieces,
                                                     DType dtype) = 0;
  virtual std::unique_ptr<Collective> make_reduce_scatter(Operand in, Operand out, const layout::Segments& pieces,
                                                          DType dtype, layout::ReduceOp op) = 0;
  /// By default the consumer gets everything at the end.
  virtual std::unique_ptr<Collective> make_consumed_reduce_scatter(Operand in, Operand out,
                                                                   const layout::Segments& pieces, DType dtype,
                                                                   layout::ReduceOp op, Consumer consumer);
  virtual std::unique_ptr<Collective> make_allreduce(Operand in, Operand out, std::int64_t count, DType dtype,
                                                     layout::ReduceOp op) = 0;
  virtual std::unique_ptr<Collective> make_broadcast(Operand data, std::int64_t bytes, int root) = 0;
  virtual std::unique_ptr<Collective> make_exchange(Operand in, std::vector<Transfer> sends, Operand out,
                                                    std::vector<Transfer> receives, DType dtype) = 0;

  /// While no operation waits for its start.
  virtual bool register_memory(const memory::Storage& storage) {
    static_cast<void>(storage);
    return false;
  }

  /// Whether operations of a Group start in one launch.
  virtual bool aggregates() const { return false; }
  /// One operation that starts `parts` together, which end together; for those that aggregate.
  virtual std::unique_ptr<Collective> make_group(std::vector<std::unique_ptr<Collective>> parts);

  // For back ends whose operations go on in the order of a stream after they are complete for hosts.
  /// Whether some do.
  virtual bool is_busy() const { return false; }
  /// Throws when one has failed.
  virtual void watch() {}
  /// Ends them after a failure.
  virtual void abort() noexcept {}

  /// Called when an operation fails, not when a wait times out, which happens to all ranks by itself.
  virtual void tell_peers(const std::string& cause) noexcept { static_cast<void>(cause); }

private:
  friend class Group;

  void check_pieces(const char* operation, const layout::Segments& pieces) const;
  std::pair<std::int64_t, std::int64_t> check_transfers(const std::vector<Transfer>& transfers) const;
  template <class Make>
  void enqueue(runtime::Stream& stream, Description description, Make&& make);
  void start_later(runtime::Stream& stream, std::shared_ptr<Collective> task, Description description);
  void advance();
  void trace(const Collective& operation);
  void give_up(std::exception_ptr error) noexcept;

  std::string name_;
  int rank_;
  int size_;
  std::int64_t sequence_ = 0;
  std::deque<std::shared_ptr<Collective>, Recycling<std::shared_ptr<Collective>>> fifo_;
  runtime::trace::Clock::time_point traced_until_;
  Description queued_;     ///< what a device was asked for last
  std::string failure_;    ///< the first cause, once failed
  Group* group_ = nullptr; ///< that collects operations
};

/// Collects the operations that a communicator is asked for while it lives, all on one stream, and hands them over
/// together: with NCCL they are one launch, which costs the latency of one; other back ends start them as ever. None of
/// them reads what another one writes. Collective as the operations are.
class OSTRAKA_API Group {
public:
  Group(Communicator& communicator, runtime::Stream& stream);
  /// Hands over what submit() has not.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Hands them over; no operation is collected afterwards. Throws as the operations do.
  void submit();

private:
  friend class Communicator;

  Communicator* communicator_; ///< null when submitted
  runtime::Stream& stream_;
  Description description_; ///< of all together
  std::vector<std::unique_ptr<Collective>> parts_;
};

} // namespace ostraka::comm
