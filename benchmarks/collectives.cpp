// SPDX-License-Identifier: Apache-2.0
// What the library adds to MPI: operations of DBuffer with `out` given, on memory of the mesh, beside the same
// nonblocking MPI calls on the same buffers. Medians of interleaved samples; a sample is the slowest rank's time of one
// operation. usage: collectives [f32|f64] [LARGEST [SMALLEST]], in bytes

// ranks: 2
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace ostraka;
using buffer::DBuffer;
using layout::partial;
using layout::replicate;
using layout::shard;

namespace {

constexpr int num_samples = 9;
constexpr double least_sample_us = 200, least_miss_us = 2, least_miss = 0.05;
constexpr std::int64_t least_bytes = 1024, most_bytes = std::int64_t{1} << 28;
constexpr std::int64_t largest_checked = std::int64_t{1} << 20; ///< bytes; results of larger cases are not compared

/// One operation both ways on the same buffers.
struct Case {
  std::function<void()> raw, ours;
  std::function<void()> fill;        ///< inputs again, as in-place operations overwrite them
  std::span<const std::byte> result; ///< on this rank
};

struct Setting {
  MPI_Comm raw; ///< of its own, as every communicator of the library
  buffer::MeshPtr mesh;
  DType dtype;
  MPI_Datatype type;
  std::int64_t count; ///< elements of the whole, a multiple of ranks x ranks

  int ranks() const { return mesh->size(); }
  int part() const { return static_cast<int>(count / ranks()); }
  int whole() const { return static_cast<int>(count); }
  std::int64_t part_bytes() const { return part() * size_of(dtype); }
};

void wait(MPI_Request request) { MPI_Wait(&request, MPI_STATUS_IGNORE); }

// Small numbers that differ by rank and place: sums of them are exact.
void fill(const DBuffer& buffer) {
  const int rank = buffer.mesh()->rank();
  const auto set = [&](auto* values) {
    for (std::int64_t i = 0; i < buffer.numel(); ++i)
      values[i] = static_cast<std::remove_reference_t<decltype(*values)>>(i % 1000 + rank);
  };
  if (buffer.dtype() == DType::f64)
    set(static_cast<double*>(buffer.data()));
  else
    set(static_cast<float*>(buffer.data()));
}

DBuffer make(const Setting& s, layout::Placement placement, buffer::LayoutPtr layout = nullptr) {
  if (layout == nullptr)
    layout = std::make_shared<layout::GlobalLayout>(layout::build_flat({{s.count}}, s.ranks()));
  const DBuffer buffer(s.mesh, {placement}, std::move(layout), s.dtype);
  fill(buffer); // touches the memory
  return buffer;
}

Case make_case(std::vector<DBuffer> inputs, const DBuffer& result, std::function<void()> raw,
               std::function<void()> ours) {
  return {std::move(raw),
          std::move(ours),
          [inputs = std::move(inputs)] {
            for (const DBuffer& input : inputs)
              fill(input);
          },
          {static_cast<const std::byte*>(result.data()), static_cast<std::size_t>(result.bytes())}};
}

Case allgather(const Setting& s) {
  const DBuffer in = make(s, shard()), out = make(s, replicate());
  const auto raw = [=] {
    MPI_Request request;
    MPI_Iallgather(in.data(), s.part(), s.type, out.data(), s.part(), s.type, s.raw, &request);
    wait(request);
  };
  return make_case({in}, out, raw, [=] { in.allgather(0, &out); });
}

Case allgather_in_place(const Setting& s) {
  const DBuffer out = make(s, replicate()), in = out.view({shard()});
  const auto raw = [=] {
    MPI_Request request;
    MPI_Iallgather(MPI_IN_PLACE, s.part(), s.type, out.data(), s.part(), s.type, s.raw, &request);
    wait(request);
  };
  return make_case({out}, out, raw, [=] { in.allgather(0, &out); });
}

Case reduce_scatter(const Setting& s) {
  const DBuffer in = make(s, partial()), out = make(s, shard());
  const auto raw = [=] {
    MPI_Request request;
    MPI_Ireduce_scatter_block(in.data(), out.data(), s.part(), s.type, MPI_SUM, s.raw, &request);
    wait(request);
  };
  return make_case({in}, out, raw, [=] { in.reduce_scatter(0, &out); });
}

// MPI's own in-place form puts the result at the begin, so raw needs a scratch block, too.
Case reduce_scatter_in_place(const Setting& s) {
  const DBuffer in = make(s, partial()), out = in.view({shard()});
  const auto scratch = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(s.part_bytes()));
  const auto raw = [=] {
    MPI_Request request;
    MPI_Ireduce_scatter_block(in.data(), scratch->data(), s.part(), s.type, MPI_SUM, s.raw, &request);
    wait(request);
    std::memcpy(out.data(), scratch->data(), scratch->size());
  };
  return make_case({in}, out, raw, [=] { in.reduce_scatter(0, &out); });
}

Case allreduce(const Setting& s) {
  const DBuffer in = make(s, partial()), out = make(s, replicate());
  const auto raw = [=] {
    MPI_Request request;
    MPI_Iallreduce(in.data(), out.data(), s.whole(), s.type, MPI_SUM, s.raw, &request);
    wait(request);
  };
  return make_case({in}, out, raw, [=] { in.allreduce(0, &out); });
}

Case allreduce_in_place(const Setting& s) {
  const DBuffer in = make(s, partial()), out = in.view({replicate()});
  const auto raw = [=] {
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, out.data(), s.whole(), s.type, MPI_SUM, s.raw, &request);
    wait(request);
  };
  return make_case({in}, out, raw, [=] { in.allreduce(0, &out); });
}

// Ranks x ranks tensors, held in blocks before and in turn afterwards: one run of elements for each pair of ranks.
Case shard_to_shard(const Setting& s) {
  const int ranks = s.ranks();
  const std::vector<layout::Shape> shapes(static_cast<std::size_t>(ranks * ranks), {s.count / ranks / ranks});
  std::vector<int> before, after;
  for (int tensor = 0; tensor < ranks * ranks; ++tensor) {
    before.push_back(tensor / ranks);
    after.push_back(tensor % ranks);
  }
  const auto layout_of = [&](const std::vector<int>& owners) {
    return std::make_shared<layout::GlobalLayout>(layout::build_tensor_atomic(shapes, ranks, owners));
  };
  const DBuffer in = make(s, shard(), layout_of(before)), out = make(s, shard(), layout_of(after));
  const std::vector<int> counts(static_cast<std::size_t>(ranks), s.part() / ranks);
  std::vector<int> offsets;
  for (int rank = 0; rank < ranks; ++rank)
    offsets.push_back(rank * counts[0]);
  const auto raw = [=] {
    MPI_Request request;
    MPI_Ialltoallv(in.data(), counts.data(), offsets.data(), s.type, out.data(), counts.data(), offsets.data(), s.type,
                   s.raw, &request);
    wait(request);
  };
  return make_case({in}, out, raw, [=] { in.redistribute_into(out); });
}

double slowest(double value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return value;
}

/// Microseconds of one operation.
double sample(const std::function<void()>& operation, int repeats) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < repeats; ++i)
    operation();
  return slowest(1e6 * (MPI_Wtime() - start) / repeats);
}

// So many that a sample is long beside the clock and the barrier; the quickest of three, as a disturbance only slows.
int choose_repeats(const std::function<void()>& operation) {
  for (int repeats = 1;; repeats *= 2) {
    double best = sample(operation, repeats);
    for (int i = 0; i < 2; ++i)
      best = std::min(best, sample(operation, repeats));
    if (best * repeats >= least_sample_us)
      return repeats;
  }
}

double median(std::array<double, num_samples> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[num_samples / 2];
}

void check_results(const char* name, const Case& which) {
  which.fill();
  which.ours();
  const std::vector<std::byte> ours(which.result.begin(), which.result.end());
  which.fill();
  which.raw();
  if (std::equal(ours.begin(), ours.end(), which.result.begin()))
    return;
  std::fprintf(stderr, "%s: results of the library and of MPI differ\n", name);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/// Prints a row; whether the library misses its target.
bool compare(const char* name, const Case& which, std::int64_t bytes, bool prints) {
  if (bytes <= largest_checked)
    check_results(name, which);
  which.raw();
  which.ours();
  const int repeats = choose_repeats(which.raw);
  std::array<double, num_samples> raw, ours;
  for (int i = 0; i < num_samples; ++i) {
    if (i % 2 == 0)
      raw[i] = sample(which.raw, repeats);
    ours[i] = sample(which.ours, repeats);
    if (i % 2 == 1)
      raw[i] = sample(which.raw, repeats);
  }
  const double base = median(raw), time = median(ours);
  const bool misses = time > base * (1 + least_miss) + least_miss_us;
  if (prints) {
    std::printf("%-24s %11lld %11.2f %11.2f %10.2f %7.2f%s\n", name, static_cast<long long>(bytes), base, time,
                time - base, time / base, misses ? "  misses its target" : "");
    std::fflush(stdout);
  }
  return misses;
}

struct Operation {
  const char* name;
  Case (*make)(const Setting&);
};

constexpr Operation operations[] = {
    {"allgather", allgather},           {"allgather in place", allgather_in_place},
    {"reduce-scatter", reduce_scatter}, {"reduce-scatter in place", reduce_scatter_in_place},
    {"allreduce", allreduce},           {"allreduce in place", allreduce_in_place},
    {"shard to shard", shard_to_shard}};

void run(DType dtype, std::int64_t smallest, std::int64_t largest) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char library[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(library, &length);
  if (rank == 0)
    std::printf("%d ranks, %s, %.40s\n%-24s %11s %11s %11s %10s %7s\n", ranks, name(dtype),
                std::string(library, std::strcspn(library, ",\n")).c_str(), "operation", "bytes", "raw us", "ours us",
                "added us", "ratio");
  int misses = 0;
  for (const Operation& operation : operations) {
    // A mesh each: memory of the one before goes back.
    Setting setting{MPI_COMM_NULL, mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks}), dtype,
                    dtype == DType::f64 ? MPI_DOUBLE : MPI_FLOAT, 0};
    MPI_Comm_dup(MPI_COMM_WORLD, &setting.raw);
    for (std::int64_t bytes = smallest; bytes <= largest; bytes *= 4) {
      setting.count = bytes / size_of(dtype) / ranks / ranks * ranks * ranks;
      misses += compare(operation.name, operation.make(setting), setting.count * size_of(dtype), rank == 0);
    }
    MPI_Comm_free(&setting.raw);
  }
  if (rank == 0)
    std::printf("%d miss their target: more than %.0f us + %.0f %% above raw\n", misses, least_miss_us,
                100 * least_miss);
}

} // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  const std::string type = argc > 1 ? argv[1] : "f32";
  const std::int64_t largest = argc > 2 ? std::strtoll(argv[2], nullptr, 10) : most_bytes;
  const std::int64_t smallest = argc > 3 ? std::strtoll(argv[3], nullptr, 10) : least_bytes;
  const bool is_usable =
      (type == "f32" || type == "f64") && smallest >= least_bytes && largest >= smallest && largest <= most_bytes;
  if (is_usable) {
    const runtime::Session session;
    run(type == "f64" ? DType::f64 : DType::f32, smallest, largest);
  } else {
    std::fprintf(stderr, "usage: collectives [f32|f64] [LARGEST [SMALLEST]], bytes from %lld to %lld\n",
                 static_cast<long long>(least_bytes), static_cast<long long>(most_bytes));
  }
  MPI_Finalize();
  return is_usable ? 0 : 2;
}
