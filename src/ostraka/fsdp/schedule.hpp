// SPDX-License-Identifier: Apache-2.0
// What modules do in a micro-batch and in which order, and which of them are gathered ahead.
// Source: spec/megatron_fsdp.md 3.6, 3.8. Pure.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/fsdp/order.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ostraka::fsdp {

enum class Hook : std::int8_t {
  pre_forward,
  post_forward,
  pre_backward,
  post_backward,
  unshard,
  reshard,
  reduce_gradients
};

OSTRAKA_API const char* name(Hook hook); ///< as in messages

/// A hook of a module. In a backward pass forward hooks are those of a recomputation.
struct Event {
  int module;
  Hook hook;

  friend bool operator==(const Event&, const Event&) = default;
};

/// A hook travels as a number.
OSTRAKA_API std::int64_t to_number(Event event);
OSTRAKA_API Event to_event(std::int64_t number);

/// The modules of `events` whose weights a pass asks for, in order; those of a recomputation are asked for on demand.
OSTRAKA_API std::vector<int> gathers(const std::vector<Event>& events, Hook begin);

/// One direction of a micro-batch: recorded hooks and gathers, of which the latter are also known where modules nest
/// other than recorded.
class OSTRAKA_API Pass {
public:
  /// `begin`: the hook that starts a use, pre_forward or pre_backward.
  explicit Pass(Hook begin) : begin_(begin) {}

  void expect_first(const std::vector<Event>& events);
  void visit(Event event);
  /// What comes next: the hook as recorded, else the begin of the next use. Nothing where neither is known.
  std::optional<Event> next() const;
  /// Whether all hooks are as recorded so far.
  bool follows() const { return events_.follows(); }
  bool has_started() const { return events_.has_started(); }
  const Order& gathers() const { return gathers_; }
  void finish();
  void cancel();

private:
  Hook begin_;
  Order gathers_; ///< modules
  Order events_;  ///< numbers of events
};

/// How many of the modules `upcoming` are gathered ahead. `elements`: [module], of whole weights. `budget`: none: one
/// module; 0: none; else whole modules until so many elements are reached, at least one module. A module counts also
/// where it is gathered already.
OSTRAKA_API int modules_ahead(std::span<const int> upcoming, const std::vector<std::int64_t>& elements,
                              std::optional<std::int64_t> budget);

/// What this rank did since the last finish_backward, which all ranks compare.
class OSTRAKA_API Journal {
public:
  void add(Event event);
  void clear();
  std::int64_t hash() const { return hash_.value(); }
  /// Numbers of the first events.
  const std::vector<std::int64_t>& events() const { return events_; }

private:
  static constexpr std::size_t max_events = 1 << 16;

  Hash hash_;
  std::vector<std::int64_t> events_;
};

} // namespace ostraka::fsdp
