// SPDX-License-Identifier: Apache-2.0
#undef _FORTIFY_SOURCE // its functions of the C library are inline
#include "system_calls.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace {

constexpr std::size_t most_files = 4096;

// Constant initialisation: others call long before main.
std::atomic<bool> is_watching = false;
std::array<std::atomic<bool>, most_files> is_watched{};
std::mutex mutex;
std::string folder;
std::vector<std::string> called;
int left = -1, error_number = 0;
bool is_for_reads = false;

bool is_inside(const char* path) {
  const std::lock_guard lock(mutex);
  return !folder.empty() && std::strncmp(path, folder.c_str(), folder.size()) == 0 &&
         (path[folder.size()] == '/' || path[folder.size()] == '\0');
}

bool is_ours(int file) {
  return is_watching && file >= 0 && static_cast<std::size_t>(file) < most_files &&
         is_watched[static_cast<std::size_t>(file)];
}

// Counts; whether this one fails.
bool fails(const char* name, bool reads = false) {
  const std::lock_guard lock(mutex);
  called.emplace_back(name);
  if (reads != is_for_reads || left <= 0 || --left > 0)
    return false;
  if (error_number == 0)
    _exit(3);
  errno = error_number;
  return true;
}

int open_file(const char* path, int flags, mode_t mode) {
  const bool is_new = is_watching && is_inside(path);
  if (is_new && fails("open"))
    return -1;
  const auto file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (file >= 0 && static_cast<std::size_t>(file) < most_files)
    is_watched[static_cast<std::size_t>(file)] = is_new;
  return file;
}

mode_t mode_of(int flags, va_list arguments) { return (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : mode_t{0}; }

} // namespace

extern "C" {
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): those of the C library are reserved
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file(path, flags, mode);
}
int close(int file) {
  const bool does_fail = is_ours(file) && fails("close");
  if (file >= 0 && static_cast<std::size_t>(file) < most_files)
    is_watched[static_cast<std::size_t>(file)] = false;
  const auto result = static_cast<int>(syscall(SYS_close, file)); // closed even when it fails
  if (does_fail)
    errno = error_number;
  return does_fail ? -1 : result;
}
ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
  return is_ours(file) && fails("pwrite") ? -1 : syscall(SYS_pwrite64, file, data, bytes, offset);
}
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t offset) { return pwrite(file, data, bytes, offset); }
ssize_t pwritev(int file, const iovec* parts, int count, off_t offset) {
  return is_ours(file) && fails("pwritev") ? -1 : syscall(SYS_pwritev, file, parts, count, offset, 0);
}
ssize_t pread(int file, void* data, size_t bytes, off_t offset) {
  return is_ours(file) && fails("pread", true) ? -1 : syscall(SYS_pread64, file, data, bytes, offset);
}
ssize_t pread64(int file, void* data, size_t bytes, off64_t offset) { return pread(file, data, bytes, offset); }
ssize_t preadv(int file, const iovec* parts, int count, off_t offset) {
  return is_ours(file) && fails("preadv", true) ? -1 : syscall(SYS_preadv, file, parts, count, offset, 0);
}
int ftruncate(int file, off_t bytes) noexcept {
  return is_ours(file) && fails("ftruncate") ? -1 : static_cast<int>(syscall(SYS_ftruncate, file, bytes));
}
int ftruncate64(int file, off64_t bytes) noexcept { return ftruncate(file, bytes); }
int fsync(int file) { return is_ours(file) && fails("fsync") ? -1 : static_cast<int>(syscall(SYS_fsync, file)); }
int rename(const char* from, const char* to) noexcept {
  if (is_watching && is_inside(to) && fails("rename"))
    return -1;
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
}

namespace ostraka::checkpoint::test {

SystemCalls::SystemCalls(const std::string& path) {
  const std::lock_guard lock(mutex);
  folder = path.substr(0, path.find_last_not_of('/') + 1);
  called.clear();
  left = -1;
  is_watching = true;
}

SystemCalls::~SystemCalls() {
  const std::lock_guard lock(mutex);
  is_watching = false;
  folder.clear();
}

void SystemCalls::fail(int number, int error, bool reads) {
  const std::lock_guard lock(mutex);
  left = number;
  error_number = error;
  is_for_reads = reads;
}

bool SystemCalls::has_failed() const {
  const std::lock_guard lock(mutex);
  return left == 0;
}

std::vector<std::string> SystemCalls::names() const {
  const std::lock_guard lock(mutex);
  return called;
}

} // namespace ostraka::checkpoint::test
