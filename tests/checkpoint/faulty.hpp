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
  /// Writes wait.
  void hold(bool is_held) { is_held_ = is_held; }
  std::atomic<std::int64_t> calls = 0, bytes_written = 0;

  int open(const char* path, int flags, mode_t mode) override {
    return fails("open") ? -1 : FileSystem::open(path, flags, mode);
  }
  ssize_t pwritev(int descriptor, const iovec* parts, int count, off_t offset) override {
    while (is_held_)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (fails("pwritev") || is_interrupted())
      return -1;
    const iovec first = shortened(*parts);
    const ssize_t written = is_short_ ? FileSystem::pwritev(descriptor, &first, 1, offset)
                                      : FileSystem::pwritev(descriptor, parts, count, offset);
    bytes_written += std::max<ssize_t>(written, 0);
    return written;
  }
  ssize_t preadv(int descriptor, const iovec* parts, int count, off_t offset) override {
    if (fails("preadv") || is_interrupted())
      return -1;
    const iovec first = shortened(*parts);
    return is_short_ ? FileSystem::preadv(descriptor, &first, 1, offset)
                     : FileSystem::preadv(descriptor, parts, count, offset);
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
  static iovec shortened(const iovec& part) { return {part.iov_base, std::min<std::size_t>(part.iov_len, 5)}; }

  FileSystem* before_;
  std::mutex mutex_;
  std::string call_;
  std::atomic<int> left_ = -1;
  int error_ = 0;
  std::atomic<bool> is_short_ = false, is_held_ = false;
};

} // namespace ostraka::checkpoint::test
