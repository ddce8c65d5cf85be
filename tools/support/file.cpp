// SPDX-License-Identifier: Apache-2.0
#include "file.hpp"

#include "damage.hpp"
#include <ostraka/checkpoint/impl/partial_file.hpp>

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ostraka::tool {
namespace {

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Some file systems cannot sync a folder; the rename stands all the same.
  if (descriptor < 0)
    return;
  ::fsync(descriptor);
  ::close(descriptor);
}

/// Creates an empty file, and removes what commands and saves left that were killed.
std::filesystem::path create_beside(const std::filesystem::path& destination) {
  checkpoint::impl::remove_partial_files(destination.string());
  const std::string name = checkpoint::impl::partial_path(destination.string(), checkpoint::impl::random_number());
  const int descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  expect(descriptor >= 0, Status::INPUT_OUTPUT, destination.string(),
         ": cannot create a file beside it: ", std::strerror(errno));
  ::close(descriptor);
  return name;
}

constexpr std::array ending_signals{SIGINT, SIGTERM, SIGHUP};

// For the handler of signals, which may do little: the file to remove, empty when there is none.
std::array<char, PATH_MAX> partial_to_remove{};

void remove_partial_and_die(int signal) {
  if (partial_to_remove[0] != '\0')
    ::unlink(partial_to_remove.data());
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

/// While it lives, signals that end the program wait.
class SignalsHeld {
public:
  SignalsHeld() {
    sigset_t held;
    ::sigemptyset(&held);
    for (const int signal : ending_signals)
      ::sigaddset(&held, signal);
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  ~SignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
  sigset_t before_{};
};

/// An interrupted command leaves nothing behind either.
void remove_at_signals(const std::filesystem::path& partial) {
  const std::string& name = partial.native();
  if (name.size() >= partial_to_remove.size())
    return;
  std::memcpy(partial_to_remove.data(), name.c_str(), name.size() + 1);
  for (const int signal : ending_signals)
    ::signal(signal, remove_partial_and_die);
}

} // namespace

File::File(std::filesystem::path path, Access access) : path_(std::move(path)) {
  const int flags = access == Access::read ? O_RDONLY | O_NONBLOCK : O_RDWR; // a pipe without writer does not wait
  descriptor_ = ::open(path_.c_str(), flags | O_CLOEXEC);
  if (descriptor_ < 0)
    fail_with_errno("open");
  struct stat information {};
  const bool is_known = ::fstat(descriptor_, &information) == 0;
  if (is_known && S_ISREG(information.st_mode)) {
    size_ = information.st_size;
    return;
  }
  ::close(descriptor_);
  fail(Status::INPUT_OUTPUT, path_.string(), ": expected a regular file");
}

File::~File() { ::close(descriptor_); }

void File::fail_with_errno(std::string_view verb) const {
  const int error = errno;
  fail(Status::INPUT_OUTPUT, path_.string(), ": cannot ", verb, ": ", std::strerror(error));
}

void File::read(std::int64_t offset, std::span<std::byte> bytes, std::string_view what) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      fail_with_errno("read");
    expect_whole(count > 0, path_.string(), ": ", what, ": expected ", bytes.size(), " more bytes from byte ", offset,
                 " on, found the end of the file");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void File::write(std::int64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      fail_with_errno("write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void File::sync() const {
  if (::fsync(descriptor_) != 0)
    fail_with_errno("sync");
}

Replacement::Replacement(std::filesystem::path destination, bool force) : destination_(std::move(destination)) {
  struct stat information {};
  const bool exists = ::stat(destination_.c_str(), &information) == 0;
  expect(!exists || S_ISREG(information.st_mode), Status::INVALID_ARGUMENT, destination_.string(),
         ": exists and is no regular file");
  expect(!exists || force, Status::INVALID_ARGUMENT, destination_.string(), ": exists; --force replaces it");
  const SignalsHeld held;
  partial_ = create_beside(destination_);
  remove_at_signals(partial_);
}

Replacement::~Replacement() {
  partial_to_remove[0] = '\0';
  if (!is_committed_)
    ::unlink(partial_.c_str());
}

void Replacement::commit() {
  File(partial_, File::Access::write).sync();
  expect(::rename(partial_.c_str(), destination_.c_str()) == 0, Status::INPUT_OUTPUT, destination_.string(),
         ": cannot rename ", partial_.string(), " to it: ", std::strerror(errno));
  is_committed_ = true;
  const auto folder = destination_.parent_path();
  sync_folder(folder.empty() ? "." : folder);
}

} // namespace ostraka::tool
