// SPDX-License-Identifier: Apache-2.0
// Calls of the system that fail, fall short or end the process when the test says so.
#pragma once

#include <ostraka/checkpoint/impl/file.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace ostraka::checkpoint::test {

class Faulty final : public impl::FileSystem {
public:
  Faulty() : before_(impl::replace_file_system(this)) {}
  ~Faulty() override { impl::replace_file_system(before_); }

  /// The `number`-th call from now on (from 1) of "open", "pwritev", ... fails with `error`; 0: the process ends.
  void fail(std::string call, int number, int error) {
    const std::lock_guard lock(mutex_);
    call_ = std::move(call);
    left_ = number;
    error_ = error;
  }
  bool has_failed() const { return left_ == 0; }
  /// Reads and writes take a few bytes each, and every other call is interrupted.
  void fall_short() { is_short_ = true; }
  /// Writes of other threads than the one that made this wait: those of an asynchronous save, behind its frame.
  void hold(bool is_held) { is_held_ = is_held; }
  /// They wait when so many bytes have been written, in the middle of a call if need be.
  void hold_after(std::int64_t bytes) { most_bytes_ = bytes; }
  bool is_at_its_end() const { return helper_bytes_ == most_bytes_; }
  std::atomic<std::int64_t> calls = 0, bytes_written = 0;
  int count(const std::string& call) {
    const std::lock_guard lock(mutex_);
    return counts_[call];
  }

  int open(const char* path, int flags, mode_t mode) override {
    return fails("open") ? -1 : FileSystem::open(path, flags, mode);
  }
  ssize_t pwritev(int descriptor, const iovec* parts, int count, off_t offset) override {
    const bool is_helper = std::this_thread::get_id() != owner_;
    while (is_helper && (is_held_ || is_at_its_end()))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (fails("pwritev") || is_interrupted())
      return -1;
    const bool is_limited = is_helper && most_bytes_ >= 0;
    iovec first = shortened(*parts);
    if (is_limited)
      first.iov_len = std::min(first.iov_len, static_cast<std::size_t>(most_bytes_ - helper_bytes_));
    const ssize_t written = is_short_ || is_limited ? FileSystem::pwritev(descriptor, &first, 1, offset)
                                                    : FileSystem::pwritev(descriptor, parts, count, offset);
    bytes_written += std::max<ssize_t>(written, 0);
    if (is_helper)
      helper_bytes_ += std::max<ssize_t>(written, 0);
    return written;
  }
  ssize_t preadv(int descriptor, const iovec* parts, int count, off_t offset) override {
    if (fails("preadv") || is_interrupted())
      return -1;
    const iovec first = shortened(*parts);
    return is_short_ ? FileSystem::preadv(descriptor, &first, 1, offset)
                     : FileSystem::preadv(descriptor, parts, count, offset);
  }
  int ftruncate(int descriptor, off_t bytes) override {
    return fails("ftruncate") ? -1 : FileSystem::ftruncate(descriptor, bytes);
  }
  int fsync(int descriptor) override { return fails("fsync") ? -1 : FileSystem::fsync(descriptor); }
  int close(int descriptor) override {
    const bool does_fail = fails("close");
    FileSystem::close(descriptor);
    if (does_fail)
      errno = error_;
    return does_fail ? -1 : 0;
  }
  int rename(const char* from, const char* to) override { return fails("rename") ? -1 : FileSystem::rename(from, to); }

private:
  bool fails(const char* call) {
    const std::lock_guard lock(mutex_);
    ++calls;
    ++counts_[call];
    if (call_ != call || left_ <= 0 || --left_ > 0)
      return false;
    if (error_ == 0)
      _exit(3);
    errno = error_;
    return true;
  }
  bool is_interrupted() {
    if (!is_short_ || calls % 2 == 0)
      return false;
    errno = EINTR;
    return true;
  }
  iovec shortened(const iovec& part) const {
    return {part.iov_base, is_short_ ? std::min<std::size_t>(part.iov_len, 5) : part.iov_len};
  }

  FileSystem* before_;
  std::mutex mutex_;
  std::string call_;
  std::map<std::string, int> counts_;
  std::atomic<int> left_ = -1;
  int error_ = 0;
  std::atomic<bool> is_short_ = false, is_held_ = false;
  const std::thread::id owner_ = std::this_thread::get_id();
  std::atomic<std::int64_t> most_bytes_ = -1, helper_bytes_ = 0;
};

} // namespace ostraka::checkpoint::test
