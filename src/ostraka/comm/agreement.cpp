// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/hash.hpp>
#include <ostraka/comm/agreement.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace ostraka::comm {

namespace {

using Operation = std::function<void(runtime::Stream&, Operand)>;

// Runs a collective on a copy of `data` that outlives a time-out, and brings the result back.
void exchange(void* data, std::size_t bytes, const Operation& operation) {
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes);
  const std::shared_ptr<memory::Storage> storage(
      new memory::Storage(copy->data(), static_cast<std::int64_t>(bytes), runtime::Device::host),
      [copy](memory::Storage* wrapped) { delete wrapped; }); // the copy lives as long as the storage
  auto* begin = static_cast<std::byte*>(data);
  std::copy(begin, begin + bytes, storage->data());
  operation(*runtime::make_host_compute_stream(), {storage, 0});
  std::copy(storage->data(), storage->data() + bytes, begin);
}

template <std::size_t N>
void maximum(Communicator& group, std::array<std::int64_t, N>& values) {
  exchange(values.data(), sizeof values, [&](runtime::Stream& stream, Operand operand) {
    group.allreduce(stream, std::move(operand), N, DType::i64, layout::ReduceOp::max);
  });
}

void broadcast(Communicator& group, void* data, std::size_t bytes, int root) {
  exchange(data, bytes, [&](runtime::Stream& stream, Operand operand) {
    group.broadcast(stream, std::move(operand), static_cast<std::int64_t>(bytes), root);
  });
}

// Throws the error of the lowest failing rank everywhere; `largest` is group.size() - that rank.
[[noreturn]] void throw_on_all(Communicator& group, std::int64_t largest, const std::optional<Error>& error) {
  const int root = group.size() - static_cast<int>(largest);
  std::array<std::int64_t, 2> head{};
  std::string text;
  if (group.rank() == root) {
    text = "rank " + std::to_string(root) + ": " + error->what();
    head = {static_cast<std::int64_t>(error->status()), static_cast<std::int64_t>(text.size())};
  }
  broadcast(group, head.data(), sizeof head, root);
  text.resize(static_cast<std::size_t>(head[1]));
  broadcast(group, text.data(), text.size(), root);
  throw Error(static_cast<Status>(head[0]), text);
}

// The largest such number is that of the lowest failing rank.
std::int64_t failure_number(const Communicator& group, const std::optional<Error>& error) {
  return error ? group.size() - group.rank() : 0;
}

} // namespace

void agree_on_status(Communicator& group, const std::optional<Error>& error) {
  std::array<std::int64_t, 1> largest{failure_number(group, error)};
  maximum(group, largest);
  if (largest[0] > 0)
    throw_on_all(group, largest[0], error);
}

bool agree_on_status(Communicator& group, const std::optional<Error>& error, std::int64_t value) {
  std::array<std::int64_t, 3> largest{failure_number(group, error), value, ~value}; // ~ reverses the order, see below
  maximum(group, largest);
  if (largest[0] > 0)
    throw_on_all(group, largest[0], error);
  return largest[1] == ~largest[2];
}

bool are_equal(Communicator& group, std::int64_t value) {
  std::array<std::int64_t, 2> extremes{value, ~value}; // ~ reverses the order, as - does, and never overflows
  maximum(group, extremes);
  return extremes[0] == ~extremes[1];
}

void agree_on_value(Communicator& group, std::int64_t value, const std::string& what) {
  expect(are_equal(group, value), Status::RANKS_DISAGREE, what, ": the ", group.size(), " ranks of ", group.name(),
         " differ");
}

Setting setting(const char* what, std::int64_t value) {
  return {what + (" (here " + std::to_string(value) + ")"), value};
}

Setting setting(const char* what, std::optional<DType> dtype) {
  return {what + (" (here " + std::string(dtype ? name(*dtype) : "none") + ")"),
          dtype ? static_cast<std::int32_t>(*dtype) : -1};
}

void agree_on_settings(Communicator& group, const std::vector<Setting>& settings, const std::string& where) {
  Hash hash;
  for (const Setting& setting : settings)
    hash.add(setting.value);
  if (are_equal(group, hash.value()))
    return;
  const auto count = static_cast<std::size_t>(largest(group, static_cast<std::int64_t>(settings.size())));
  for (std::size_t i = 0; i < count; ++i)
    agree_on_value(group, i < settings.size() ? settings[i].value : -1,
                   where + (i < settings.size() ? settings[i].what : "one more than here"));
  fail(Status::RANKS_DISAGREE, where, "their number differs");
}

std::int64_t largest(Communicator& group, std::int64_t value) {
  std::array<std::int64_t, 1> found{value};
  maximum(group, found);
  return found[0];
}

std::vector<std::int64_t> from_first_rank(Communicator& group, const std::vector<std::int64_t>& numbers) {
  auto count = static_cast<std::int64_t>(numbers.size());
  broadcast(group, &count, sizeof count, 0);
  std::vector<std::int64_t> result = numbers;
  result.resize(static_cast<std::size_t>(count));
  broadcast(group, result.data(), result.size() * sizeof count, 0);
  return result;
}

void gather_bytes(Communicator& group, const void* own, std::size_t bytes, void* all) {
  const auto place = static_cast<std::size_t>(group.rank()) * bytes;
  std::memcpy(static_cast<std::byte*>(all) + place, own, bytes);
  exchange(all, bytes * static_cast<std::size_t>(group.size()), [&](runtime::Stream& stream, const Operand& whole) {
    const auto pieces = layout::Segments::equal(group.size(), static_cast<std::int64_t>(bytes));
    group.allgather(stream, {whole.storage, static_cast<std::int64_t>(place)}, whole, pieces, DType::u8);
  });
}

void sum_by_key(Communicator& group, std::int64_t key, std::span<std::int64_t> values) {
  const std::size_t length = 1 + values.size();
  std::vector<std::int64_t> own{key}, all(length * static_cast<std::size_t>(group.size())); // [rank]: key, values
  own.insert(own.end(), values.begin(), values.end());
  gather_bytes(group, own.data(), length * sizeof key, all.data());
  std::fill(values.begin(), values.end(), 0);
  for (std::size_t at = 0; at < all.size(); at += length)
    if (all[at] == key)
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] += all[at + 1 + i];
}

} // namespace ostraka::comm
