// SPDX-License-Identifier: Apache-2.0
// A description as ranks exchange it to compare what each of them is about to do.
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/comm/communicator.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

namespace ostraka::comm::impl {

/// Names longer than their array agree when their begins do.
struct Record {
  explicit Record(const Description& from) : count(from.count), detail(from.detail) {
    dtype = static_cast<std::int32_t>(from.dtype);
    op = static_cast<std::int32_t>(from.op);
    std::strncpy(operation.data(), from.operation, operation.size() - 1);
    if (from.name != nullptr)
      std::strncpy(name.data(), from.name->c_str(), name.size() - 1);
  }
  Record() = default;

  bool is(std::string_view what) const { return what == operation.data(); }

  // An exchange moves other counts on every rank.
  bool has_same_text(const Record& other) const {
    return operation == other.operation && name == other.name && dtype == other.dtype &&
           (count == other.count || is("exchange"));
  }

  bool agrees(const Record& other) const { return has_same_text(other) && op == other.op && detail == other.detail; }

  /// Equal for records that agree, and hardly ever for others.
  std::uint64_t fingerprint() const {
    static_assert(std::has_unique_object_representations_v<Record> && offsetof(Record, count) == 0);
    constexpr std::size_t words = sizeof(Record) / sizeof(std::uint64_t);
    constexpr std::size_t unnamed = offsetof(Record, name) / sizeof(std::uint64_t);
    const auto word = [this](std::size_t i) {
      std::uint64_t value;
      std::memcpy(&value, reinterpret_cast<const std::byte*>(this) + i * sizeof value, sizeof value);
      return value;
    };
    // Several at a time, as each takes a multiplication of the one before.
    std::array<std::uint64_t, 4> values{is("exchange") ? 0 : word(0), 2, 3, 4};
    for (std::size_t i = 1; i < (name[0] == '\0' ? unnamed : words); ++i)
      values[i % values.size()] = mixed(values[i % values.size()], word(i));
    return mixed(mixed(values[0], values[1]), mixed(values[2], values[3]));
  }

  static std::uint64_t mixed(std::uint64_t value, std::uint64_t word) {
    value = (value ^ word) * 0x9e3779b97f4a7c15ull;
    return value ^ value >> 32;
  }

  std::string text() const {
    Description description;
    description.operation = operation.data();
    description.count = count;
    description.dtype = static_cast<DType>(dtype);
    if (name[0] != '\0')
      description.name = std::make_shared<const std::string>(name.data());
    return description.text();
  }

  std::int64_t count = 0;
  std::int64_t detail = 0;
  std::int32_t dtype = 0;
  std::int32_t op = 0;
  std::array<char, 16> operation{};
  std::array<char, 88> name{};
};

/// What the texts of two records that do not agree leave out.
inline std::string difference(const Record& first, const Record& other) {
  if (!first.has_same_text(other))
    return "";
  if (first.op != other.op)
    return " (reductions " + std::string(layout::name(static_cast<layout::ReduceOp>(first.op))) + " and " +
           layout::name(static_cast<layout::ReduceOp>(other.op)) + ")";
  if (first.is("broadcast"))
    return " (from rank " + std::to_string(first.detail) + " and from rank " + std::to_string(other.detail) + ")";
  return first.is("exchange") ? " (between layouts that differ)" : " (in pieces or layouts that differ)";
}

/// Throws RANKS_DISAGREE, on every rank with the same text, unless record(k) agrees with record(0) for all k < ranks;
/// number(k) is what messages call rank k.
template <class RecordOf, class Number = std::identity>
void expect_agreement(int ranks, const std::string& communicator, std::int64_t sequence, RecordOf&& record,
                      Number&& number = {}) {
  for (int k = 1; k < ranks; ++k)
    if (!record(k).agrees(record(0)))
      fail(Status::RANKS_DISAGREE, "operation ", sequence, " of communicator ", communicator,
           " differs between its ranks: rank ", number(0), " called ", record(0).text(), ", rank ", number(k),
           " called ", record(k).text(), difference(record(0), record(k)),
           "; all ranks make the same calls in the same order");
}

} // namespace ostraka::comm::impl
