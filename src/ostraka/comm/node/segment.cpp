// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/comm/mpi/mpi_communicator.hpp>
#include <ostraka/comm/node/process.hpp>
#include <ostraka/comm/node/segment.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace ostraka::comm::node {

namespace {

std::string new_name() {
  static int number = 0;
  return "/ostraka." + std::to_string(process_token()) + "." + std::to_string(number++);
}

} // namespace

Segment Segment::create(std::int64_t bytes) {
  Segment segment;
  segment.name_ = new_name();
  segment.bytes_ = bytes;
  segment.file_ = shm_open(segment.name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  expect(segment.file_ >= 0, Status::OUT_OF_MEMORY, "shared memory ", segment.name_,
         ": could not be created in /dev/shm: ", std::strerror(errno));
  try {
    expect(ftruncate(segment.file_, bytes) == 0, Status::OUT_OF_MEMORY, "shared memory ", segment.name_,
           ": no file of ", bytes, " bytes: ", std::strerror(errno));
    segment.map();
  } catch (...) {
    segment.unlink();
    throw;
  }
  return segment;
}

Segment Segment::open(const std::string& name, std::int64_t bytes) {
  Segment segment;
  segment.name_ = name;
  segment.bytes_ = bytes;
  segment.file_ = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600);
  expect(segment.file_ >= 0, Status::OUT_OF_MEMORY, "shared memory ", name,
         ": could not be opened: ", std::strerror(errno));
  segment.map();
  return segment;
}

Segment::~Segment() {
  if (data_ != nullptr)
    munmap(data_, static_cast<std::size_t>(bytes_));
  close_file();
}

void Segment::close_file() {
  if (file_ >= 0)
    close(std::exchange(file_, -1));
}

void Segment::map() {
  void* data =
      mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  expect(data != MAP_FAILED, Status::OUT_OF_MEMORY, "shared memory ", name_, ": ", bytes_,
         " bytes of addresses could not be mapped: ", std::strerror(errno));
  data_ = static_cast<std::byte*>(data);
}

void Segment::populate(std::int64_t begin, std::int64_t end) {
  if (end <= begin)
    return;
  int code = EINTR;
  while (code == EINTR) // a profiler's timer, say
    code = posix_fallocate(file_, begin, end - begin);
  expect(code == 0, Status::OUT_OF_MEMORY, "shared memory: ", end - begin,
         " bytes could not be taken from /dev/shm, which has ", free_shared_memory(), " free: ", std::strerror(code),
         " (OSTRAKA_BACKEND=mpi does without)");
}

void Segment::discard(std::int64_t begin, std::int64_t end) {
  if (end > begin)
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin);
}

void Segment::unlink() { shm_unlink(name_.c_str()); }

void Segment::swap(Segment& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
}

std::int64_t page() {
  static const std::int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

std::int64_t free_shared_memory() {
  struct statvfs info = {};
  if (statvfs("/dev/shm", &info) != 0)
    return 0;
  return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

namespace {

// Names as ranks exchange them.
struct Entry {
  std::int64_t bytes = 0;
  std::array<char, 64> name{};
};

template <class Body>
std::optional<Error> error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

} // namespace

void agree_on_memory(MPI_Comm group, const std::optional<Error>& error) {
  int rank = 0, size = 0;
  MPI_Comm_rank(group, &rank);
  MPI_Comm_size(group, &size);
  int first = error ? rank : size;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, group), "shared memory: agreement");
  if (first == size)
    return;
  std::array<char, 512> text{};
  if (first == rank)
    std::strncpy(text.data(), error->what(), text.size() - 1);
  check_mpi(MPI_Bcast(text.data(), text.size(), MPI_CHAR, first, group), "shared memory: agreement");
  fail(Status::OUT_OF_MEMORY, "rank ", first, " of the group: ", text.data());
}

std::vector<Segment> share(MPI_Comm group, std::int64_t bytes, std::int64_t populated) {
  int rank = 0, size = 0;
  MPI_Comm_rank(group, &rank);
  MPI_Comm_size(group, &size);
  std::vector<Segment> segments(static_cast<std::size_t>(size));
  Entry own;
  std::optional<Error> error = error_of([&] {
    if (bytes > 0)
      segments[static_cast<std::size_t>(rank)] = Segment::create(bytes);
  });
  own.bytes = error ? 0 : bytes;
  std::strncpy(own.name.data(), segments[static_cast<std::size_t>(rank)].name().c_str(), own.name.size() - 1);
  std::vector<Entry> entries(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&own, sizeof own, MPI_BYTE, entries.data(), sizeof own, MPI_BYTE, group),
            "shared memory: names");
  if (!error)
    error = error_of([&] {
      for (int peer = 0; peer < size; ++peer) {
        const Entry& entry = entries[static_cast<std::size_t>(peer)];
        if (peer != rank && entry.bytes > 0)
          segments[static_cast<std::size_t>(peer)] = Segment::open(entry.name.data(), entry.bytes);
      }
      segments[static_cast<std::size_t>(rank)].populate(0, populated);
    });
  try {
    agree_on_memory(group, error);
  } catch (...) {
    if (own.bytes > 0)
      segments[static_cast<std::size_t>(rank)].unlink();
    throw;
  }
  if (own.bytes > 0)
    segments[static_cast<std::size_t>(rank)].unlink();
  return segments;
}

Segment share_one(MPI_Comm group, std::int64_t bytes, std::int64_t populated) {
  int rank = 0;
  MPI_Comm_rank(group, &rank);
  return std::move(share(group, rank == 0 ? bytes : 0, rank == 0 ? populated : 0).front());
}

} // namespace ostraka::comm::node
