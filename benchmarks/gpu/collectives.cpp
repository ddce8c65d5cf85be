// SPDX-License-Identifier: Apache-2.0
// Operations of DBuffer on GPUs beside raw NCCL on the same memory, and kernels beside copies of the device. Medians of
// interleaved rounds; a sample is the slowest rank's time of one operation that is complete for the host.
// usage: collectives [LARGEST [SMALLEST]], in bytes of the whole; one rank per GPU
#include <ostraka/base/error.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/mesh/device_mesh.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

using namespace ostraka;
using buffer::DBuffer;

namespace {

constexpr int rounds = 15, repeats = 10;
int rank = 0, ranks = 1;

void check(bool holds, const char* what) { expect(holds, Status::FAILED, what, " failed"); }

double seconds_of(const std::function<void()>& operation) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int k = 0; k < repeats; ++k)
    operation();
  double own = (MPI_Wtime() - start) / repeats, slowest = own;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// Medians of both, measured in turn, after a round that does not count.
std::pair<double, double> compare(const std::function<void()>& ours, const std::function<void()>& raw) {
  std::vector<double> first, second;
  for (int round = 0; round <= rounds; ++round) {
    const double a = seconds_of(ours), b = seconds_of(raw);
    if (round > 0)
      first.push_back(a), second.push_back(b);
  }
  return {median(first), median(second)};
}

void print(const char* what, double bytes, double moved, std::pair<double, double> seconds) {
  if (rank == 0)
    std::printf("%-28s %10.0f KiB  ours %9.1f us %8.1f GB/s  raw %9.1f us %8.1f GB/s  ratio %.2f\n", what, bytes / 1024,
                1e6 * seconds.first, moved / seconds.first / 1e9, 1e6 * seconds.second, moved / seconds.second / 1e9,
                seconds.second / seconds.first);
}

/// NCCL by itself, blocking, on a stream of its own.
class Raw {
public:
  Raw() {
    ncclUniqueId id{};
    if (rank == 0)
      check(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    check(ncclCommInitRank(&comm_, ranks, id, rank) == ncclSuccess, "ncclCommInitRank");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess, "cudaStreamCreate");
  }
  ~Raw() {
    ncclCommDestroy(comm_);
    cudaStreamDestroy(stream_);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  template <class Call>
  void run(Call&& call) const {
    call(comm_, stream_);
    check(cudaStreamSynchronize(stream_) == cudaSuccess, "cudaStreamSynchronize");
  }

private:
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

DBuffer make(const buffer::MeshPtr& mesh, layout::Placement placement, std::int64_t count, DType dtype,
             bool symmetric) {
  buffer::Allocation allocation;
  allocation.symmetric = symmetric;
  const auto layout =
      std::make_shared<const layout::GlobalLayout>(layout::build_planned({{count}}, ranks, {16, 128}, {}));
  const DBuffer made(mesh, {placement}, layout, dtype, allocation);
  made.rendezvous(0);
  return made;
}

// Bus bandwidth as nccl-tests count it.
void compare_collectives(const buffer::MeshPtr& mesh, const Raw& raw, std::int64_t bytes, bool symmetric) {
  const std::int64_t count = bytes / 4;
  const DBuffer own = make(mesh, layout::shard(), count, DType::f32, symmetric),
                whole = make(mesh, layout::replicate(), count, DType::f32, symmetric),
                partial = make(mesh, layout::partial(), count, DType::f32, symmetric);
  const auto size = static_cast<std::size_t>(whole.numel()), part = static_cast<std::size_t>(own.numel());
  const double all = static_cast<double>(whole.bytes()), moved = ranks > 1 ? all * (ranks - 1) / ranks : all;
  const char* const kind = symmetric ? " (registered)" : "";
  const auto name = [&](const char* operation) { return std::string(operation) + kind; };
  print(name("all-gather").c_str(), all, moved,
        compare([&] { own.allgather(0, &whole); },
                [&] {
                  raw.run([&](ncclComm_t comm, cudaStream_t stream) {
                    ncclAllGather(own.data(), whole.data(), part, ncclFloat32, comm, stream);
                  });
                }));
  print(name("reduce-scatter").c_str(), all, moved,
        compare([&] { partial.reduce_scatter(0, &own); },
                [&] {
                  raw.run([&](ncclComm_t comm, cudaStream_t stream) {
                    ncclReduceScatter(partial.data(), own.data(), part, ncclFloat32, ncclSum, comm, stream);
                  });
                }));
  print(name("all-reduce").c_str(), all, 2 * moved,
        compare([&] { partial.allreduce(0, &whole); },
                [&] {
                  raw.run([&](ncclComm_t comm, cudaStream_t stream) {
                    ncclAllReduce(partial.data(), whole.data(), size, ncclFloat32, ncclSum, comm, stream);
                  });
                }));
}

// Bytes read and written, beside a copy of as many.
void compare_kernels(const buffer::MeshPtr& mesh, std::int64_t bytes) {
  const std::int64_t count = bytes / 4;
  const DBuffer from = make(mesh, layout::replicate(), count, DType::f32, false),
                to = make(mesh, layout::replicate(), count, DType::bf16, false);
  const double moved = 1.5 * static_cast<double>(from.bytes());
  print("kernel f32 -> bf16", static_cast<double>(from.bytes()), moved,
        compare([&] { from.cast(DType::bf16, &to); },
                [&] {
                  runtime::copy_now(runtime::Device::cuda, from.data(),
                                    static_cast<std::byte*>(from.data()) + from.bytes() / 2, from.bytes() / 2);
                  runtime::copy_now(runtime::Device::cuda, from.data(), to.data(), from.bytes() / 4);
                }));
}

} // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::int64_t largest = argc > 1 ? std::atoll(argv[1]) : std::int64_t{1} << 30;
  const std::int64_t smallest = argc > 2 ? std::atoll(argv[2]) : std::int64_t{1} << 16;
  {
    const runtime::Session session;
    const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks}, {}, runtime::Device::cuda);
    const Raw raw;
    for (std::int64_t bytes = smallest; bytes <= largest; bytes *= 16) {
      compare_collectives(mesh, raw, bytes, false);
      if (mesh->symmetric_arena()->is_symmetric())
        compare_collectives(mesh, raw, bytes, true);
      compare_kernels(mesh, bytes);
    }
  }
  MPI_Finalize();
  return 0;
}
