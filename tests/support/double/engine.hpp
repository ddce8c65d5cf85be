// SPDX-License-Identifier: Apache-2.0
// Streams, events and memory of the double.
#pragma once

#include "double.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ostraka::cuda_double {

struct Stream;

/// What has run before, whatever the order of streams: of each stream (by number) so many points.
using Clock = std::map<int, std::int64_t>;

/// A point in a stream.
struct Point {
  Stream* stream = nullptr;
  int stream_number = 0; ///< which may be gone
  Clock before;
  bool is_done = false;
  bool was_polled = false;
  bool is_dropped = false; ///< the host is told too early
};

struct Event {
  std::shared_ptr<Point> point;
};

/// Something in a stream. step() is called until it returns true.
struct Work {
  std::string label;
  std::function<bool()> step;
};

struct Stream {
  int number = 0;
  std::deque<Work> queue;
  Clock before; ///< what is queued next
  /// Why nothing may be queued now; empty: it may.
  std::function<std::string()> is_closed;
};

struct Range {
  std::size_t bytes = 0;
  bool is_mapped = false;
};

class Engine {
public:
  static Engine& get();

  Stream* make_stream();
  void destroy_stream(Stream* stream);
  void push(Stream* stream, Work work);
  /// Runs a few steps, perhaps none.
  void run_some();
  /// Runs until `done`; ends the program when that takes a minute.
  void run_until(const std::function<bool()>& done, const char* what);

  std::shared_ptr<Point> record(Stream* stream);
  void wait(Stream* stream, const std::shared_ptr<Point>& point);
  bool query(Point& point);

  void misuse(const std::string& text);
  std::string take_misuse();

  // Memory: what devices can read, by address.
  std::byte* reserve(std::size_t bytes);
  void unreserve(std::byte* data);
  void map(std::byte* data, std::size_t bytes);
  void unmap(std::byte* data, std::size_t bytes);
  bool is_device(const void* data) const;
  /// Whether all of it can be used now.
  bool is_mapped(const void* data, std::size_t bytes) const;
  bool expect_mapped(const void* data, std::size_t bytes, const std::string& user);
  /// Work may touch memory of the device while one lives, and hosts never.
  class Access {
  public:
    Access() { get().open_memory(true); }
    ~Access() { get().open_memory(false); }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
  };

  std::map<std::byte*, std::size_t> pinned;
  bool is_pinned(const void* data) const;

  unsigned draw(unsigned below) { return static_cast<unsigned>(random_()) % below; }
  void seed(std::int64_t number) { random_.seed(static_cast<unsigned>(number * 1000 + rank_)); }
  int rank() const { return rank_; }

  bool is_held = false; ///< nothing runs
  std::vector<Call> calls;
  std::vector<Start> starts;
  std::int64_t windows = 0;
  std::int64_t symmetric_operations = 0;
  std::int64_t waits = 0;
  std::int64_t polls = 0;

private:
  Engine();
  bool step(Stream& stream);
  Stream* choose();
  std::vector<Stream*> busy() const;
  bool is_slow();
  bool run_against_dropped();
  void open_memory(bool open);

  int rank_ = 0;
  std::mt19937 random_;
  std::int64_t dropped_wait_, dropped_poll_;
  bool protects_;
  bool reports_places_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Stream>> destroyed_; ///< whose work goes on
  Stream* favourite_ = nullptr;
  // Once a wait is dropped: who did not wait, and for what. He runs whenever he can, and the stream that he should have
  // waited for only when nothing else goes on.
  Stream* hasty_ = nullptr;
  std::shared_ptr<Point> missed_;
  int patience_ = 0;  ///< questions since something went on
  unsigned idle_ = 0; ///< so many questions find the device asleep, while hosts go ahead
  bool running_ = false;
  std::string misuse_;
  std::map<std::byte*, std::size_t> reserved_;
  std::map<std::byte*, std::size_t> mapped_;
};

/// A number of the environment.
std::int64_t setting(const char* variable, std::int64_t otherwise);

} // namespace ostraka::cuda_double
