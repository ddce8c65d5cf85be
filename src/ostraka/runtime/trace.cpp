// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/environment.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/base/log.hpp>
#include <ostraka/runtime/trace.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace ostraka::runtime::trace {

namespace impl {
bool tracing = false;
} // namespace impl

namespace {

using Json = nlohmann::ordered_json;

struct Event {
  std::string name;
  std::size_t track;
  Clock::time_point begin, end;
};

struct Trace {
  std::string file; ///< as OSTRAKA_TRACE names it
  Clock::time_point origin;
  std::optional<int> rank;
  std::vector<std::string> tracks;
  std::vector<Event> events;
};

Trace& trace() {
  static Trace& kept = *new Trace; // outlives objects that end with the process
  return kept;
}

std::size_t index_of(std::string_view track) {
  auto& tracks = trace().tracks;
  const auto found = std::find(tracks.begin(), tracks.end(), track);
  const auto index = static_cast<std::size_t>(found - tracks.begin());
  if (found == tracks.end())
    tracks.emplace_back(track);
  return index;
}

std::string name_of_file() {
  constexpr std::string_view ending = ".json";
  std::string_view stem = trace().file;
  if (stem.ends_with(ending))
    stem.remove_suffix(ending.size());
  return std::string(stem) + "." + std::to_string(trace().rank.value_or(0)) + std::string(ending);
}

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

Json metadata(const char* kind, std::size_t thread, const std::string& name) {
  return {{"name", kind}, {"ph", "M"}, {"pid", trace().rank.value_or(0)}, {"tid", thread}, {"args", {{"name", name}}}};
}

Json complete_event(const Event& event) {
  return {{"name", event.name},
          {"ph", "X"},
          {"ts", microseconds(event.begin - trace().origin)},
          {"dur", microseconds(event.end - event.begin)},
          {"pid", trace().rank.value_or(0)},
          {"tid", event.track}};
}

// Viewers want who contains another first where both begin together.
void sort_events() {
  std::stable_sort(trace().events.begin(), trace().events.end(), [](const Event& a, const Event& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
}

// Line by line: the whole as one Json would take ten times the memory of the events.
void print(std::ostream& out) {
  const char* separator = "{\"traceEvents\":[\n";
  const auto line = [&](const Json& json) { // names may be no UTF-8
    out << std::exchange(separator, ",\n") << json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  line(metadata("process_name", 0, "rank " + std::to_string(trace().rank.value_or(0))));
  for (std::size_t track = 0; track < trace().tracks.size(); ++track)
    line(metadata("thread_name", track, trace().tracks[track]));
  for (const Event& event : trace().events)
    line(complete_event(event));
  out << "\n]}\n";
}

// Under another name first: a reader, or a process killed meanwhile, never leaves half a trace.
void write_file(const std::string& path) {
  const std::string part = path + ".part";
  std::ofstream out(part);
  if (out)
    print(out);
  out.close();
  if (out.good() && std::rename(part.c_str(), path.c_str()) == 0)
    return;
  const int cause = errno;
  std::remove(part.c_str());
  fail(Status::INPUT_OUTPUT, "OSTRAKA_TRACE: cannot write '", path, "': ", std::strerror(cause));
}

} // namespace

void record(std::string_view track, std::string name, Clock::time_point begin, Clock::time_point end) noexcept {
  if (!is_tracing())
    return;
  try {
    trace().events.push_back({std::move(name), index_of(track), begin, end});
  } catch (const std::bad_alloc&) { // a trace never ends the program that it shows
    log::warn("OSTRAKA_TRACE: out of memory, an event is lost");
  }
}

void set_rank(int rank) {
  if (!trace().rank)
    trace().rank = rank;
}

void start() {
  const std::string file = environment::trace_file();
  if (file.empty())
    return;
  if (file != trace().file)
    trace() = {file, Clock::now(), {}, {}, {}};
  impl::tracing = true;
}

void finish() noexcept {
  write();
  impl::tracing = false;
}

void write() noexcept {
  if (!is_tracing())
    return;
  try {
    sort_events();
    write_file(name_of_file());
  } catch (const std::exception& error) {
    log::warn(error.what());
  }
}

} // namespace ostraka::runtime::trace
