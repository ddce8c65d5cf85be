// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/schedule.hpp>

namespace ostraka::fsdp {

const char* name(Hook hook) {
  switch (hook) {
  case Hook::pre_forward:
    return "pre_forward";
  case Hook::post_forward:
    return "post_forward";
  case Hook::pre_backward:
    return "pre_backward";
  case Hook::post_backward:
    return "post_backward";
  case Hook::unshard:
    return "unshard";
  case Hook::reshard:
    return "reshard";
  case Hook::reduce_gradients:
    return "reduce_gradients";
  }
  return "unknown";
}

std::int64_t to_number(Event event) {
  return 8 * static_cast<std::int64_t>(event.module) + static_cast<int>(event.hook);
}

Event to_event(std::int64_t number) { return {static_cast<int>(number / 8), static_cast<Hook>(number % 8)}; }

std::vector<int> gathers(const std::vector<Event>& events, Hook begin) {
  std::vector<int> modules;
  for (const Event& event : events)
    if (event.hook == begin)
      modules.push_back(event.module);
  return modules;
}

void Pass::expect_first(const std::vector<Event>& events) {
  std::vector<int> numbers;
  for (const Event& event : events)
    numbers.push_back(static_cast<int>(to_number(event)));
  events_.expect_first(std::move(numbers));
  gathers_.expect_first(fsdp::gathers(events, begin_));
}

void Pass::visit(Event event) {
  events_.visit(static_cast<int>(to_number(event)));
  if (event.hook == begin_)
    gathers_.visit(event.module);
}

std::optional<Event> Pass::next() const {
  if (events_.follows()) {
    const auto number = events_.next();
    return number ? std::optional(to_event(*number)) : std::nullopt;
  }
  const auto module = gathers_.next();
  return module ? std::optional(Event{*module, begin_}) : std::nullopt;
}

void Pass::finish() {
  events_.finish();
  gathers_.finish();
}

void Pass::cancel() {
  events_.cancel();
  gathers_.cancel();
}

int modules_ahead(std::span<const int> upcoming, const std::vector<std::int64_t>& elements,
                  std::optional<std::int64_t> budget) {
  const int known = static_cast<int>(upcoming.size());
  if (!budget)
    return known > 0 ? 1 : 0;
  int count = 0;
  for (std::int64_t sum = 0; count < known && sum < *budget; ++count)
    sum += elements[upcoming[count]];
  return count;
}

void Journal::add(Event event) {
  hash_.add(to_number(event));
  if (events_.size() < max_events)
    events_.push_back(to_number(event));
}

void Journal::clear() {
  hash_ = Hash();
  events_.clear();
}

} // namespace ostraka::fsdp
