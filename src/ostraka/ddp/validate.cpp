// SPDX-License-Identifier: Apache-2.0
// Checks of buffers that somebody else laid out.
#include <ostraka/base/checked.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/ddp/impl/arrange.hpp>

#include <algorithm>
#include <string>

namespace ostraka::ddp {
namespace {

constexpr const char* operation = "validate";

std::string to_string(const layout::Range& range) {
  return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
}

// One buffer beside what plan_buffers groups into it.
class BufferCheck {
public:
  BufferCheck(const BufferLayout& buffer, const BufferLayout& expected, std::span<const ParameterSpec> specs)
      : buffer_(buffer), expected_(expected), specs_(specs),
        what_(std::string(operation) + ": buffer of " + ddp::to_string(expected.key)) {}

  void run(int shards) const {
    check_parameters();
    const std::vector<impl::Item> items = impl::items_of(operation, buffer_, specs_);
    check_shapes(items);
    expect(buffer_.shards == shards, Status::INVALID_ARGUMENT, what_, ": expected ", shards, " shards, found ",
           buffer_.shards);
    std::int64_t end = 0;
    int position = 0;
    for (std::size_t i = 0; i < buffer_.buckets.size(); ++i) {
      check_bucket(i, end, position);
      end = buffer_.buckets[i].range.end;
      position += static_cast<int>(buffer_.buckets[i].parameters.size());
    }
    if (position < std::ssize(buffer_.parameters))
      fail(Status::INVALID_ARGUMENT, what_, ": parameter '", name_of(position), "' is in no bucket");
  }

private:
  const std::string& name_of(int position) const {
    const int parameter = expected_.parameters[static_cast<std::size_t>(position)];
    return specs_[static_cast<std::size_t>(parameter)].name;
  }

  void check_parameters() const {
    const std::vector<int>& expected = expected_.parameters;
    const std::vector<int>& found = buffer_.parameters;
    expect(found.size() == expected.size(), Status::INVALID_ARGUMENT, what_, ": expected ", expected.size(),
           " parameters, found ", found.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (found[i] != expected[i])
        fail(Status::INVALID_ARGUMENT, what_, ": expected parameter '", name_of(static_cast<int>(i)), "' (",
             expected[i], ") at position ", i, ", the reverse order of registration, found ", found[i]);
  }

  void check_shapes(const std::vector<impl::Item>& items) const {
    expect(buffer_.ranges.size() == items.size(), Status::INVALID_ARGUMENT, what_, ": expected ", items.size(),
           " ranges, one per parameter, found ", buffer_.ranges.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      const layout::Range& range = buffer_.ranges[i];
      // A begin < 0 would let the size wrap.
      if (range.begin < 0 || range.end < range.begin || range.size() != items[i].numel)
        fail(Status::INVALID_ARGUMENT, items[i].what, ": expected a range of ", items[i].numel, " elements, found ",
             to_string(range));
    }
  }

  void check_bucket(std::size_t index, std::int64_t begin, int position) const {
    const BucketLayout& bucket = buffer_.buckets[index];
    const std::string what = what_ + ", bucket " + std::to_string(index);
    expect(bucket.range.begin == begin && bucket.range.end >= begin, Status::INVALID_ARGUMENT, what,
           ": expected one that begins at ", begin, ", where the one before it ends, found ", to_string(bucket.range));
    expect(bucket.range.size() % buffer_.shards == 0, Status::INVALID_ARGUMENT, what, ": expected a multiple of the ",
           buffer_.shards, " shards, found ", bucket.range.size(), " elements");
    expect(!bucket.parameters.empty(), Status::INVALID_ARGUMENT, what, ": expected at least one parameter");
    check_positions(bucket, what, position);
    check_tensors(bucket, what);
  }

  void check_positions(const BucketLayout& bucket, const std::string& what, int position) const {
    for (const int found : bucket.parameters) {
      if (position == std::ssize(buffer_.parameters))
        fail(Status::INVALID_ARGUMENT, what, ": expected no parameter behind the last one, found position ", found);
      if (found != position)
        fail(Status::INVALID_ARGUMENT, what, ": expected parameter '", name_of(position), "' (position ", position,
             "), for buckets hold parameters in their order, found position ", found);
      ++position;
    }
  }

  void check_tensors(const BucketLayout& bucket, const std::string& what) const {
    std::vector<int> order;
    std::int64_t payload = 0;
    for (const int position : bucket.parameters) {
      const layout::Range& range = buffer_.ranges[static_cast<std::size_t>(position)];
      if (!bucket.range.contains(range))
        fail(Status::INVALID_ARGUMENT, what, ": expected parameter '", name_of(position), "' inside ",
             to_string(bucket.range), ", found ", to_string(range));
      payload = add(payload, range.size(), what);
      if (range.size() > 0) // empty ones overlap nothing, wherever they stand
        order.push_back(position);
    }
    check_disjoint(std::move(order), what);
    expect(payload <= bucket.numel_unpadded && bucket.numel_unpadded <= bucket.range.size(), Status::INVALID_ARGUMENT,
           what, ": expected numel_unpadded from ", payload, " to ", bucket.range.size(), ", found ",
           bucket.numel_unpadded);
  }

  void check_disjoint(std::vector<int> order, const std::string& what) const {
    const auto range = [&](int position) { return buffer_.ranges[static_cast<std::size_t>(position)]; };
    std::sort(order.begin(), order.end(), [&](int a, int b) { return range(a).begin < range(b).begin; });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (range(order[i]).begin < range(order[i - 1]).end)
        fail(Status::INVALID_ARGUMENT, what, ": parameters '", name_of(order[i - 1]), "' at ",
             to_string(range(order[i - 1])), " and '", name_of(order[i]), "' at ", to_string(range(order[i])),
             " overlap");
  }

  const BufferLayout& buffer_;
  const BufferLayout& expected_;
  std::span<const ParameterSpec> specs_;
  std::string what_;
};

std::string keys_of(std::span<const BufferLayout> buffers) {
  std::string text;
  for (const BufferLayout& buffer : buffers)
    text += (text.empty() ? "" : "; ") + to_string(buffer.key);
  return text.empty() ? "none" : text;
}

} // namespace

void validate(std::span<const BufferLayout> buffers, std::span<const ParameterSpec> specs,
              std::span<const DType> gradient_dtypes, const GroupSizes& dense, const GroupSizes& expert) {
  impl::check_groups(operation, specs, gradient_dtypes, dense, expert);
  const std::vector<BufferLayout> expected = impl::group(operation, specs, gradient_dtypes);
  const bool are_equal = std::equal(buffers.begin(), buffers.end(), expected.begin(), expected.end(),
                                    [](const BufferLayout& a, const BufferLayout& b) { return a.key == b.key; });
  if (!are_equal)
    fail(Status::INVALID_ARGUMENT, operation, ": expected buffers of ", keys_of(expected), ", found ",
         keys_of(buffers));
  for (std::size_t i = 0; i < expected.size(); ++i)
    BufferCheck(buffers[i], expected[i], specs).run((expected[i].key.expert ? expert : dense).shards);
}

} // namespace ostraka::ddp
