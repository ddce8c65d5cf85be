// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/inline_vector.hpp>
#include <ostraka/comm/impl/copy_transfers.hpp>
#include <ostraka/comm/impl/reduce.hpp>
#include <ostraka/comm/node/impl/node_collective.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace ostraka::comm::impl {

void NodeCollective::start() {
  notice_.record = Record(description);
  prepare();
  notice_.fingerprint = notice_.record.fingerprint() + (notice_.is_written_once ? 1 : 0) +
                        static_cast<std::uint64_t>(notice_.shared_offset) * 2;
  publish();
}

void NodeCollective::publish() {
  if (!group_->channel.can_publish(description.sequence))
    return;
  group_->channel.publish(description.sequence, notice_);
  is_published_ = true;
}

// Looks some times, which is quicker than to come back: peers are mostly less than a microsecond away. The longer they
// take, the less often, since they may need this core.
template <class Condition>
bool NodeCollective::holds_soon(Condition&& condition) {
  for (int i = 0; i < looks_; ++i)
    if (condition()) {
      looks_ = most_looks;
      return true;
    }
  looks_ = std::max(looks_ / 2, 1);
  return false;
}

bool NodeCollective::test() {
  const node::Channel& channel = group_->channel;
  const std::int64_t sequence = description.sequence;
  if (!is_published_)
    publish();
  if (is_published_ && !is_compared_ && holds_soon([&] { return channel.all_published(sequence); })) {
    compare();
    is_compared_ = true;
  }
  if (is_compared_ && !is_finished_ && work()) {
    group_->channel.finish(sequence);
    is_finished_ = true;
  }
  if (is_finished_ && holds_soon([&] { return channel.all_finished(sequence); })) {
    conclude();
    rooms_.clear();
    return true;
  }
  channel.expect_alive();
  return false;
}

void NodeCollective::compare() const {
  const auto notice = [&](int k) -> const node::Notice& { return group_->channel.notice(k, description.sequence); };
  bool agree = true;
  for (int k = 0; k < size(); ++k)
    agree = agree && notice(k).fingerprint == notice_.fingerprint;
  if (agree)
    return;
  expect_agreement(
      size(), group_->name, description.sequence, [&](int k) -> const Record& { return notice(k).record; },
      [&](int k) { return group_->numbers[static_cast<std::size_t>(k)]; });
  fail(Status::INTERNAL, description.text(),
       ": the ranks of the node write to different places of the memory that they share");
}

node::Location NodeCollective::show(const std::byte* data, std::int64_t bytes) {
  if (bytes == 0 || size() == 1)
    return {}; // to nobody
  if (const auto found = node::locate(data))
    return *found;
  const node::Location location = room(bytes);
  std::memcpy(shown(location), data, static_cast<std::size_t>(bytes));
  return location;
}

node::Location NodeCollective::room(std::int64_t bytes) {
  if (bytes <= node::Channel::inline_bytes && !has_inline_ &&
      group_->channel.can_publish(description.sequence)) { // before, the room belongs to an earlier operation
    has_inline_ = true;
    return {};
  }
  rooms_.push_back(std::allocate_shared<memory::Storage>(Recycling<memory::Storage>(), group_->arena, bytes,
                                                         memory::Kind::transient));
  return *node::locate(rooms_.back()->data());
}

namespace {

/// Of each rank of a node one.
template <class T>
using Few = InlineVector<T, 16>;

class AllGather final : public NodeCollective {
public:
  AllGather(NodeGroupPtr group, Operand in, Operand out, const layout::Segments& pieces, DType dtype)
      : NodeCollective(std::move(group)), in_(std::move(in)), out_(std::move(out)), pieces_(pieces),
        width_(size_of(dtype)) {}

private:
  void prepare() override {
    write_to(out_.data());
    if (!is_written_once())
      notice_.data = show(in_.data(), pieces_.range(rank()).size() * width_);
  }

  bool work() override {
    for (int step = 0; step < size(); ++step) { // each rank begins at another peer
      const int peer = (rank() + step) % size();
      const layout::Range piece = pieces_.range(peer);
      if (piece.size() == 0 || (is_written_once() && peer != rank()))
        continue;
      const std::byte* from = peer == rank() ? in_.data() : data_of(peer);
      std::byte* to = out_.data() + piece.begin * width_;
      if (from != to)
        copy_bytes(from, to, piece.size() * width_);
    }
    return true;
  }

  Operand in_;
  Operand out_;
  layout::Segments pieces_;
  std::int64_t width_;
};

class ReduceScatter final : public NodeCollective {
public:
  ReduceScatter(NodeGroupPtr group, Operand in, Operand out, const layout::Segments& pieces, DType dtype,
                layout::ReduceOp op, Consumer consumer)
      : NodeCollective(std::move(group)), in_(std::move(in)), out_(std::move(out)), pieces_(pieces), dtype_(dtype),
        op_(op), consumer_(std::move(consumer)) {}

private:
  void prepare() override { notice_.data = show(in_.data(), pieces_.size() * size_of(dtype_)); }

  bool work() override {
    const layout::Range own = pieces_.range(rank());
    if (own.size() == 0)
      return true;
    Few<const std::byte*> sources;
    for (int peer = 0; peer < size(); ++peer)
      sources.push_back((peer == rank() ? in_.data() : data_of(peer)) + own.begin * size_of(dtype_));
    if (consumer_)
      hand_over(std::move(sources), own.size());
    else {
      std::byte* out = out_.data();
      reduce(dtype_, op_, sources, {&out, 1}, own.size());
    }
    return true;
  }

  // In blocks of which a consumer finds the results, and what it does with them, in the cache.
  void hand_over(Few<const std::byte*> sources, std::int64_t count) {
    alignas(64) std::array<std::byte, 16 << 10> values;
    std::byte* out = values.data();
    const std::int64_t width = size_of(dtype_), block = static_cast<std::int64_t>(values.size()) / width;
    for (std::int64_t first = 0; first < count; first += block) {
      const std::int64_t here = std::min(block, count - first);
      reduce(dtype_, op_, sources, {&out, 1}, here);
      consumer_({}, first, here, out);
      for (const std::byte*& source : sources)
        source += here * width;
    }
  }

  Operand in_;
  Operand out_;
  layout::Segments pieces_;
  DType dtype_;
  layout::ReduceOp op_;
  Consumer consumer_; ///< may be none
};

/// Each rank reduces one part and writes the result to all.
class AllReduce final : public NodeCollective {
public:
  AllReduce(NodeGroupPtr group, Operand in, Operand out, std::int64_t count, DType dtype, layout::ReduceOp op)
      : NodeCollective(std::move(group)), in_(std::move(in)), out_(std::move(out)), count_(count), dtype_(dtype),
        op_(op) {}

private:
  void prepare() override {
    const std::int64_t bytes = count_ * size_of(dtype_);
    notice_.data = show(in_.data(), bytes);
    notice_.out = in_.data() == out_.data() ? notice_.data : place(bytes);
  }

  bool work() override {
    const std::int64_t width = size_of(dtype_);
    const std::int64_t line = 64 / width; // parts do not share cache lines
    const std::int64_t part = ((count_ + size() - 1) / size() + line - 1) / line * line;
    const std::int64_t begin = std::min(rank() * part, count_), end = std::min(begin + part, count_);
    if (begin == end)
      return true;
    Few<const std::byte*> sources;
    Few<std::byte*> outs;
    for (int peer = 0; peer < size(); ++peer) {
      sources.push_back(data_of(peer) + begin * width);
      outs.push_back(out_of(peer) + begin * width);
    }
    reduce(dtype_, op_, sources, outs, end - begin);
    return true;
  }

  node::Location place(std::int64_t bytes) {
    if (bytes == 0)
      return {};
    const auto found = node::locate(out_.data());
    return found ? *found : room(bytes);
  }

  void conclude() override {
    const std::byte* result = count_ > 0 ? shown(notice_.out) : nullptr;
    if (count_ > 0 && result != out_.data())
      std::memcpy(out_.data(), result, static_cast<std::size_t>(count_ * size_of(dtype_)));
  }

  Operand in_;
  Operand out_;
  std::int64_t count_;
  DType dtype_;
  layout::ReduceOp op_;
};

class Broadcast final : public NodeCollective {
public:
  Broadcast(NodeGroupPtr group, Operand data, std::int64_t bytes, int root)
      : NodeCollective(std::move(group)), data_(std::move(data)), bytes_(bytes), root_(root) {}

private:
  void prepare() override {
    if (rank() == root_)
      notice_.data = show(data_.data(), bytes_);
  }
  bool work() override {
    if (rank() != root_ && bytes_ > 0)
      copy_bytes(data_of(root_), data_.data(), bytes_);
    return true;
  }

  Operand data_;
  std::int64_t bytes_;
  int root_;
};

class Exchange final : public NodeCollective {
public:
  Exchange(NodeGroupPtr group, Operand in, std::vector<Transfer> sends, Operand out, std::vector<Transfer> receives,
           DType dtype)
      : NodeCollective(std::move(group)), in_(std::move(in)), sends_(std::move(sends)), out_(std::move(out)),
        receives_(std::move(receives)), width_(size_of(dtype)) {}

private:
  void prepare() override {
    std::int64_t end = 0;
    for (const Transfer& send : sends_)
      end = std::max(end, send.offset + send.count);
    notice_.data = show(in_.data(), end * width_);
    notice_.list_size = static_cast<std::int64_t>(sends_.size());
    notice_.list = show(reinterpret_cast<const std::byte*>(sends_.data()),
                        notice_.list_size * static_cast<std::int64_t>(sizeof(Transfer)));
  }

  bool work() override {
    for (auto first = receives_.begin(); first != receives_.end();) {
      const int peer = first->peer;
      const auto last = std::find_if(first, receives_.end(), [&](const Transfer& next) { return next.peer != peer; });
      receive({first, last}, peer);
      first = last;
    }
    return true;
  }

  void receive(std::span<const Transfer> receives, int peer) {
    std::int64_t expected = 0;
    for (const Transfer& receive : receives)
      expected += receive.count;
    if (expected == 0)
      return;
    const node::Notice& notice = group_->channel.notice(peer, description.sequence);
    std::int64_t found = 0;
    if (notice.list_size > 0) {
      const auto* list = reinterpret_cast<const Transfer*>(at(peer, notice.list));
      found = copy_transfers(data_of(peer), {list, static_cast<std::size_t>(notice.list_size)}, rank(), out_.data(),
                             receives, peer, width_);
    }
    if (found != expected)
      fail(Status::RANKS_DISAGREE, description.text(), ": expected ", expected, " elements from rank ", peer,
           ", found ", found);
  }

  Operand in_;
  std::vector<Transfer> sends_;
  Operand out_;
  std::vector<Transfer> receives_;
  std::int64_t width_;
};

} // namespace

std::unique_ptr<Collective> make_node_allgather(NodeGroupPtr group, Operand in, Operand out,
                                                const layout::Segments& pieces, DType dtype) {
  return std::make_unique<AllGather>(std::move(group), std::move(in), std::move(out), pieces, dtype);
}

std::unique_ptr<Collective> make_node_reduce_scatter(NodeGroupPtr group, Operand in, Operand out,
                                                     const layout::Segments& pieces, DType dtype, layout::ReduceOp op,
                                                     Consumer consumer) {
  return std::make_unique<ReduceScatter>(std::move(group), std::move(in), std::move(out), pieces, dtype, op,
                                         std::move(consumer));
}

std::unique_ptr<Collective> make_node_allreduce(NodeGroupPtr group, Operand in, Operand out, std::int64_t count,
                                                DType dtype, layout::ReduceOp op) {
  return std::make_unique<AllReduce>(std::move(group), std::move(in), std::move(out), count, dtype, op);
}

std::unique_ptr<Collective> make_node_broadcast(NodeGroupPtr group, Operand data, std::int64_t bytes, int root) {
  return std::make_unique<Broadcast>(std::move(group), std::move(data), bytes, root);
}

std::unique_ptr<Collective> make_node_exchange(NodeGroupPtr group, Operand in, std::vector<Transfer> sends, Operand out,
                                               std::vector<Transfer> receives, DType dtype) {
  return std::make_unique<Exchange>(std::move(group), std::move(in), std::move(sends), std::move(out),
                                    std::move(receives), dtype);
}

} // namespace ostraka::comm::impl
