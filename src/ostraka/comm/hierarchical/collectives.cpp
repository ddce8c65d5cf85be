// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/hierarchical/impl/reduction.hpp>
#include <ostraka/comm/impl/reduce.hpp>

namespace ostraka::comm::impl {

namespace {

class ReduceScatter final : public HierarchicalCollective {
public:
  ReduceScatter(LinePtr line, Operand in, Operand out, const layout::Segments& pieces, DType dtype, layout::ReduceOp op)
      : HierarchicalCollective(line), in_(std::move(in)), out_(std::move(out)), bytes_(pieces.size() * size_of(dtype)),
        reduction_(std::move(line), description, pieces, dtype, op) {}

private:
  void prepare() override { notice_.data = show(in_.data(), bytes_); }

  bool work() override {
    if (!is_reducing_) {
      is_reducing_ = true;
      reduction_.start(inputs(in_.data()), {out_.data()});
    }
    return reduction_.test();
  }

  bool will_send_again() const override { return !is_reducing_ || reduction_.will_send_again(); }

  Operand in_;
  Operand out_;
  std::int64_t bytes_;
  Reduction reduction_;
  bool is_reducing_ = false;
};

/// What operations share whose results all ranks get: every rank sends its piece to the other nodes and receives its
/// share for its own, from where all copy it.
class Gather : public HierarchicalCollective {
protected:
  Gather(LinePtr line, Operand out, const layout::Segments& pieces, DType dtype)
      : HierarchicalCollective(std::move(line)), out_(std::move(out)), pieces_(pieces), width_(size_of(dtype)),
        messages_(line_->all, description, dtype, Tag::share) {}

  layout::Range piece_of(int local) const { return pieces_.range(line_->peers()[static_cast<std::size_t>(local)]); }

  void start_gather(const std::byte* piece) {
    is_gathering_ = true;
    for_share(rank(), [&](const Transfer& part, std::byte* place) { messages_.receive(part.peer, place, part.count); });
    const std::int64_t begin = piece_of(rank()).begin;
    for (const Transfer& part : shares_.carriers(line_->rank()))
      messages_.send(part.peer, piece + (part.offset - begin) * width_, part.count);
  }

  /// True when the shares of all peers are in `out`.
  bool test_gather() {
    if (!has_landed_ && messages_.are_complete()) {
      land();
      has_landed_ = true;
    }
    if (!has_landed_ || !all_landed())
      return false;
    if (is_written_once())
      return true;
    for (int step = 0; step < size(); ++step) { // each rank begins at another peer
      const int local = (rank() + step) % size();
      if (local != rank() || lands_elsewhere())
        for_share(local, [&](const Transfer& part, const std::byte* place) {
          copy_bytes(place, out_.data() + part.offset * width_, part.count * width_);
        });
    }
    return true;
  }

  /// Elements that stand before the share where it is packed.
  virtual std::int64_t packed_before(int local) const = 0;

  void prepare_landing() {
    choose_landing(out_.data(), (packed_before(rank()) + shares_.share_size(line_->rank())) * width_);
  }

  Operand out_;
  layout::Segments pieces_;
  std::int64_t width_;
  bool is_gathering_ = false;

private:
  /// body(part, its landing place) for the share of rank `local` of the node.
  template <class Body>
  void for_share(int local, Body&& body) const {
    std::int64_t position = packed_before(local);
    for (const Transfer& part : shares_.share(line_->peers()[static_cast<std::size_t>(local)])) {
      body(part, landing(local, part.offset * width_, position * width_));
      position += part.count;
    }
  }

  Shares shares_{line_->map, pieces_};
  Messages messages_;
  bool has_landed_ = false;
};

class AllGather final : public Gather {
public:
  AllGather(LinePtr line, Operand in, Operand out, const layout::Segments& pieces, DType dtype)
      : Gather(std::move(line), std::move(out), pieces, dtype), in_(std::move(in)) {}

private:
  void prepare() override {
    write_to(out_.data());
    if (!is_written_once())
      notice_.data = show(in_.data(), piece_of(rank()).size() * width_);
    prepare_landing();
  }

  bool work() override {
    if (!is_gathering_) {
      start_gather(in_.data());
      copy_pieces();
    }
    return test_gather();
  }

  // Those of the node; meanwhile the others travel.
  void copy_pieces() {
    for (int step = 0; step < size(); ++step) {
      const int local = (rank() + step) % size();
      const layout::Range piece = piece_of(local);
      if (piece.size() == 0 || (is_written_once() && local != rank()))
        continue;
      const std::byte* from = local == rank() ? in_.data() : data_of(local);
      std::byte* to = out_.data() + piece.begin * width_;
      if (from != to)
        copy_bytes(from, to, piece.size() * width_);
    }
  }

  bool will_send_again() const override { return !is_gathering_; }
  std::int64_t packed_before(int) const override { return 0; }

  Operand in_;
};

/// A reduce-scatter of even pieces, then a gather of the results.
class AllReduce final : public Gather {
public:
  AllReduce(LinePtr line, Operand in, Operand out, std::int64_t count, DType dtype, layout::ReduceOp op)
      : Gather(line, std::move(out), layout::Segments::even(line->map.ranks(), count), dtype), in_(std::move(in)),
        reduction_(std::move(line), description, pieces_, dtype, op) {}

private:
  void prepare() override {
    notice_.data = show(in_.data(), pieces_.size() * width_);
    prepare_landing();
  }

  bool work() override {
    if (!is_reducing_) {
      is_reducing_ = true;
      reduction_.start(inputs(in_.data()), {result(rank())});
    }
    if (!is_gathering_) {
      if (!reduction_.test())
        return false;
      start_gather(result(rank()));
    }
    if (!test_gather())
      return false;
    for (int local = 0; local < size(); ++local)
      if (local != rank() || lands_elsewhere())
        copy_bytes(result(local), out_.data() + piece_of(local).begin * width_, piece_of(local).size() * width_);
    return true;
  }

  // Where the piece of a rank of the node stands when it is reduced.
  std::byte* result(int local) const { return landing(local, piece_of(local).begin * width_, 0); }

  bool will_send_again() const override { return !is_gathering_; }
  std::int64_t packed_before(int local) const override { return piece_of(local).size(); }

  Operand in_;
  Reduction reduction_;
  bool is_reducing_ = false;
};

} // namespace

std::unique_ptr<Collective> make_hierarchical_allgather(LinePtr line, Operand in, Operand out,
                                                        const layout::Segments& pieces, DType dtype) {
  return std::make_unique<AllGather>(std::move(line), std::move(in), std::move(out), pieces, dtype);
}

std::unique_ptr<Collective> make_hierarchical_reduce_scatter(LinePtr line, Operand in, Operand out,
                                                             const layout::Segments& pieces, DType dtype,
                                                             layout::ReduceOp op) {
  return std::make_unique<ReduceScatter>(std::move(line), std::move(in), std::move(out), pieces, dtype, op);
}

std::unique_ptr<Collective> make_hierarchical_allreduce(LinePtr line, Operand in, Operand out, std::int64_t count,
                                                        DType dtype, layout::ReduceOp op) {
  return std::make_unique<AllReduce>(std::move(line), std::move(in), std::move(out), count, dtype, op);
}

} // namespace ostraka::comm::impl
