// SPDX-License-Identifier: Apache-2.0
// A broadcast over several nodes. The bytes are cut evenly over as many ranks of each node as the smallest one has;
// those of one number pass their part along a tree between the nodes, and the ranks of a node copy it from there.
#include <ostraka/comm/hierarchical/impl/hierarchical_collective.hpp>
#include <ostraka/comm/impl/reduce.hpp>

namespace ostraka::comm::impl {

namespace {

class Broadcast final : public HierarchicalCollective {
public:
  Broadcast(LinePtr line, Operand data, std::int64_t bytes, int root)
      : HierarchicalCollective(std::move(line)), data_(std::move(data)), bytes_(bytes), root_(root),
        starts_here_(line_->map.node(root) == line_->own_node()), rail_(rail_of(rank())),
        tree_(tree(line_->map.nodes(), line_->map.node(root), line_->own_node())),
        messages_(line_->all, description, DType::u8, Tag::broadcast) {}

private:
  void prepare() override {
    if (line_->rank() == root_)
      notice_.data = show(data_.data(), bytes_);
    else if (!starts_here_)
      choose_landing(data_.data(), rail_.size());
  }

  bool work() override {
    if (!is_receiving_) {
      is_receiving_ = true;
      if (!starts_here_)
        messages_.receive(on_rail(tree_.parent), landing(rank(), rail_.begin, 0), rail_.size());
    }
    if (!is_forwarded_) {
      if (!messages_.are_complete())
        return false;
      for (const int child : tree_.children)
        messages_.send(on_rail(child), source(), rail_.size());
      is_forwarded_ = true;
      land();
    }
    if (!is_copied_) {
      if (!starts_here_ && !all_landed())
        return false;
      copy();
      is_copied_ = true;
    }
    return messages_.are_complete();
  }

  void copy() {
    if (starts_here_) {
      if (line_->rank() != root_)
        copy_bytes(data_of(line_->map.local(root_)), data_.data(), bytes_);
      return;
    }
    for (int step = 0; step < size(); ++step) {
      const int local = (rank() + step) % size();
      const layout::Range part = rail_of(local);
      if (part.size() > 0 && (local != rank() || lands_elsewhere()))
        copy_bytes(landing(local, part.begin, 0), data_.data() + part.begin, part.size());
    }
  }

  // What this rank passes on.
  const std::byte* source() const {
    if (!starts_here_)
      return landing(rank(), rail_.begin, 0);
    return (line_->rank() == root_ ? data_.data() : data_of(line_->map.local(root_))) + rail_.begin;
  }

  layout::Range rail_of(int local) const { return rail(line_->map, bytes_, local); }
  // The rank of a node that has this one's number there; this one's part is empty where there is none.
  int on_rail(int node) const {
    const std::span<const int> ranks = line_->map.ranks_of(node);
    return rail_.size() > 0 ? ranks[static_cast<std::size_t>(rank())] : ranks[0];
  }

  bool will_send_again() const override { return !is_forwarded_; }

  Operand data_;
  std::int64_t bytes_;
  int root_;
  bool starts_here_; ///< the root stands on this node
  layout::Range rail_;
  Tree tree_;
  Messages messages_;
  bool is_receiving_ = false;
  bool is_forwarded_ = false;
  bool is_copied_ = false;
};

} // namespace

std::unique_ptr<Collective> make_hierarchical_broadcast(LinePtr line, Operand data, std::int64_t bytes, int root) {
  return std::make_unique<Broadcast>(std::move(line), std::move(data), bytes, root);
}

} // namespace ostraka::comm::impl
