// SPDX-License-Identifier: Apache-2.0
// Positioned reads and writes of many pieces of a file, and the calls of the system under them, which tests replace.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ostraka::checkpoint::impl {

/// As the functions of POSIX: negative results and errno. May be called from several threads.
class FileSystem {
public:
  virtual ~FileSystem() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual ssize_t pwritev(int descriptor, const iovec* parts, int count, off_t offset);
  virtual ssize_t preadv(int descriptor, const iovec* parts, int count, off_t offset);
  virtual int ftruncate(int descriptor, off_t bytes);
  virtual int fsync(int descriptor);
  virtual int close(int descriptor);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);
};

FileSystem& file_system();
/// Null: that of the system. Returns the one before.
FileSystem* replace_file_system(FileSystem* replacement);

/// Consecutive bytes of a file.
struct Piece {
  std::byte* data;
  std::int64_t bytes;
  std::int64_t offset;
  const std::string* name; ///< of the tensor, for messages
};

/// An open file; all functions throw INPUT_OUTPUT naming file, tensor and what the system says.
class File {
public:
  enum class For { reading, writing, replacing }; ///< replacing: a new file, or an old one without its bytes
  File(std::string path, For use);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Pieces that follow each other in the file go together. They are sorted by offset and do not overlap.
  void write(std::span<const Piece> pieces);
  /// The same; small gaps between pieces are read, too, and thrown away.
  void read(std::span<const Piece> pieces);
  /// To so many bytes; new ones are zero.
  void resize(std::int64_t bytes);
  void sync();
  void close();

private:
  [[noreturn]] void fail_with(const std::string& what) const;
  template <class Call>
  void transfer(const std::vector<Piece>& pieces, const char* verb, Call&& call);

  std::string path_;
  int descriptor_;
};

/// Throw INPUT_OUTPUT as File.
void rename_file(const std::string& from, const std::string& to);
void sync_folder_of(const std::string& path);
/// Whatever comes of it.
void remove_file(const std::string& path) noexcept;

} // namespace ostraka::checkpoint::impl
