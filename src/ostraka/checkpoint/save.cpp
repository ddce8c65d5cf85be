// SPDX-License-Identifier: Apache-2.0
// Synchronous and asynchronous saves: one job, written here or by a thread.
#include <ostraka/checkpoint/checkpoint.hpp>
#include <ostraka/checkpoint/impl/save_job.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/runtime/progress.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>

namespace ostraka::checkpoint {

namespace {

// The path of the save in flight; empty: none. Used by main threads only. Ranks may differ: after the start of a save
// of fewer ranks, and when a handle was dropped on some.
std::string in_flight;

// Collective.
void require_can_start(const std::string& path, const Content& content) {
  comm::together(*impl::group_of(content), [&] {
    expect(!path.empty(), Status::INVALID_ARGUMENT, "save: expected the path of a file, found ''");
    expect(in_flight.empty(), Status::INVALID_STATE, "save '", path, "': the save to '", in_flight,
           "' is in flight; wait for it first");
  });
}

std::optional<Error> write(impl::SaveJob& job) {
  try {
    job.write();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(Status::INTERNAL, error.what());
  }
  return std::nullopt;
}

// Signals are for the threads that the program knows.
class WithoutSignals {
public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

private:
  sigset_t before_;
};

} // namespace

void save(const std::string& path, const Content& content, const SaveOptions& options) {
  require_can_start(path, content);
  impl::SaveJob job(path, content, options, false);
  job.finish(write(job));
}

struct AsyncSave::Flight {
  Flight(const std::string& path, const Content& content, const SaveOptions& options)
      : job(path, content, options, true), staging_bytes(job.copied_bytes()) {
    const WithoutSignals blocked;
    try {
      writer = std::thread([this] {
        error = write(job);
        is_written.store(true, std::memory_order_release);
      });
    } catch (const std::system_error& none) { // the others learn of it in test()
      error.emplace(Status::OUT_OF_MEMORY, "save '" + path + "': no thread to write it: " + none.what());
      is_written = true;
    }
  }
  ~Flight() { join(); }

  void join() {
    if (writer.joinable())
      writer.join();
  }

  impl::SaveJob job;
  std::int64_t staging_bytes;
  std::optional<Error> error; ///< of this rank; once is_written
  std::atomic<bool> is_written = false;
  bool is_done = false;
  std::thread writer;
};

AsyncSave::AsyncSave(std::unique_ptr<Flight> flight) : flight_(std::move(flight)) {}

std::unique_ptr<AsyncSave> AsyncSave::start(const std::string& path, const Content& content,
                                            const SaveOptions& options) {
  require_can_start(path, content);
  std::unique_ptr<AsyncSave> save(new AsyncSave(std::make_unique<Flight>(path, content, options)));
  in_flight = path;
  return save;
}

AsyncSave::~AsyncSave() {
  if (flight_->is_done)
    return;
  flight_->join();
  flight_->job.drop();
  in_flight.clear();
}

bool AsyncSave::test() {
  if (flight_->is_done)
    return true;
  const bool is_written = flight_->is_written.load(std::memory_order_acquire);
  if (comm::largest(flight_->job.group(), is_written ? 0 : 1) != 0)
    return false;
  flight_->join();
  flight_->job.end_copy();
  flight_->is_done = true;
  in_flight.clear();
  flight_->job.finish(flight_->error);
  return true;
}

void AsyncSave::wait() {
  using namespace std::chrono_literals;
  auto pause = 100us; // asked again and again, so a slow disk of one rank is no time-out of the others
  while (!test()) {
    const auto until = std::chrono::steady_clock::now() + pause;
    while (!flight_->is_written.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < until) {
      runtime::progress_all();
      std::this_thread::sleep_for(100us);
    }
    pause = std::min<std::chrono::microseconds>(2 * pause, 20ms);
  }
}

void AsyncSave::release_memory() { impl::Staging::free_kept(); }

bool AsyncSave::is_done() const { return flight_->is_done; }
std::int64_t AsyncSave::staging_bytes() const { return flight_->staging_bytes; }

} // namespace ostraka::checkpoint
