// SPDX-License-Identifier: Apache-2.0
#include "engine.hpp"

#include <execinfo.h>
#include <link.h>
#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

namespace ostraka::cuda_double {

std::int64_t setting(const char* variable, std::int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::atoll(text);
}

namespace {

constexpr int most_patience = 300; // questions

// Where the program stands: calls inside its own file, innermost first, as addr2line wants them.
std::string callers() {
  struct Part {
    std::uintptr_t base = 0, end = 0;
  } program;
  dl_iterate_phdr( // the program comes first
      [](dl_phdr_info* info, std::size_t, void* result) {
        auto& part = *static_cast<Part*>(result);
        part.base = info->dlpi_addr;
        for (int k = 0; k < info->dlpi_phnum; ++k)
          if (info->dlpi_phdr[k].p_type == PT_LOAD)
            part.end = std::max<std::uintptr_t>(part.end, info->dlpi_phdr[k].p_vaddr + info->dlpi_phdr[k].p_memsz);
        return 1;
      },
      &program);
  void* frames[40];
  std::string text;
  for (int k = 0, count = backtrace(frames, 40); k < count; ++k)
    if (const auto offset = reinterpret_cast<std::uintptr_t>(frames[k]) - program.base - 1; offset < program.end) {
      char number[32];
      std::snprintf(number, sizeof number, " 0x%zx", static_cast<std::size_t>(offset));
      text += number;
    }
  return text;
}

// What nobody has taken makes the program fail, whatever it thinks.
void report_at_exit() {
  Engine& engine = Engine::get();
  if (setting("OSTRAKA_DOUBLE_REPORT", 0) != 0 && engine.rank() == 0)
    std::fprintf(stderr, "double: %lld waits, %lld polls\n", static_cast<long long>(engine.waits),
                 static_cast<long long>(engine.polls));
  if (!engine.take_misuse().empty())
    std::_Exit(3);
}

} // namespace

Engine& Engine::get() {
  static Engine& engine = *new Engine; // outlives everything that ends with the process
  return engine;
}

Engine::Engine()
    : dropped_wait_(setting("OSTRAKA_DOUBLE_DROP_WAIT", 0)), dropped_poll_(setting("OSTRAKA_DOUBLE_DROP_POLL", 0)),
      protects_(setting("OSTRAKA_DOUBLE_PROTECT", 1) != 0), reports_places_(setting("OSTRAKA_DOUBLE_REPORT", 0) > 1) {
  int has_mpi = 0;
  MPI_Initialized(&has_mpi);
  if (has_mpi != 0)
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  seed(setting("OSTRAKA_DOUBLE_SEED", 1));
  std::atexit(report_at_exit);
}

void Engine::misuse(const std::string& text) {
  std::fprintf(stderr, "double: rank %d: misuse: %s\n", rank_, text.c_str());
  misuse_ += text + "\n";
}

std::string Engine::take_misuse() { return std::exchange(misuse_, ""); }

// --- streams

Stream* Engine::make_stream() {
  static int number = 0;
  streams_.push_back(std::make_unique<Stream>());
  streams_.back()->number = ++number;
  return streams_.back().get();
}

void Engine::destroy_stream(Stream* stream) {
  const auto found =
      std::find_if(streams_.begin(), streams_.end(), [&](const auto& one) { return one.get() == stream; });
  if (found == streams_.end())
    return misuse("a stream was destroyed twice");
  destroyed_.push_back(std::move(*found));
  streams_.erase(found);
}

void Engine::push(Stream* stream, Work work) {
  const bool is_known =
      std::any_of(streams_.begin(), streams_.end(), [&](const auto& one) { return one.get() == stream; });
  if (!is_known)
    return misuse(work.label + " on a stream that does not exist");
  const std::string reason = stream->is_closed ? stream->is_closed() : "";
  if (!reason.empty())
    misuse(work.label + " on a stream while " + reason);
  stream->queue.push_back(std::move(work));
}

std::vector<Stream*> Engine::busy() const {
  std::vector<Stream*> found;
  for (const auto* list : {&streams_, &destroyed_})
    for (const auto& stream : *list)
      if (!stream->queue.empty())
        found.push_back(stream.get());
  return found;
}

// One stream often goes far ahead of the others, which uniform draws hardly ever show.
Stream* Engine::choose() {
  const std::vector<Stream*> all = busy();
  if (all.empty())
    return nullptr;
  const bool stays = std::find(all.begin(), all.end(), favourite_) != all.end() && draw(8) != 0;
  if (!stays)
    favourite_ = all[draw(static_cast<unsigned>(all.size()))];
  return favourite_;
}

bool Engine::step(Stream& stream) {
  const bool is_done = stream.queue.front().step();
  if (is_done)
    stream.queue.pop_front();
  else if (&stream == favourite_)
    favourite_ = nullptr;
  return is_done;
}

// Shortly before the wait that is dropped the device is slow, so that what it should have waited for is still to come.
bool Engine::is_slow() {
  constexpr int waits_ahead = 4;
  const bool is_near = waits < dropped_wait_ && waits + waits_ahead >= dropped_wait_;
  if (is_near && ++patience_ < most_patience)
    return true;
  patience_ = is_near ? 0 : patience_;
  return false;
}

// The order that shows best that a wait is missing. Whether there is one to show.
bool Engine::run_against_dropped() {
  if (missed_ == nullptr || missed_->is_done)
    return false;
  running_ = true;
  bool goes_on = false;
  const auto run = [&](Stream& stream) {
    while (!stream.queue.empty() && step(stream))
      goes_on = true;
  };
  run(*hasty_);
  for (Stream* const stream : busy())
    if (stream != hasty_ && stream != missed_->stream)
      run(*stream);
  if (goes_on)
    patience_ = 0;
  else if (++patience_ >= most_patience && !missed_->stream->queue.empty() && step(*missed_->stream))
    patience_ = 0;
  running_ = false;
  return true;
}

void Engine::run_some() {
  if (running_ || is_held || is_slow() || run_against_dropped())
    return;
  if (idle_ > 0) {
    --idle_;
    return;
  }
  if (draw(6) == 0)
    idle_ = draw(40);
  constexpr unsigned attempts[] = {0, 1, 1, 2, 3, 12};
  unsigned left = attempts[draw(std::size(attempts))];
  if (left == 0 || choose() == nullptr)
    return;
  running_ = true;
  for (; left > 0; --left)
    if (Stream* const stream = choose())
      step(*stream);
  std::erase_if(destroyed_, [](const auto& stream) { return stream->queue.empty(); });
  running_ = false;
}

void Engine::run_until(const std::function<bool()>& done, const char* what) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  while (!done()) {
    run_some();
    if (Clock::now() - start > std::chrono::minutes(1)) {
      std::fprintf(stderr, "double: rank %d: %s does not end\n", rank_, what);
      std::abort();
    }
  }
}

std::shared_ptr<Point> Engine::record(Stream* stream) {
  auto point = std::make_shared<Point>();
  point->stream = stream;
  point->stream_number = stream->number;
  ++stream->before[stream->number];
  point->before = stream->before;
  push(stream, {"cudaEventRecord", [point] {
                  point->is_done = true;
                  return true;
                }});
  return point;
}

void Engine::wait(Stream* stream, const std::shared_ptr<Point>& point) {
  ++waits;
  const bool waits_for_nothing = point == nullptr || point->is_done;
  const bool is_in_order =
      waits_for_nothing || stream->before[point->stream_number] >= point->before.at(point->stream_number);
  if (reports_places_ && rank_ == 0)
    std::fprintf(stderr, "double: wait %lld%s at%s\n", static_cast<long long>(waits),
                 waits_for_nothing ? " for nothing"
                 : is_in_order     ? " that others imply"
                                   : "",
                 callers().c_str());
  if (waits == dropped_wait_ && !is_in_order) {
    hasty_ = stream;
    missed_ = point;
  }
  if (waits == dropped_wait_ || waits_for_nothing)
    return;
  for (const auto& [number, points] : point->before)
    stream->before[number] = std::max(stream->before[number], points);
  push(stream, {"cudaStreamWaitEvent", [point] { return point->is_done; }});
}

bool Engine::query(Point& point) {
  run_some();
  if (point.is_done || point.is_dropped)
    return true;
  if (!std::exchange(point.was_polled, true))
    point.is_dropped = ++polls == dropped_poll_;
  return point.is_dropped;
}

// --- memory

std::byte* Engine::reserve(std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    return nullptr;
  reserved_[static_cast<std::byte*>(data)] = bytes;
  return static_cast<std::byte*>(data);
}

void Engine::unreserve(std::byte* data) {
  const auto found = reserved_.find(data);
  if (found == reserved_.end())
    return misuse("addresses were freed that are not reserved");
  munmap(data, found->second);
  reserved_.erase(found);
}

// New memory of a device holds anything.
void Engine::map(std::byte* data, std::size_t bytes) {
  if (!is_device(data))
    return misuse("memory was mapped at addresses that are not reserved");
  mprotect(data, bytes, PROT_READ | PROT_WRITE);
  std::memset(data, 0xff, bytes);
  if (protects_)
    mprotect(data, bytes, PROT_NONE);
  mapped_[data] = bytes;
}

void Engine::unmap(std::byte* data, std::size_t bytes) {
  const auto found = mapped_.find(data);
  if (found == mapped_.end() || found->second != bytes)
    return misuse("memory was unmapped that is not mapped like this");
  mapped_.erase(found);
  mprotect(data, bytes, PROT_NONE);
  madvise(data, bytes, MADV_DONTNEED);
}

void Engine::open_memory(bool open) {
  if (protects_)
    for (const auto& [data, bytes] : mapped_)
      mprotect(data, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

bool Engine::is_device(const void* data) const {
  const auto* at = static_cast<const std::byte*>(data);
  return std::any_of(reserved_.begin(), reserved_.end(),
                     [&](const auto& range) { return at >= range.first && at < range.first + range.second; });
}

bool Engine::is_mapped(const void* data, std::size_t bytes) const {
  const auto* at = static_cast<const std::byte*>(data);
  const auto* const end = at + bytes;
  for (const auto& [begin, size] : mapped_) // ascending
    if (at >= begin && at < begin + size)
      at = begin + size;
  return at >= end;
}

bool Engine::expect_mapped(const void* data, std::size_t bytes, const std::string& user) {
  const bool is_good = bytes == 0 || is_mapped(data, bytes);
  if (!is_good)
    misuse(user + ": " + std::to_string(bytes) + " bytes that are not (or no longer) memory of the device");
  return is_good;
}

bool Engine::is_pinned(const void* data) const {
  const auto* at = static_cast<const std::byte*>(data);
  return std::any_of(pinned.begin(), pinned.end(),
                     [&](const auto& range) { return at >= range.first && at < range.first + range.second; });
}

// --- for tests

std::vector<Call> take_calls() { return std::exchange(Engine::get().calls, {}); }
std::vector<Start> take_starts() { return std::exchange(Engine::get().starts, {}); }
std::int64_t windows() { return Engine::get().windows; }
std::int64_t symmetric_operations() { return Engine::get().symmetric_operations; }
std::int64_t waits() { return Engine::get().waits; }
std::int64_t polls() { return Engine::get().polls; }
void set_seed(std::int64_t number) { Engine::get().seed(number); }
void hold_device(bool holds) { Engine::get().is_held = holds; }
std::string take_misuse() { return Engine::get().take_misuse(); }

} // namespace ostraka::cuda_double
