// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/with_type.hpp>
#include <ostraka/checkpoint/impl/crc32c.hpp>
#include <ostraka/checkpoint/impl/tensor_reader.hpp>
#include <ostraka/runtime/device.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

namespace ostraka::checkpoint::impl {

namespace {

constexpr std::int64_t block_bytes = 1 << 18; // stays in the cache until it is summed
constexpr std::size_t line = 64;              // of the cache

template <class From, class To>
To converted(From value) {
  if constexpr (std::is_floating_point_v<From>)
    return static_cast<To>(value);
  else
    return static_cast<To>(static_cast<float>(value));
}

// Floating types, as DBuffer::cast: rounded once.
void convert(DType from_type, const std::byte* from, DType to_type, std::byte* to, std::int64_t count) {
  const auto refuse = [] { fail(Status::INTERNAL, "load: conversion of integers"); };
  with_floating(
      from_type,
      [&](auto from_value) {
        with_floating(
            to_type,
            [&](auto to_value) {
              using From = decltype(from_value);
              using To = decltype(to_value);
              for (std::int64_t i = 0; i < count; ++i) {
                From value;
                std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof value), sizeof value);
                const To result = converted<From, To>(value);
                std::memcpy(to + i * static_cast<std::int64_t>(sizeof result), &result, sizeof result);
              }
            },
            refuse);
      },
      refuse);
}

class Reader {
public:
  Reader(const std::string& path, const Catalog& catalog, std::span<const Tensor> tensors,
         std::span<const Match> matches, bool verify)
      : catalog_(catalog), tensors_(tensors), matches_(matches), verifies_(verify), file_(path, File::For::reading),
        sums_(matches.size(), 0) {}

  std::vector<PartSum> read() {
    for (std::size_t m = 0; m < matches_.size(); ++m) {
      const Source& source = source_of(m);
      const std::int64_t cuts[] = {source.own.begin, source.written.begin, source.written.end, source.own.end};
      if (source.written.size() == 0 || !verifies_) {
        add(m, source.own, false);
        continue;
      }
      for (int k = 0; k < 3; ++k)
        add(m, {cuts[k], cuts[k + 1]}, k == 1);
    }
    flush();
    std::vector<PartSum> result;
    for (std::size_t m = 0; m < matches_.size(); ++m)
      if (const layout::Range& part = source_of(m).written; part.size() > 0)
        result.push_back({static_cast<std::int64_t>(m), part.begin, part.size(), sums_[m]});
    return result;
  }

private:
  struct Block {
    std::size_t match;
    layout::Range elements;
    bool is_checked;
  };

  const Source& source_of(std::size_t match) const { return catalog_.sources[matches_[match].source]; }
  const Tensor& tensor_of(std::size_t match) const { return tensors_[matches_[match].tensor]; }

  void add(std::size_t match, const layout::Range& elements, bool is_checked) {
    const std::int64_t width = size_of(tensor_of(match).dtype);
    for (std::int64_t at = elements.begin; at < elements.end;) {
      const std::int64_t end = std::min(elements.end, at + (block_bytes - bytes_) / width);
      blocks_.push_back({match, {at, end}, is_checked});
      bytes_ += (end - at) * width;
      if (block_bytes - bytes_ < 8) // no room for an element of any type
        flush();
      at = end;
    }
  }

  void flush() {
    std::vector<Piece> pieces;
    std::int64_t staged = 0;
    for (const Block& block : blocks_) {
      const Tensor& tensor = tensor_of(block.match);
      const Source& source = source_of(block.match);
      const std::int64_t width = size_of(tensor.dtype), bytes = block.elements.size() * width;
      // What is summed is read to where the cache keeps it, and goes on from there in the pass that sums it; so does
      // what a device gets.
      const bool is_direct =
          tensor.dtype == source.tensor.dtype && !block.is_checked && source.device == runtime::Device::host;
      if (!is_direct && staging_ == nullptr)
        staging_.reset(static_cast<std::byte*>(::operator new(block_bytes, std::align_val_t(line))));
      pieces.push_back({is_direct ? source.at(block.elements.begin) : staging_.get() + staged, bytes,
                        tensor.offset + block.elements.begin * width, &tensor.name});
      staged += is_direct ? 0 : bytes;
    }
    file_.read(pieces);
    for (std::size_t k = 0; k < blocks_.size(); ++k)
      take(blocks_[k], pieces[k]);
    blocks_.clear();
    bytes_ = 0;
  }

  void take(const Block& block, const Piece& piece) {
    const Source& source = source_of(block.match);
    if (source.device != runtime::Device::host)
      return take_to_device(block, piece);
    const DType from = tensor_of(block.match).dtype;
    std::uint32_t& sum = sums_[block.match];
    std::byte* to = source.at(block.elements.begin);
    const auto bytes = static_cast<std::size_t>(piece.bytes);
    if (from == source.tensor.dtype) {
      if (block.is_checked)
        sum = crc32c_copy(sum, to, piece.data, bytes);
      return;
    }
    if (block.is_checked)
      sum = crc32c(sum, piece.data, bytes);
    convert(from, piece.data, source.tensor.dtype, to, block.elements.size());
  }

  void take_to_device(const Block& block, const Piece& piece) {
    const Source& source = source_of(block.match);
    const DType from = tensor_of(block.match).dtype;
    const std::int64_t bytes = block.elements.size() * size_of(source.tensor.dtype);
    if (block.is_checked)
      sums_[block.match] = crc32c(sums_[block.match], piece.data, static_cast<std::size_t>(piece.bytes));
    const std::byte* values = piece.data;
    if (from != source.tensor.dtype) {
      converted_.resize(static_cast<std::size_t>(bytes));
      convert(from, piece.data, source.tensor.dtype, converted_.data(), block.elements.size());
      values = converted_.data();
    }
    runtime::copy_now(source.device, values, source.at(block.elements.begin), bytes);
  }

  const Catalog& catalog_;
  std::span<const Tensor> tensors_;
  std::span<const Match> matches_;
  bool verifies_;
  File file_;
  std::vector<std::uint32_t> sums_; ///< [match]
  std::vector<Block> blocks_;       ///< read at once
  std::int64_t bytes_ = 0;          ///< of them
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t(line)); }
  };
  std::unique_ptr<std::byte, Free> staging_;
  std::vector<std::byte> converted_; ///< for a device
};

} // namespace

std::vector<PartSum> read_tensors(const std::string& path, const Catalog& catalog, std::span<const Tensor> tensors,
                                  std::span<const Match> matches, bool verify) {
  const auto is_empty = [&](const Match& match) { return catalog.sources[match.source].own.size() == 0; };
  if (std::all_of(matches.begin(), matches.end(), is_empty))
    return {};
  return Reader(path, catalog, tensors, matches, verify).read();
}

} // namespace ostraka::checkpoint::impl
