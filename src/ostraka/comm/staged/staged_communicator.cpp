// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/staged/staged_communicator.hpp>
#include <ostraka/memory/pinned_pool.hpp>
#include <ostraka/runtime/device.hpp>

#include <algorithm>
#include <functional>
#include <utility>

namespace ostraka::comm {

namespace {

using memory::Storage;

struct Line {
  std::shared_ptr<Communicator> host;
  std::shared_ptr<runtime::Stream> queue;
  memory::PinnedPool pool;
};
using LinePtr = std::shared_ptr<Line>;

/// Bytes of an operand.
struct Part {
  Operand operand;
  std::int64_t bytes = 0;
};

/// What the host's communicator is asked for, with the operands in host memory.
using Call = std::function<void(Communicator& host, runtime::Stream& queue, const Description& description,
                                const Operand& in, const Operand& out)>;

// In three steps: the input comes to the host, the host's communicator has it, the result goes to the device. The
// host's communicator keeps the order of operations.
class Staged final : public Collective {
public:
  /// `comes` and `goes` are what of the operands is read and written. Memory of the result that is not written by the
  /// operation itself keeps what it holds: with `keeps` it comes to the host, too.
  Staged(LinePtr line, Part comes, Part goes, bool keeps, Call call)
      : line_(std::move(line)), comes_(std::move(comes)), goes_(std::move(goes)), keeps_(keeps),
        call_(std::move(call)) {
    in_ = {line_->pool.take(comes_.bytes), 0};
    out_ = {line_->pool.take(goes_.bytes), 0};
  }

  // The device stream hands over at once; the copy to the host is queued behind what it has.
  bool is_stream_ordered() const override { return true; }

  void start() override {
    runtime::copy(execution(), data_of(comes_), in_.data(), comes_.bytes);
    if (keeps_)
      runtime::copy(execution(), data_of(goes_), out_.data(), goes_.bytes);
    line_->queue->wait(runtime::record(execution()));
    call_(*line_->host, *line_->queue, description, in_, out_);
    over_ = line_->queue->record();
  }

  bool test() override {
    if (!over_.is_done())
      return false;
    if (over_.error())
      std::rethrow_exception(over_.error());
    runtime::copy(execution(), out_.data(), data_of(goes_), goes_.bytes);
    return true;
  }

private:
  static std::byte* data_of(const Part& part) { return part.bytes > 0 ? part.operand.data() : nullptr; }

  LinePtr line_;
  Part comes_, goes_;
  bool keeps_;
  Call call_;
  Operand in_, out_;
  runtime::Event over_;
};

std::int64_t end_of(const std::vector<Transfer>& transfers) {
  std::int64_t end = 0;
  for (const Transfer& transfer : transfers)
    end = std::max(end, transfer.offset + transfer.count);
  return end;
}

class StagedCommunicator final : public Communicator {
public:
  StagedCommunicator(LinePtr line, std::string name)
      : Communicator(std::move(name), line->host->rank(), line->host->size()), line_(std::move(line)) {}

  ~StagedCommunicator() override { abandon(name() + ": destroyed with operations in flight"); }

protected:
  std::unique_ptr<Collective> make_allgather(Operand in, Operand out, const layout::Segments& pieces,
                                             DType dtype) override {
    const std::int64_t width = size_of(dtype);
    return stage(
        {std::move(in), pieces.range(rank()).size() * width}, {std::move(out), pieces.size() * width}, false,
        [pieces, dtype](Communicator& host, runtime::Stream& queue, const Description& what, const Operand& from,
                        const Operand& to) { host.allgather(queue, from, to, pieces, dtype, what.name, what.detail); });
  }

  std::unique_ptr<Collective> make_reduce_scatter(Operand in, Operand out, const layout::Segments& pieces, DType dtype,
                                                  layout::ReduceOp op) override {
    const std::int64_t width = size_of(dtype);
    return stage({std::move(in), pieces.size() * width}, {std::move(out), pieces.range(rank()).size() * width}, false,
                 [pieces, dtype, op](Communicator& host, runtime::Stream& queue, const Description& what,
                                     const Operand& from, const Operand& to) {
                   host.reduce_scatter(queue, from, to, pieces, dtype, op, what.name, what.detail);
                 });
  }

  std::unique_ptr<Collective> make_allreduce(Operand in, Operand out, std::int64_t count, DType dtype,
                                             layout::ReduceOp op) override {
    const std::int64_t bytes = count * size_of(dtype);
    return stage({std::move(in), bytes}, {std::move(out), bytes}, false,
                 [count, dtype, op](Communicator& host, runtime::Stream& queue, const Description& what,
                                    const Operand& from, const Operand& to) {
                   host.allreduce(queue, from, to, count, dtype, op, what.name, what.detail);
                 });
  }

  std::unique_ptr<Collective> make_broadcast(Operand data, std::int64_t bytes, int root) override {
    return stage({}, {std::move(data), bytes}, root == rank(),
                 [bytes, root](Communicator& host, runtime::Stream& queue, const Description& what, const Operand&,
                               const Operand& to) { host.broadcast(queue, to, bytes, root, what.name); });
  }

  std::unique_ptr<Collective> make_exchange(Operand in, std::vector<Transfer> sends, Operand out,
                                            std::vector<Transfer> receives, DType dtype) override {
    const std::int64_t width = size_of(dtype), sent = end_of(sends) * width, received = end_of(receives) * width;
    return stage(
        {std::move(in), sent}, {std::move(out), received}, true,
        [sends = std::move(sends), receives = std::move(receives),
         dtype](Communicator& host, runtime::Stream& queue, const Description& what, const Operand& from,
                const Operand& to) { host.exchange(queue, from, sends, to, receives, dtype, what.detail, what.name); });
  }

private:
  std::unique_ptr<Collective> stage(Part comes, Part goes, bool keeps, Call call) const {
    return std::make_unique<Staged>(line_, std::move(comes), std::move(goes), keeps, std::move(call));
  }

  LinePtr line_;
};

} // namespace

std::shared_ptr<Communicator> make_staged_communicator(std::shared_ptr<Communicator> host, std::string name) {
  auto line = std::make_shared<Line>();
  line->host = std::move(host);
  line->queue = runtime::make_host_queue(name + " staging");
  return std::make_shared<StagedCommunicator>(std::move(line), std::move(name));
}

} // namespace ostraka::comm
