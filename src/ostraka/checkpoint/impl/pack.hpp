// SPDX-License-Identifier: Apache-2.0
// Texts and numbers as a list of numbers, which rank 0 sends to all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace ostraka::checkpoint::impl {

class Packer {
public:
  void add(std::int64_t number) { numbers_.push_back(number); }
  void add(const void* data, std::size_t bytes) {
    add(static_cast<std::int64_t>(bytes));
    const std::size_t at = numbers_.size();
    numbers_.resize(at + (bytes + 7) / 8);
    if (bytes > 0)
      std::memcpy(numbers_.data() + at, data, bytes);
  }
  void add(const std::string& text) { add(text.data(), text.size()); }
  std::vector<std::int64_t> take() { return std::move(numbers_); }

private:
  std::vector<std::int64_t> numbers_;
};

class Unpacker {
public:
  explicit Unpacker(std::vector<std::int64_t> numbers) : numbers_(std::move(numbers)) {}

  std::int64_t number() { return numbers_.at(at_++); }
  template <class Bytes>
  Bytes bytes() {
    const auto count = static_cast<std::size_t>(number());
    Bytes result(count, {});
    if (count > 0)
      std::memcpy(result.data(), &numbers_.at(at_), count);
    at_ += (count + 7) / 8;
    return result;
  }
  std::string text() { return bytes<std::string>(); }

private:
  std::vector<std::int64_t> numbers_;
  std::size_t at_ = 0;
};

} // namespace ostraka::checkpoint::impl
