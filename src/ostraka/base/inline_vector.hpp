// SPDX-License-Identifier: Apache-2.0
// A vector whose first elements stand in the object itself, so that short lists cost no allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace ostraka {

/// As std::vector, for default-constructible types; more than `room` elements stand on the heap.
template <class T, std::size_t room>
class InlineVector {
public:
  using value_type = T;
  using size_type = std::size_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;

  InlineVector() = default;
  explicit InlineVector(std::size_t count, const T& value = T()) { resize(count, value); }
  InlineVector(std::initializer_list<T> values) : InlineVector(values.begin(), values.end()) {}
  template <std::input_iterator Iterator>
  InlineVector(Iterator first, Iterator last) {
    for (; first != last; ++first)
      push_back(*first);
  }
  ~InlineVector() = default;
  InlineVector(const InlineVector&) = default;
  InlineVector& operator=(const InlineVector&) = default;
  InlineVector(InlineVector&& other) noexcept
      : few_(std::move(other.few_)), many_(std::move(other.many_)), size_(std::exchange(other.size_, 0)) {}
  InlineVector& operator=(InlineVector&& other) noexcept {
    few_ = std::move(other.few_);
    many_ = std::move(other.many_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return size_ <= room ? few_.data() : many_.data(); }
  const T* data() const { return size_ <= room ? few_.data() : many_.data(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t index) { return data()[index]; }
  const T& operator[](std::size_t index) const { return data()[index]; }
  T& front() { return data()[0]; }
  const T& front() const { return data()[0]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void push_back(T value) {
    if (size_ < room) {
      few_[size_++] = std::move(value);
      return;
    }
    if (size_ == room)
      many_.assign(std::make_move_iterator(few_.begin()), std::make_move_iterator(few_.end()));
    many_.push_back(std::move(value));
    ++size_;
  }

  void resize(std::size_t count, const T& value = T()) {
    if (count < size_)
      return shrink(count);
    const T copy = value; // which may be an element
    while (size_ < count)
      push_back(copy);
  }
  void clear() { shrink(0); }

  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

private:
  // Holds nothing of what it drops.
  void shrink(std::size_t count) {
    if (count > room) {
      many_.resize(count);
    } else {
      if (size_ > room)
        std::move(many_.begin(), many_.begin() + static_cast<std::ptrdiff_t>(count), few_.begin());
      many_.clear();
      std::fill(few_.begin() + static_cast<std::ptrdiff_t>(count), few_.end(), T());
    }
    size_ = count;
  }

  std::array<T, room> few_{};
  std::vector<T> many_; ///< all, where there are more than `room`
  std::size_t size_ = 0;
};

} // namespace ostraka
