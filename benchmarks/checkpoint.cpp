// SPDX-License-Identifier: Apache-2.0
// Save and load beside sequential writes and reads of the same bytes by the same ranks in the same run: into one file,
// every rank its share. Medians of interleaved rounds; a sample is the time until the last rank is done. Reads find the
// file in the page cache. The peak is what a rank needs above its shards in its first save.
// usage: checkpoint [MEBIBYTES [FOLDER [ROUNDS]]]

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
#include <string>
#include <vector>

using namespace ostraka;

namespace {

constexpr std::int64_t mib = 1 << 20;
constexpr double target = 0.8;           // of the rate of plain writes and reads
constexpr std::int64_t peak_target = 64; // MiB
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
  std::vector<double> seconds = {};
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
    if (row.reference >= 0) {
      std::vector<double> shares;
      for (std::size_t k = 0; k < row.seconds.size(); ++k)
        shares.push_back(rows[row.reference].seconds[k] / row.seconds[k]);
      std::printf(" %8.0f%%%s", 100 * median(shares), median(shares) < target ? "  below 80 %" : "");
    }
    std::printf("\n");
  }
}

void run(std::int64_t mebibytes, const std::string& folder, int rounds) {
  checkpoint::Content content = make_content(mebibytes);
  const buffer::DBuffer weight = content.states[0].main_weight;
  auto* data = static_cast<std::byte*>(weight.data());
  const std::int64_t bytes = weight.bytes();
  const std::string ours = folder + "/bench-checkpoint.h5", theirs = folder + "/bench-checkpoint.raw";
  std::vector<Row> rows{
      {"plain write", theirs, After::remove, [&] { plain(theirs, data, bytes, true, false); }},
      {"save, no sync", ours, After::remove, [&] { checkpoint::save(ours, content, {.sync = false}); }, 0},
      {"plain write and sync", theirs, After::keep, [&] { plain(theirs, data, bytes, true, true); }},
      {"save", ours, After::keep, [&] { checkpoint::save(ours, content); }, 2},
      {"plain read", {}, After::keep, [&] { plain(theirs, data, bytes, false, false); }},
      {"load", {}, After::keep, [&] { checkpoint::load(ours, content); }, 4},
      {"load, no verification", {}, After::keep, [&] { checkpoint::load(ours, content, {.verify = false}); }, 4},
  };
  const double peak = peak_of([&] { checkpoint::save(ours, content); }); // first: later ones find room that is there
  for (int round = 0; round < rounds; ++round)
    for (Row& row : rows) {
      if (rank == 0)
        std::filesystem::remove(row.creates);
      row.seconds.push_back(time_of(row.operation));
      if (rank == 0 && row.after == After::remove)
        std::filesystem::remove(row.creates);
    }
  double start = 0, staging = 0;
  const double whole = time_of([&] {
    const double begin = MPI_Wtime();
    const auto in_flight = checkpoint::AsyncSave::start(ours, content);
    start = MPI_Wtime() - begin;
    staging = static_cast<double>(in_flight->staging_bytes()) / mib;
    in_flight->wait();
  });
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0)
    return;
  std::printf("%lld MiB on %d ranks, %d rounds, in %s\n", static_cast<long long>(bytes * ranks / mib), ranks, rounds,
              folder.c_str());
  print(rows, static_cast<double>(bytes) * ranks / mib / 1024);
  std::printf("save: peak above the shards %.1f MiB a rank (target %lld)%s\n", peak,
              static_cast<long long>(peak_target), peak > peak_target ? ": MISSED" : "");
  std::printf("asynchronous save: start %.3f s (copies %.0f MiB a rank), complete after %.3f s\n", start, staging,
              whole);
  std::filesystem::remove(ours);
  std::filesystem::remove(theirs);
}

} // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
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
    run(mebibytes, folder, rounds);
  }
  MPI_Finalize();
  return 0;
}
