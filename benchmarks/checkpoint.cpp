// SPDX-License-Identifier: Apache-2.0
// Save and load beside sequential writes and reads of the same bytes by the same ranks in the same run: into one file,
// every rank its share. Medians of interleaved rounds; a sample is the time until the last rank is done. Reads find the
// file in the page cache. The start of an asynchronous save stands beside copies of the same bytes. The peak is what a
// rank needs above its shards in its first save. Rows that miss their target are measured again, longer; the exit
// status is 1 when they still do. usage: checkpoint [MEBIBYTES [FOLDER [ROUNDS]]]

// ranks: 2
#include <ostraka/checkpoint/checkpoint.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/mesh/device_mesh.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace ostraka;

namespace {

constexpr std::int64_t mib = 1 << 20;
constexpr double target = 0.8;           // of the rate of plain writes and reads
constexpr std::int64_t peak_target = 64; // MiB
constexpr int more_rounds = 3;           // times as many, where a row missed
int rank = 0, ranks = 1;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "checkpoint: rank %d: %s: %s\n", rank, what.c_str(), std::strerror(errno));
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds until the last rank is done.
double time_of(const std::function<void()>& operation) {
  MPI_Barrier(MPI_COMM_WORLD);
  double seconds = -MPI_Wtime();
  operation();
  seconds += MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

/// Sequential calls of 8 MiB on this rank's share of a file.
void plain(const std::string& path, std::byte* data, std::int64_t bytes, bool writes, bool syncs) {
  const int file = open(path.c_str(), writes ? O_WRONLY | O_CREAT : O_RDONLY, 0666);
  if (file < 0)
    give_up(path);
  for (std::int64_t at = 0; at < bytes;) {
    const auto count = static_cast<std::size_t>(std::min(8 * mib, bytes - at));
    const off_t offset = rank * bytes + at;
    const ssize_t moved = writes ? pwrite(file, data + at, count, offset) : pread(file, data + at, count, offset);
    if (moved <= 0)
      give_up(path);
    at += moved;
  }
  if (syncs && fsync(file) != 0)
    give_up(path);
  close(file);
}

std::int64_t status_kib(const char* key) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (word == key) {
      std::int64_t value = 0;
      file >> value;
      return value;
    }
  return 0;
}

/// The largest growth of a rank's memory during `operation`, MiB.
double peak_of(const std::function<void()>& operation) {
  std::ofstream("/proc/self/clear_refs") << "5"; // the peak starts anew
  const std::int64_t before = status_kib("VmRSS:");
  operation();
  auto growth = static_cast<double>(status_kib("VmHWM:") - before) / 1024;
  MPI_Allreduce(MPI_IN_PLACE, &growth, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return growth;
}

enum class After { keep, remove }; ///< what is not removed would be written behind the next samples

struct Row {
  const char* name;
  std::string creates; ///< a file that is not there before; empty: none
  After after;
  std::function<void()> operation;
  int reference = -1; ///< the row whose rate counts
  bool has_target = false;
  std::function<void()> end = {}; ///< of every sample, not measured
  std::vector<double> seconds = {};
};

/// The rate of a row beside that of its reference: the median over the rounds.
double share_of(const std::vector<Row>& rows, const Row& row) {
  std::vector<double> shares;
  for (std::size_t k = 0; k < row.seconds.size(); ++k)
    shares.push_back(rows[static_cast<std::size_t>(row.reference)].seconds[k] / row.seconds[k]);
  return median(shares);
}

/// The same on all ranks, as the times are.
bool misses(const std::vector<Row>& rows, const Row& row) { return row.has_target && share_of(rows, row) < target; }

void measure(std::vector<Row>& rows, int rounds) {
  for (Row& row : rows)
    row.seconds.clear();
  for (int round = 0; round < rounds; ++round)
    for (Row& row : rows) {
      if (rank == 0)
        std::filesystem::remove(row.creates);
      row.seconds.push_back(time_of(row.operation));
      if (row.end)
        row.end();
      if (rank == 0 && row.after == After::remove)
        std::filesystem::remove(row.creates);
    }
}

/// Copies into memory that is new every time, or not.
class Copies {
public:
  Copies(const std::byte* data, std::int64_t bytes) : data_(data), bytes_(static_cast<std::size_t>(bytes)) {}
  ~Copies() { free(); }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  void copy() {
    if (memory_ == nullptr)
      memory_ = std::malloc(bytes_);
    if (memory_ == nullptr)
      give_up("memory for a copy");
    std::memcpy(memory_, data_, bytes_);
  }
  void free() {
    std::free(memory_);
    memory_ = nullptr;
  }

private:
  const std::byte* data_;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

checkpoint::Content make_content(std::int64_t mebibytes) {
  const auto mesh = mesh::DeviceMesh::create_line(MPI_COMM_WORLD);
  std::vector<layout::Shape> shapes(16, {mebibytes / 16, mib / 4}); // f32
  buffer::NamedState state;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    state.tensor_names.push_back("layer" + std::to_string(i) + ".weight");
  const auto layout = std::make_shared<layout::GlobalLayout>(layout::build_flat(std::move(shapes), ranks));
  state.main_weight = buffer::DBuffer(mesh, {layout::shard()}, layout, DType::f32);
  auto* values = static_cast<float*>(state.main_weight.data());
  for (std::int64_t k = 0; k < state.main_weight.numel(); ++k)
    values[k] = static_cast<float>(k % 1000003);
  checkpoint::Content content;
  content.states.push_back(std::move(state));
  return content;
}

void print(const std::vector<Row>& rows, double gib) {
  std::printf("%-24s %9s %9s %9s\n", "", "s", "GiB/s", "of plain");
  for (const Row& row : rows) {
    const double seconds = median(row.seconds);
    std::printf("%-24s %9.3f %9.2f", row.name, seconds, gib / seconds);
    if (row.reference >= 0)
      std::printf(" %8.0f%%%s", 100 * share_of(rows, row), misses(rows, row) ? "  misses its target" : "");
    std::printf("\n");
  }
}

/// Whether all targets are met, on all ranks.
bool run(std::int64_t mebibytes, const std::string& folder, int rounds) {
  checkpoint::Content content = make_content(mebibytes);
  const buffer::DBuffer weight = content.states[0].main_weight;
  auto* data = static_cast<std::byte*>(weight.data());
  const std::int64_t bytes = weight.bytes();
  const std::string ours = folder + "/bench-checkpoint.h5", theirs = folder + "/bench-checkpoint.raw";
  Copies to_new(data, bytes), to_old(data, bytes);
  std::unique_ptr<checkpoint::AsyncSave> in_flight;
  std::vector<Row> rows{
      {"plain write", theirs, After::remove, [&] { plain(theirs, data, bytes, true, false); }},
      {"save, no sync", ours, After::remove, [&] { checkpoint::save(ours, content, {.sync = false}); }, 0, true},
      {"plain write and sync", theirs, After::keep, [&] { plain(theirs, data, bytes, true, true); }},
      {"save", ours, After::keep, [&] { checkpoint::save(ours, content); }, 2, true},
      {"plain read", {}, After::keep, [&] { plain(theirs, data, bytes, false, false); }},
      {"load", {}, After::keep, [&] { checkpoint::load(ours, content); }, 4, true},
      {"load, no verification", {}, After::keep, [&] { checkpoint::load(ours, content, {.verify = false}); }, 4, true},
      {"copy to new memory", {}, After::keep, [&] { to_new.copy(); }, -1, false, [&] { to_new.free(); }},
      {"copy to used memory", {}, After::keep, [&] { to_old.copy(); }},
      {"asynchronous: start", ours, After::keep, [&] { in_flight = checkpoint::AsyncSave::start(ours, content); }, 7,
       false, [&] { in_flight->wait(); }},
  };
  const double peak = peak_of([&] { checkpoint::save(ours, content); }); // first: later ones find room that is there
  measure(rows, rounds);
  if (std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return misses(rows, row); }))
    measure(rows, rounds = more_rounds * rounds);
  const double whole = time_of([&] { checkpoint::AsyncSave::start(ours, content)->wait(); });
  const bool meets_all = peak <= static_cast<double>(peak_target) &&
                         std::none_of(rows.begin(), rows.end(), [&](const Row& row) { return misses(rows, row); });
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0)
    return meets_all;
  std::printf("%lld MiB on %d ranks, %d rounds, in %s\n", static_cast<long long>(bytes * ranks / mib), ranks, rounds,
              folder.c_str());
  print(rows, static_cast<double>(bytes) * ranks / mib / 1024);
  std::printf("save: peak above the shards %.1f MiB a rank (target %lld)%s\n", peak,
              static_cast<long long>(peak_target), peak > peak_target ? "  misses its target" : "");
  std::printf("asynchronous save: copies %.0f MiB a rank, starts within %.3f s, is complete after %.3f s\n",
              static_cast<double>(in_flight->staging_bytes()) / mib,
              *std::max_element(rows.back().seconds.begin(), rows.back().seconds.end()), whole);
  std::filesystem::remove(ours);
  std::filesystem::remove(theirs);
  return meets_all;
}

} // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  bool meets_all = true;
  {
    const runtime::Session session;
    const std::int64_t mebibytes = argc > 1 ? std::atoll(argv[1]) : 1024;
    const std::string folder = argc > 2 ? argv[2] : std::filesystem::temp_directory_path().string();
    const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
    if (mebibytes < 16 || rounds < 1) {
      if (rank == 0)
        std::fprintf(stderr, "usage: checkpoint [MEBIBYTES [FOLDER [ROUNDS]]], from 16 MiB on\n");
      MPI_Finalize();
      return 2;
    }
    meets_all = run(mebibytes, folder, rounds);
  }
  MPI_Finalize();
  return meets_all ? 0 : 1;
}
