// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/checkpoint/impl/file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace ostraka::checkpoint::impl {

int FileSystem::open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
ssize_t FileSystem::pwritev(int descriptor, const iovec* parts, int count, off_t offset) {
  return ::pwritev(descriptor, parts, count, offset);
}
ssize_t FileSystem::preadv(int descriptor, const iovec* parts, int count, off_t offset) {
  return ::preadv(descriptor, parts, count, offset);
}
int FileSystem::ftruncate(int descriptor, off_t bytes) { return ::ftruncate(descriptor, bytes); }
int FileSystem::fsync(int descriptor) { return ::fsync(descriptor); }
int FileSystem::close(int descriptor) { return ::close(descriptor); }
int FileSystem::rename(const char* from, const char* to) { return ::rename(from, to); }
int FileSystem::unlink(const char* path) { return ::unlink(path); }

namespace {

FileSystem posix;
std::atomic<FileSystem*> current = &posix;

constexpr std::int64_t most_bytes = 1 << 30; // of one call; Linux takes less than 2 GiB
constexpr int most_parts = 64;               // POSIX promises 16, Linux 1024
constexpr std::int64_t small_gap = 4096;     // reading it costs less than another call

std::string system_text() {
  return std::string(": ") + std::strerror(errno) + " (errno " + std::to_string(errno) + ")";
}

int retry(auto&& call) {
  int result;
  do
    result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

int flags_of(File::For use) {
  switch (use) {
  case File::For::reading:
    return O_RDONLY | O_CLOEXEC;
  case File::For::writing:
    return O_WRONLY | O_CLOEXEC;
  case File::For::replacing:
    break;
  }
  return O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
}

// The next call's parts of `pieces`, of which the first `done` bytes of piece `first` are done.
int gather_parts(const std::vector<Piece>& pieces, std::size_t first, std::int64_t done,
                 std::array<iovec, most_parts>& parts) {
  int count = 0;
  std::int64_t room = most_bytes, end = pieces[first].offset;
  for (std::size_t i = first; i < pieces.size() && count < most_parts && room > 0; ++i) {
    const Piece& piece = pieces[i];
    if (piece.offset != end)
      break;
    const std::int64_t bytes = std::min(room, piece.bytes - done);
    parts[static_cast<std::size_t>(count++)] = {piece.data + done, static_cast<std::size_t>(bytes)};
    room -= bytes;
    end = done + bytes == piece.bytes ? piece.offset + piece.bytes : -1;
    done = 0;
  }
  return count;
}

} // namespace

FileSystem& file_system() { return *current; }

FileSystem* replace_file_system(FileSystem* replacement) {
  return current.exchange(replacement != nullptr ? replacement : &posix);
}

File::File(std::string path, For use)
    : path_(std::move(path)),
      descriptor_(retry([&] { return file_system().open(path_.c_str(), flags_of(use), 0666); })) {
  if (descriptor_ < 0)
    fail_with(std::string("cannot ") + (use == For::replacing ? "create" : "open") + " the file" + system_text());
}

File::~File() {
  if (descriptor_ >= 0)
    file_system().close(descriptor_);
}

void File::fail_with(const std::string& what) const { fail(Status::INPUT_OUTPUT, "checkpoint '", path_, "': ", what); }

template <class Call>
void File::transfer(const std::vector<Piece>& pieces, const char* verb, Call&& call) {
  std::array<iovec, most_parts> parts;
  std::size_t first = 0;
  std::int64_t done = 0;
  while (first < pieces.size()) {
    const int count = gather_parts(pieces, first, done, parts);
    const Piece& piece = pieces[first];
    const ssize_t moved = call(parts.data(), count, piece.offset + done);
    if (moved < 0 && errno == EINTR)
      continue;
    if (moved <= 0)
      fail_with(std::string("cannot ") + verb + " '" + *piece.name + "' at byte " +
                std::to_string(piece.offset + done) + (moved < 0 ? system_text() : ": the file ends there"));
    for (done += moved; first < pieces.size() && done >= pieces[first].bytes; ++first)
      done -= pieces[first].bytes;
  }
}

void File::write(std::span<const Piece> pieces) {
  std::vector<Piece> full;
  std::copy_if(pieces.begin(), pieces.end(), std::back_inserter(full), [](const Piece& p) { return p.bytes > 0; });
  transfer(full, "write", [&](const iovec* parts, int count, std::int64_t offset) {
    return file_system().pwritev(descriptor_, parts, count, offset);
  });
}

void File::read(std::span<const Piece> pieces) {
  std::array<std::byte, small_gap> nobody;
  std::vector<Piece> with_gaps;
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0)
      continue;
    if (!with_gaps.empty()) {
      const std::int64_t end = with_gaps.back().offset + with_gaps.back().bytes;
      if (piece.offset > end && piece.offset - end <= small_gap)
        with_gaps.push_back({nobody.data(), piece.offset - end, end, piece.name});
    }
    with_gaps.push_back(piece);
  }
  transfer(with_gaps, "read", [&](const iovec* parts, int count, std::int64_t offset) {
    return file_system().preadv(descriptor_, parts, count, offset);
  });
}

void File::resize(std::int64_t bytes) {
  if (retry([&] { return file_system().ftruncate(descriptor_, bytes); }) < 0)
    fail_with("cannot make the file " + std::to_string(bytes) + " bytes long" + system_text());
}

void File::sync() {
  if (retry([&] { return file_system().fsync(descriptor_); }) < 0)
    fail_with("cannot bring the file to the disk" + system_text());
}

void File::close() {
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (file_system().close(descriptor) < 0 && errno != EINTR) // closed anyway
    fail_with("cannot close the file" + system_text());
}

void rename_file(const std::string& from, const std::string& to) {
  if (retry([&] { return file_system().rename(from.c_str(), to.c_str()); }) < 0)
    fail(Status::INPUT_OUTPUT, "checkpoint '", to, "': cannot rename '", from, "' to it", system_text());
}

void sync_folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  try {
    File(parent.empty() ? "." : parent, File::For::reading).sync();
  } catch (const Error& error) {
    fail(error.status(), "checkpoint '", path, "' is complete, but its name may not be on the disk: ", error.what());
  }
}

void remove_file(const std::string& path) noexcept { file_system().unlink(path.c_str()); }

} // namespace ostraka::checkpoint::impl
