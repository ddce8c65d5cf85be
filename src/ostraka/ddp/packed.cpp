// SPDX-License-Identifier: Apache-2.0
// Parameters one behind the other, cut into buckets as they come.
#include <ostraka/base/checked.hpp>
#include <ostraka/ddp/impl/arrange.hpp>

#include <utility>

namespace ostraka::ddp::impl {
namespace {

class Packer {
public:
  Packer(BufferLayout& buffer, const Rules& rules) : buffer_(buffer), rules_(rules) {}

  void place(int position, const Item& item) {
    const bool is_alone = rules_.sharded && item.shared_embedding;
    cursor_ = round_up(cursor_, rules_.start_multiple, item.what);
    if (is_alone)
      close(item); // what was padded for this parameter's start counts as unpadded: spec 5.1
    const std::int64_t begin = cursor_;
    cursor_ = add(begin, item.numel, item.what);
    buffer_.ranges.push_back({begin, cursor_});
    open_.push_back(position);
    if (is_alone || cursor_ - bucket_begin_ >= rules_.bucket_size)
      close(item);
  }

  /// Nothing happens where no parameter waits. `item` is named when sizes leave 64 bits.
  void close(const Item& item) {
    if (open_.empty())
      return;
    const std::int64_t end = round_up(cursor_, rules_.end_multiple, item.what);
    buffer_.buckets.push_back({{bucket_begin_, end}, cursor_ - bucket_begin_, std::exchange(open_, {})});
    bucket_begin_ = cursor_ = end;
  }

private:
  BufferLayout& buffer_;
  const Rules& rules_;
  std::vector<int> open_; ///< positions in the bucket that is being filled
  std::int64_t bucket_begin_ = 0;
  std::int64_t cursor_ = 0;
};

} // namespace

void arrange_packed(BufferLayout& buffer, const std::vector<Item>& items, const Rules& rules) {
  Packer packer(buffer, rules);
  for (std::size_t i = 0; i < items.size(); ++i)
    packer.place(static_cast<int>(i), items[i]);
  packer.close(items.back());
}

} // namespace ostraka::ddp::impl
