// SPDX-License-Identifier: Apache-2.0
// Blocking agreements of a group, for set-up calls and the end of a step. Collective over the communicator.
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/comm/communicator.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace ostraka::comm {

/// One failure for all: when any rank passes an error, every rank throws that of the lowest such rank, with the rank in
/// the message.
OSTRAKA_API void agree_on_status(Communicator& group, const std::optional<Error>& error);

/// The same; and whether all ranks passed the same `value`, if none passed an error. As much communication.
OSTRAKA_API bool agree_on_status(Communicator& group, const std::optional<Error>& error, std::int64_t value);

/// Whether all ranks pass the same number.
OSTRAKA_API bool are_equal(Communicator& group, std::int64_t value);

/// Throws RANKS_DISAGREE on every rank unless all pass the same number; `what` says what was compared.
OSTRAKA_API void agree_on_value(Communicator& group, std::int64_t value, const std::string& what);

/// A number that ranks must agree on, and what it is, with what it is here.
struct Setting {
  std::string what;
  std::int64_t value;
};

/// "what (here value)"; a type may be left to the library.
OSTRAKA_API Setting setting(const char* what, std::int64_t value);
OSTRAKA_API Setting setting(const char* what, std::optional<DType> dtype);

/// Throws RANKS_DISAGREE on every rank, `where` and the first setting that differs in the message, unless all ranks
/// pass the same ones. One comparison where they do.
OSTRAKA_API void agree_on_settings(Communicator& group, const std::vector<Setting>& settings, const std::string& where);

/// The largest value that a rank passes.
OSTRAKA_API std::int64_t largest(Communicator& group, std::int64_t value);

/// Replaces `values` by their sums over the ranks that pass the same `key`. All pass equally many.
OSTRAKA_API void sum_by_key(Communicator& group, std::int64_t key, std::span<std::int64_t> values);

/// The numbers of rank 0, however many, on every rank.
OSTRAKA_API std::vector<std::int64_t> from_first_rank(Communicator& group, const std::vector<std::int64_t>& numbers);

/// Copies `bytes` bytes of every rank, rank after rank, to `all`. All pass equally many.
OSTRAKA_API void gather_bytes(Communicator& group, const void* own, std::size_t bytes, void* all);

/// The records of all ranks, in rank order.
template <class Record>
std::vector<Record> gather(Communicator& group, const Record& own) {
  static_assert(std::is_trivially_copyable_v<Record>);
  std::vector<Record> all(static_cast<std::size_t>(group.size()));
  gather_bytes(group, &own, sizeof own, all.data());
  return all;
}

/// Runs `body` on every rank; when it throws an Error anywhere, all ranks throw that error.
template <class Body>
void together(Communicator& group, Body&& body) {
  std::optional<Error> error;
  try {
    body();
  } catch (const Error& caught) {
    error = caught;
  } catch (const std::exception& caught) { // whatever it is, the others must not wait for this rank
    error.emplace(Status::INTERNAL, caught.what());
  }
  agree_on_status(group, error);
}

} // namespace ostraka::comm
