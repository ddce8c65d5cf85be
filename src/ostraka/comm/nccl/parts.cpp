// SPDX-License-Identifier: Apache-2.0
// The operations. NCCL has no unequal pieces: those are one operation for each piece, in one launch.
#include <ostraka/base/error.hpp>
#include <ostraka/comm/impl/copy_transfers.hpp>
#include <ostraka/comm/nccl/impl/launch.hpp>
#include <ostraka/runtime/device.hpp>

#include <algorithm>
#include <span>

namespace ostraka::comm::nccl {

namespace {

using layout::ReduceOp;

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
  case DType::f64:
    return ncclFloat64;
  case DType::f32:
    return ncclFloat32;
  case DType::bf16:
    return ncclBfloat16;
  case DType::f16:
    return ncclFloat16;
  case DType::i64:
    return ncclInt64;
  case DType::i32:
    return ncclInt32;
  case DType::u8:
    return ncclUint8;
  }
  fail(Status::INTERNAL, "nccl: unknown data type");
}

ncclRedOp_t op_of(ReduceOp op) {
  switch (op) {
  case ReduceOp::sum:
  case ReduceOp::mean: // a sum that is divided afterwards, in full precision
    return ncclSum;
  case ReduceOp::max:
    return ncclMax;
  case ReduceOp::min:
    return ncclMin;
  case ReduceOp::prod:
    return ncclProd;
  }
  fail(Status::INTERNAL, "nccl: unknown reduction");
}

std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

class AllGather final : public Part {
public:
  AllGather(LinePtr line, Operand in, Operand out, const layout::Segments& pieces, DType dtype)
      : Part(std::move(line)), in_(std::move(in)), out_(std::move(out)), pieces_(pieces), dtype_(dtype) {}

  void issue(cudaStream_t stream, std::byte*) override {
    if (pieces_.size() == 0)
      return;
    if (pieces_.are_equal())
      return check(ncclAllGather(in_.data(), out_.data(), to_size(pieces_.largest()), type_of(dtype_), comm(), stream),
                   "ncclAllGather");
    for (int k = 0; k < size(); ++k) {
      const layout::Range piece = pieces_.range(k);
      std::byte* const place = out_.data() + piece.begin * size_of(dtype_);
      if (piece.size() > 0)
        check(ncclBroadcast(k == rank() ? in_.data() : place, place, to_size(piece.size()), type_of(dtype_), k, comm(),
                            stream),
              "ncclBroadcast");
    }
  }

private:
  Operand in_;
  Operand out_;
  layout::Segments pieces_;
  DType dtype_;
};

// A reduction of `count` elements, of which this rank gets `own`, by way of scratch where values travel as others.
class Reduction : public Part {
public:
  Reduction(LinePtr line, Operand in, Operand out, std::int64_t count, layout::Range own, DType dtype, ReduceOp op)
      : Part(std::move(line)), in_(std::move(in)), out_(std::move(out)), count_(count), own_(own), dtype_(dtype),
        op_(op), wire_(wire_of(dtype, op)) {}

  std::int64_t scratch_bytes() const final { return is_direct() ? 0 : count_ * width(); }

  void before(const runtime::Execution& execution, std::byte* scratch) final {
    if (!is_direct())
      to_wire(execution, wire_, op_, in_.data(), dtype_, scratch, count_);
  }
  void issue(cudaStream_t stream, std::byte* scratch) final {
    if (count_ > 0)
      reduce(is_direct() ? in_.data() : scratch, is_direct() ? out_.data() : own_in(scratch), stream);
  }
  void after(const runtime::Execution& execution, std::byte* scratch) final {
    from_wire(execution, wire_, op_, size(), is_direct() ? out_.data() : own_in(scratch), out_.data(), dtype_,
              own_.size());
  }

protected:
  virtual void reduce(const std::byte* from, std::byte* to, cudaStream_t stream) = 0;

  std::int64_t width() const { return size_of(wire_.dtype); }
  ncclDataType_t type() const { return type_of(wire_.dtype); }
  ncclRedOp_t op() const { return op_of(op_); }

private:
  bool is_direct() const { return wire_.form == Form::direct; }
  std::byte* own_in(std::byte* scratch) const { return scratch + own_.begin * width(); }

  Operand in_;
  Operand out_;
  std::int64_t count_;
  layout::Range own_;
  DType dtype_;
  ReduceOp op_;
  Wire wire_;
};

class ReduceScatter final : public Reduction {
public:
  ReduceScatter(LinePtr line, Operand in, Operand out, const layout::Segments& pieces, DType dtype, ReduceOp op)
      : Reduction(line, std::move(in), std::move(out), pieces.size(), pieces.range(line->rank), dtype, op),
        pieces_(pieces) {}

private:
  void reduce(const std::byte* from, std::byte* to, cudaStream_t stream) override {
    if (pieces_.are_equal())
      return check(ncclReduceScatter(from, to, to_size(pieces_.largest()), type(), op(), comm(), stream),
                   "ncclReduceScatter");
    for (int k = 0; k < size(); ++k) {
      const layout::Range piece = pieces_.range(k);
      if (piece.size() > 0)
        check(ncclReduce(from + piece.begin * width(), k == rank() ? to : nullptr, to_size(piece.size()), type(), op(),
                         k, comm(), stream),
              "ncclReduce");
    }
  }

  layout::Segments pieces_;
};

class AllReduce final : public Reduction {
public:
  AllReduce(LinePtr line, Operand in, Operand out, std::int64_t count, DType dtype, ReduceOp op)
      : Reduction(std::move(line), std::move(in), std::move(out), count, {0, count}, dtype, op), count_(count) {}

private:
  void reduce(const std::byte* from, std::byte* to, cudaStream_t stream) override {
    check(ncclAllReduce(from, to, to_size(count_), type(), op(), comm(), stream), "ncclAllReduce");
  }

  std::int64_t count_;
};

class Broadcast final : public Part {
public:
  Broadcast(LinePtr line, Operand data, std::int64_t bytes, int root)
      : Part(std::move(line)), data_(std::move(data)), bytes_(bytes), root_(root) {}

  void issue(cudaStream_t stream, std::byte*) override {
    if (bytes_ > 0)
      check(ncclBroadcast(data_.data(), data_.data(), to_size(bytes_), ncclUint8, root_, comm(), stream),
            "ncclBroadcast");
  }

private:
  Operand data_;
  std::int64_t bytes_;
  int root_;
};

// What goes to or comes from a peer: where it is, or packed in scratch where it has several parts, which the peer may
// have cut differently.
struct Message {
  int peer;
  std::int64_t count = 0;
  std::vector<Transfer> runs;
  std::int64_t offset = 0; ///< in scratch, in elements
};

std::vector<Message> messages_of(const std::vector<Transfer>& transfers, int rank) {
  std::vector<Message> messages;
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == rank || transfer.count == 0)
      continue;
    if (messages.empty() || messages.back().peer != transfer.peer)
      messages.push_back({transfer.peer, 0, {}, 0});
    messages.back().count += transfer.count;
    messages.back().runs.push_back(transfer);
  }
  return messages;
}

class Exchange final : public Part {
public:
  Exchange(LinePtr line, Operand in, std::vector<Transfer> sends, Operand out, std::vector<Transfer> receives,
           DType dtype)
      : Part(line), in_(std::move(in)), out_(std::move(out)), all_sends_(std::move(sends)),
        all_receives_(std::move(receives)), sends_(messages_of(all_sends_, line->rank)),
        receives_(messages_of(all_receives_, line->rank)), dtype_(dtype) {
    for (auto* messages : {&sends_, &receives_})
      for (Message& message : *messages)
        if (message.runs.size() > 1) {
          message.offset = packed_;
          packed_ += message.count;
        }
  }

  std::int64_t scratch_bytes() const override { return packed_ * width(); }

  void before(const runtime::Execution& execution, std::byte* scratch) override {
    comm::impl::copy_transfers(
        in_.data(), all_sends_, rank(), out_.data(), all_receives_, rank(), width(),
        [&](const std::byte* from, std::byte* to, std::int64_t bytes) { runtime::copy(execution, from, to, bytes); });
    for (const Message& message : sends_)
      for_packed(message, scratch, [&](const Transfer& run, std::byte* place) {
        runtime::copy(execution, in_.data() + run.offset * width(), place, run.count * width());
      });
  }

  void issue(cudaStream_t stream, std::byte* scratch) override {
    for (const Message& message : sends_)
      check(ncclSend(place_of(message, in_, scratch), to_size(message.count), type_of(dtype_), message.peer, comm(),
                     stream),
            "ncclSend");
    for (const Message& message : receives_)
      check(ncclRecv(place_of(message, out_, scratch), to_size(message.count), type_of(dtype_), message.peer, comm(),
                     stream),
            "ncclRecv");
  }

  void after(const runtime::Execution& execution, std::byte* scratch) override {
    for (const Message& message : receives_)
      for_packed(message, scratch, [&](const Transfer& run, const std::byte* place) {
        runtime::copy(execution, place, out_.data() + run.offset * width(), run.count * width());
      });
  }

private:
  std::int64_t width() const { return size_of(dtype_); }

  std::byte* place_of(const Message& message, const Operand& operand, std::byte* scratch) const {
    return message.runs.size() > 1 ? scratch + message.offset * width()
                                   : operand.data() + message.runs.front().offset * width();
  }

  template <class Visit>
  void for_packed(const Message& message, std::byte* scratch, Visit&& visit) const {
    if (message.runs.size() < 2)
      return;
    std::byte* place = scratch + message.offset * width();
    for (const Transfer& run : message.runs) {
      visit(run, place);
      place += run.count * width();
    }
  }

  Operand in_;
  Operand out_;
  std::vector<Transfer> all_sends_, all_receives_;
  std::vector<Message> sends_, receives_;
  DType dtype_;
  std::int64_t packed_ = 0; ///< elements
};

} // namespace

std::unique_ptr<Part> make_allgather(LinePtr line, Operand in, Operand out, const layout::Segments& pieces,
                                     DType dtype) {
  return std::make_unique<AllGather>(std::move(line), std::move(in), std::move(out), pieces, dtype);
}

std::unique_ptr<Part> make_reduce_scatter(LinePtr line, Operand in, Operand out, const layout::Segments& pieces,
                                          DType dtype, ReduceOp op) {
  return std::make_unique<ReduceScatter>(std::move(line), std::move(in), std::move(out), pieces, dtype, op);
}

std::unique_ptr<Part> make_allreduce(LinePtr line, Operand in, Operand out, std::int64_t count, DType dtype,
                                     ReduceOp op) {
  return std::make_unique<AllReduce>(std::move(line), std::move(in), std::move(out), count, dtype, op);
}

std::unique_ptr<Part> make_broadcast(LinePtr line, Operand data, std::int64_t bytes, int root) {
  return std::make_unique<Broadcast>(std::move(line), std::move(data), bytes, root);
}

std::unique_ptr<Part> make_exchange(LinePtr line, Operand in, std::vector<Transfer> sends, Operand out,
                                    std::vector<Transfer> receives, DType dtype) {
  return std::make_unique<Exchange>(std::move(line), std::move(in), std::move(sends), std::move(out),
                                    std::move(receives), dtype);
}

} // namespace ostraka::comm::nccl
