// SPDX-License-Identifier: Apache-2.0
// Communicators for memory of GPUs, on the double of CUDA and NCCL: which calls they make, on which streams, and what
// happens where ranks do not do the same.
#include "support/any_memory.hpp"
#include "support/double/double.hpp"
#include "support/expect_error.hpp"
#include "support/scoped_environment.hpp"
#include "support/world.hpp"
#include <ostraka/comm/mpi/mpi_communicator.hpp>
#include <ostraka/comm/nccl/nccl_communicator.hpp>
#include <ostraka/comm/staged/staged_communicator.hpp>
#include <ostraka/mesh/device_mesh.hpp>
#include <ostraka/runtime/progress.hpp>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace ostraka::comm::test {
namespace {

using namespace ostraka::test;
using cuda_double::Call;
using layout::ReduceOp;
using layout::Segments;
using runtime::Device;

std::shared_ptr<memory::Arena> arena() {
  static const auto shared = memory::make_device_arena();
  return shared;
}

std::shared_ptr<Communicator> host_group() {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  return make_mpi_communicator(copy, "host", {});
}

std::shared_ptr<Communicator> nccl_group(bool checks = false) {
  return make_nccl_communicator(host_group(), "line", arena(), checks);
}

Operand operand(const std::vector<double>& values, DType dtype) {
  const std::vector<std::byte> bytes = encode(values, dtype);
  const auto size = static_cast<std::int64_t>(bytes.size());
  Operand result{std::make_shared<memory::Storage>(arena(), std::max<std::int64_t>(size, 1), memory::Kind::other), 0};
  write_at(result.data(), bytes.data(), size);
  return result;
}

std::vector<double> values(const Operand& operand, std::int64_t count, DType dtype) {
  return elements(bytes_at(operand.data(), count * width_of(dtype)).data(), count, dtype);
}

std::vector<double> filled(std::int64_t count, double value) {
  return std::vector<double>(static_cast<std::size_t>(count), value);
}

std::vector<std::string> names(const std::vector<Call>& calls) {
  std::vector<std::string> result;
  for (const Call& call : calls)
    result.push_back(call.name);
  return result;
}

double sum_of_ranks() { return ranks * (ranks + 1) / 2.0; }

/// body(communicator, stream) for NCCL, with comparisons, and staged.
template <class Body>
void for_all_kinds(Body&& body) {
  const auto stream = runtime::make_queue(Device::cuda, "data");
  const std::pair<const char*, std::shared_ptr<Communicator>> kinds[] = {
      {"nccl", nccl_group()},
      {"checked", nccl_group(true)},
      {"staged", make_staged_communicator(host_group(), "staged")}};
  for (const auto& [kind, group] : kinds) {
    SCOPED_TRACE(kind);
    body(*group, *stream);
  }
}

Segments unequal() {
  Segments pieces;
  for (int k = 0; k < ranks; ++k)
    pieces.append(1, 3 * ((k + 1) % ranks));
  return pieces;
}

TEST(DeviceMemory, EveryReductionOfEveryType) {
  for_all_kinds([](Communicator& group, runtime::Stream& stream) {
    for (const DType dtype : all_types)
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min, ReduceOp::prod}) {
        if (op == ReduceOp::mean && !is_floating(dtype))
          continue;
        SCOPED_TRACE(std::string(layout::name(op)) + " of " + name(dtype));
        double expected = op == ReduceOp::max ? ranks : op == ReduceOp::min ? 1 : sum_of_ranks();
        if (op == ReduceOp::mean)
          expected /= ranks;
        if (op == ReduceOp::prod)
          expected = std::tgamma(ranks + 1);
        for (const Segments& pieces : {Segments::equal(ranks, 5), unequal()}) {
          const std::int64_t own = pieces.range(rank).size();
          const Operand in = operand(filled(pieces.size(), rank + 1), dtype), out = operand(filled(own, 99), dtype);
          group.reduce_scatter(stream, in, out, pieces, dtype, op);
          const Operand place{in.storage, pieces.begin(rank) * width_of(dtype)};
          const Operand again = operand(filled(pieces.size(), rank + 1), dtype);
          group.allreduce(stream, again, pieces.size(), dtype, op);
          runtime::synchronize(stream.record(), "reductions");
          EXPECT_EQ(values(out, own, dtype), filled(own, expected));
          EXPECT_EQ(values(in, pieces.size(), dtype), filled(pieces.size(), rank + 1));
          EXPECT_EQ(values(again, pieces.size(), dtype), filled(pieces.size(), expected));
          group.reduce_scatter(stream, in, place, pieces, dtype, op); // in place
          runtime::synchronize(stream.record(), "reduction");
          EXPECT_EQ(values(place, own, dtype), filled(own, expected));
        }
      }
  });
}

TEST(DeviceMemory, MovesData) {
  for_all_kinds([](Communicator& group, runtime::Stream& stream) {
    for (const DType dtype : all_types)
      for (const Segments& pieces : {Segments::equal(ranks, 5), unequal()}) {
        const std::int64_t own = pieces.range(rank).size();
        const Operand out = operand(filled(pieces.size(), 99), dtype);
        group.allgather(stream, operand(filled(own, rank), dtype), out, pieces, dtype);
        const Operand data = operand(filled(4, rank), dtype);
        group.broadcast(stream, data, 4 * width_of(dtype), ranks - 1);
        runtime::synchronize(stream.record(), "gather");
        std::vector<double> expected;
        for (int k = 0; k < ranks; ++k)
          for (std::int64_t i = 0; i < pieces.range(k).size(); ++i)
            expected.push_back(k);
        EXPECT_EQ(values(out, pieces.size(), dtype), expected);
        EXPECT_EQ(values(data, 4, dtype), filled(4, ranks - 1));
      }
  });
}

// Two runs to every rank, cut differently there.
TEST(DeviceMemory, ExchangesRuns) {
  for_all_kinds([](Communicator& group, runtime::Stream& stream) {
    std::vector<double> own;
    std::vector<Transfer> sends, receives;
    for (int peer = 0; peer < ranks; ++peer) {
      for (int k = 0; k < 6; ++k)
        own.push_back(100 * rank + 10 * peer + k);
      sends.push_back({peer, 6 * peer, 2});
      sends.push_back({peer, 6 * peer + 3, 3});
      receives.push_back({peer, 6 * peer + 1, 4});
      receives.push_back({peer, 6 * peer, 1});
    }
    const Operand out = operand(filled(6 * ranks, -1), DType::f64);
    group.exchange(stream, operand(own, DType::f64), sends, out, receives, DType::f64, 0);
    runtime::synchronize(stream.record(), "exchange");
    std::vector<double> expected;
    for (int peer = 0; peer < ranks; ++peer) {
      const double base = 100 * peer + 10 * rank;
      for (const double value : {base + 5, base, base + 1, base + 3, base + 4, -1.0})
        expected.push_back(value);
    }
    EXPECT_EQ(values(out, 6 * ranks, DType::f64), expected);
  });
}

TEST(DeviceMemory, ExtremesAreNanWhereAnElementIs) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for_all_kinds([&](Communicator& group, runtime::Stream& stream) {
    for (const DType dtype : floating_types)
      for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
        const double far = op == ReduceOp::max ? -1000.0 * (rank + 1) : 1000.0 * (rank + 1);
        const Operand data = operand({rank == ranks - 1 ? nan : 1.0, far, -0.5 * rank}, dtype);
        group.allreduce(stream, data, 3, dtype, op);
        runtime::synchronize(stream.record(), "extremes");
        const std::vector<double> found = values(data, 3, dtype);
        EXPECT_TRUE(std::isnan(found[0]));
        EXPECT_EQ(found[1], op == ReduceOp::max ? -1000 : 1000);
        EXPECT_EQ(found[2], op == ReduceOp::max ? 0 : -0.5 * (ranks - 1));
      }
  });
}

TEST(DeviceMemory, ConsumersGetTheStream) {
  for_all_kinds([](Communicator& group, runtime::Stream& stream) {
    const Operand in = operand(filled(3 * ranks, rank + 1), DType::f64), out = operand(filled(3, 0), DType::f64),
                  copy = operand(filled(3, 0), DType::f64);
    group.reduce_scatter(
        stream, in, out, Segments::equal(ranks, 3), DType::f64, ReduceOp::sum,
        [&](const runtime::Execution& execution, std::int64_t first, std::int64_t count, const void* found) {
          EXPECT_EQ(first, 0);
          runtime::copy(execution, found, copy.data(), 8 * count);
        });
    runtime::synchronize(stream.record(), "reduction");
    EXPECT_EQ(values(copy, 3, DType::f64), filled(3, sum_of_ranks()));
  });
}

// Conversions of one operation use the scratch of the one before it, on whatever stream that was.
TEST(Nccl, OperationsOnTwoStreams) {
  const auto group = nccl_group();
  const auto a = runtime::make_queue(Device::cuda, "a"), b = runtime::make_queue(Device::cuda, "b");
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::vector<Operand> data;
    for (int k = 0; k < 6; ++k) {
      data.push_back(operand(filled(50, rank + 1 + k), DType::bf16));
      group->allreduce(k % 2 == 0 ? *a : *b, data.back(), 50, DType::bf16, ReduceOp::sum);
    }
    runtime::synchronize(a->record(), "a");
    runtime::synchronize(b->record(), "b");
    for (int k = 0; k < 6; ++k)
      EXPECT_EQ(values(data[static_cast<std::size_t>(k)], 50, DType::bf16), filled(50, sum_of_ranks() + k * ranks));
  }
}

TEST(Nccl, CallsOfEveryOperation) {
  const auto group = nccl_group();
  const auto stream = runtime::make_queue(Device::cuda, "data");
  const Operand in = operand(filled(5 * ranks, 1), DType::bf16), out = operand(filled(5 * ranks, 1), DType::bf16);
  const auto calls_of = [&](auto&& action) {
    cuda_double::take_calls();
    action();
    runtime::synchronize(stream->record(), "operation");
    return cuda_double::take_calls();
  };
  const auto gather = calls_of([&] { group->allgather(*stream, in, out, Segments::equal(ranks, 5), DType::bf16); });
  ASSERT_EQ(names(gather), std::vector<std::string>{"ncclAllGather"});
  EXPECT_EQ(gather[0].count, 5);
  EXPECT_EQ(gather[0].communicator, "line");
  const auto reduce =
      calls_of([&] { group->reduce_scatter(*stream, in, out, Segments::equal(ranks, 5), DType::bf16, ReduceOp::sum); });
  ASSERT_EQ(names(reduce), std::vector<std::string>{"ncclReduceScatter"});
  constexpr int f32 = 7; // ncclFloat32
  EXPECT_EQ(reduce[0].dtype, f32);
  Segments pieces; // one of them empty
  for (int k = 0; k < ranks; ++k)
    pieces.append(1, k);
  const auto uneven = calls_of([&] { group->allgather(*stream, in, out, pieces, DType::bf16); });
  EXPECT_EQ(names(uneven), std::vector<std::string>(static_cast<std::size_t>(ranks - 1), "ncclBroadcast"));
  for (const Call& call : uneven)
    EXPECT_EQ(call.launch, uneven.front().launch);
  EXPECT_TRUE(calls_of([&] { group->allgather(*stream, in, out, Segments::equal(ranks, 0), DType::f64); }).empty());
}

TEST(Nccl, AGroupIsOneLaunch) {
  for (const bool checks : {false, true}) { // which compare one after the other
    const auto group = nccl_group(checks);
    const auto stream = runtime::make_queue(Device::cuda, "data");
    cuda_double::take_calls();
    std::vector<Operand> data;
    {
      Group together(*group, *stream);
      for (const DType dtype : {DType::f64, DType::bf16, DType::f32}) {
        data.push_back(operand(filled(40, rank + 1), dtype));
        group->allreduce(*stream, data.back(), 40, dtype, ReduceOp::mean);
      }
      if (!checks) {
        const auto ignore = [](const runtime::Execution&, std::int64_t, std::int64_t, const void*) {};
        const Operand whole = operand(filled(ranks, 1), DType::f64), own = operand({1}, DType::f64);
        expect_error(Status::NOT_SUPPORTED,
                     [&] {
                       group->reduce_scatter(*stream, whole, own, Segments::equal(ranks, 1), DType::f64, ReduceOp::sum,
                                             ignore);
                     },
                     {"consumer", "group"});
      }
      together.submit();
    }
    runtime::synchronize(stream->record(), "group");
    const auto calls = cuda_double::take_calls();
    ASSERT_EQ(calls.size(), 3u);
    EXPECT_EQ(calls[0].launch == calls[2].launch, !checks);
    const DType dtypes[] = {DType::f64, DType::bf16, DType::f32};
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_EQ(values(data[k], 40, dtypes[k]), filled(40, sum_of_ranks() / ranks));
    Group open(*group, *stream);
    if (!checks) {
      expect_error(Status::INVALID_STATE, [&] { Group(*group, *stream); }, {"open"});
    }
  }
}

TEST(Nccl, ComparisonsFindOtherCalls) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank agrees with itself";
  const auto group = nccl_group(true);
  const auto stream = runtime::make_queue(Device::cuda, "data");
  group->allreduce(*stream, operand(filled(8, 1), DType::f32), rank == 0 ? 8 : 7, DType::f32, ReduceOp::sum);
  expect_error(Status::RANKS_DISAGREE, [&] { runtime::synchronize(stream->record(), "reduction"); },
               {"allreduce of 8 f32", "allreduce of 7 f32"});
  expect_error(Status::FAILED,
               [&] { group->allreduce(*stream, operand({1}, DType::f32), 1, DType::f32, ReduceOp::sum); },
               {"failed earlier"});
  MPI_Barrier(MPI_COMM_WORLD);
}

// What NCCL would not notice, the double does.
TEST(Double, FindsUnequalCounts) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank agrees with itself";
  const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "20");
  const auto group = nccl_group();
  const auto stream = runtime::make_queue(Device::cuda, "data");
  group->allreduce(*stream, operand(filled(8, 1), DType::f32), rank == 0 ? 8 : 7, DType::f32, ReduceOp::sum);
  EXPECT_NO_THROW(runtime::synchronize(stream->record(), "reduction")); // which is complete for hosts
  EXPECT_NE(cuda_double::take_misuse().find("allreduce of 8 elements"), std::string::npos);
  runtime::progress_all();
  expect_error(Status::FAILED,
               [&] { group->allreduce(*stream, operand({1}, DType::f32), 1, DType::f32, ReduceOp::sum); });
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Double, FindsWrongPlaces) {
  const auto group = nccl_group();
  const auto stream = runtime::make_queue(Device::cuda, "data");
  const Operand data = operand(filled(4 * ranks + 4, 1), DType::f64);
  group->allgather(*stream, {data.storage, 8 * (4 * rank + 1)}, data, Segments::equal(ranks, 4), DType::f64);
  EXPECT_NE(cuda_double::take_misuse().find("overlap"), std::string::npos);
  expect_error(Status::COMMUNICATION, [&] { runtime::synchronize(stream->record(), "gather"); }, {"ncclAllGather"});
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Nccl, AnOperationThatDoesNotEndIsAborted) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank waits for nobody";
  const auto group = nccl_group();
  const auto stream = runtime::make_queue(Device::cuda, "data");
  if (rank == 0) {
    const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "0.3");
    group->allreduce(*stream, operand(filled(8, 1), DType::f32), 8, DType::f32, ReduceOp::sum);
    expect_error(Status::TIME_OUT, [&] { runtime::synchronize(stream->record(), "reduction"); }, {"line"});
    expect_error(Status::FAILED,
                 [&] { group->allreduce(*stream, operand({1}, DType::f32), 1, DType::f32, ReduceOp::sum); });
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// --- communicators from others

TEST(NcclSplit, RanksOfOneColor) {
  for (const bool shares : {false, true}) {
    const auto whole = make_nccl_communicator(host_group(), "whole", arena(), false, shares);
    cuda_double::take_starts();
    MPI_Comm peers = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &peers);
    const auto half = split_nccl_communicator(*whole, rank % 2, make_mpi_communicator(peers, "half host", {}), "half");
    const auto starts = cuda_double::take_starts();
    ASSERT_EQ(starts.size(), 1u);
    EXPECT_EQ(starts[0].communicator, "half");
    EXPECT_EQ(starts[0].parent, "whole");
    EXPECT_EQ(starts[0].shares, shares);
    const int size = (ranks + 1 - rank % 2) / 2;
    EXPECT_EQ(half->size(), size);
    EXPECT_EQ(half->rank(), rank / 2);
    const auto stream = runtime::make_queue(Device::cuda, "data"), other = runtime::make_queue(Device::cuda, "other");
    const Operand own = operand(filled(3, rank), DType::f64), all = operand(filled(3 * size, 99), DType::f64);
    const Operand sum = operand(filled(5, rank + 1), DType::f64);
    half->allgather(*stream, own, all, Segments::equal(size, 3), DType::f64);
    whole->allreduce(*other, sum, 5, DType::f64, ReduceOp::sum); // at a time with it
    runtime::synchronize(stream->record(), "gather");
    runtime::synchronize(other->record(), "sum");
    for (int k = 0; k < size; ++k)
      EXPECT_EQ(values({all.storage, 24 * k}, 3, DType::f64), filled(3, rank % 2 + 2 * k));
    EXPECT_EQ(values(sum, 5, DType::f64), filled(5, sum_of_ranks()));
  }
}

// Axes of a mesh come from the communicator of all its ranks, unless OSTRAKA_NCCL_SPLIT says otherwise.
TEST(NcclSplit, AxesOfMeshes) {
  for (const char* setting : {"own", "shared", "off"}) {
    SCOPED_TRACE(setting);
    const ScopedEnvironment split("OSTRAKA_NCCL_SPLIT", setting);
    cuda_double::take_starts();
    const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks}, {"x"}, Device::cuda);
    const auto starts = cuda_double::take_starts();
    if (ranks == 1) {
      EXPECT_TRUE(starts.empty()); // nobody to talk to
      continue;
    }
    ASSERT_EQ(starts.size(), 3u);
    EXPECT_EQ(starts[0].communicator, "mesh data");
    EXPECT_EQ(starts[1].communicator, "mesh x gather");
    EXPECT_EQ(starts[2].communicator, "mesh x reduce");
    for (std::size_t k = 0; k < starts.size(); ++k) {
      EXPECT_EQ(starts[k].parent, k == 0 || std::string(setting) == "off" ? "" : "mesh data");
      EXPECT_EQ(starts[k].shares, k > 0 && std::string(setting) == "shared");
    }
  }
}

TEST(NcclSplit, RefusesOtherBackEnds) {
  const auto staged = make_staged_communicator(host_group(), "staged");
  expect_error(Status::INVALID_ARGUMENT, [&] { split_nccl_communicator(*staged, 0, host_group(), "part"); },
               {"part", "staged"});
}

// --- memory that NCCL registers

struct Registered {
  std::shared_ptr<memory::Arena> arena = make_registered_arena();
  Operand operand(std::int64_t bytes) const {
    return {std::make_shared<memory::Storage>(arena, bytes, memory::Kind::other), 0};
  }
};

TEST(NcclWindows, NeedAVersionThatWorks) {
  for (const auto& [version, expected] : {std::pair{"22809", false}, {"23006", false}, {"23007", true}}) {
    const ScopedEnvironment scope("OSTRAKA_DOUBLE_NCCL", version);
    EXPECT_EQ(can_register_memory(), expected) << version;
  }
}

// One for each allocation, kept while storage is released.
TEST(NcclWindows, OneForEachAllocation) {
  const Registered memory;
  EXPECT_TRUE(memory.arena->is_symmetric());
  const std::int64_t before = cuda_double::windows();
  {
    const auto group = nccl_group();
    const auto stream = runtime::make_queue(Device::cuda, "data");
    Operand first = memory.operand(8000);
    const Operand second = memory.operand(100);
    EXPECT_EQ(memory.arena->usage(memory::Kind::other).in_use, 8192 + 4096);
    EXPECT_TRUE(group->rendezvous(*first.storage));
    EXPECT_TRUE(group->rendezvous(*first.storage));
    EXPECT_TRUE(group->rendezvous(*second.storage));
    EXPECT_EQ(cuda_double::windows(), before + 2);
    const std::int64_t operations = cuda_double::symmetric_operations();
    for (int repeat = 0; repeat < 2; ++repeat) {
      write_at(first.data(), encode(filled(1000, rank + 1), DType::f64).data(), 8000);
      group->allreduce(*stream, first, 1000, DType::f64, ReduceOp::sum);
      runtime::synchronize(stream->record(), "sum");
      EXPECT_EQ(values(first, 1000, DType::f64), filled(1000, sum_of_ranks()));
      first.storage->release();
      first.storage->reallocate();
    }
    EXPECT_EQ(cuda_double::symmetric_operations(), operations + 2);
    runtime::progress_all();      // streams let go of it
    first = memory.operand(5000); // a new one, whatever was free
    EXPECT_EQ(cuda_double::windows(), before + 2);
    EXPECT_TRUE(group->rendezvous(*first.storage)); // which gives back the window of the old one
    EXPECT_EQ(cuda_double::windows(), before + 2);
    EXPECT_EQ(memory.arena->reserved(), 8192 + 4096);
  }
  EXPECT_EQ(cuda_double::windows(), before);
  EXPECT_EQ(memory.arena->usage(memory::Kind::other).in_use, 0);
  EXPECT_EQ(memory.arena->reserved(), 0);
  EXPECT_EQ(cuda_double::take_misuse(), "");
}

TEST(NcclWindows, OutliveTheirArena) {
  const auto group = nccl_group();
  {
    const Registered memory;
    EXPECT_TRUE(group->rendezvous(*memory.operand(64).storage));
  }
  EXPECT_EQ(cuda_double::take_misuse(), "");
}

TEST(NcclWindows, QuietWhereThereAreNone) {
  const auto group = nccl_group(), staged = make_staged_communicator(host_group(), "staged");
  const Registered memory;
  const Operand own = memory.operand(64);
  EXPECT_FALSE(group->rendezvous(*operand(filled(8, 1), DType::f64).storage)); // other memory
  EXPECT_FALSE(staged->rendezvous(*own.storage));
  if (ranks > 1) {
    EXPECT_FALSE(group->rendezvous(*memory.operand(rank == 0 ? 8192 : 4096).storage));
  }
  const ScopedEnvironment none("OSTRAKA_DOUBLE_NO_WINDOW", "1");
  EXPECT_FALSE(group->rendezvous(*own.storage));
  EXPECT_FALSE(group->rendezvous(*own.storage)); // asked once
  const auto stream = runtime::make_queue(Device::cuda, "data");
  write_at(own.data(), encode(filled(8, rank + 1), DType::f64).data(), 64);
  group->allreduce(*stream, own, 8, DType::f64, ReduceOp::sum);
  runtime::synchronize(stream->record(), "sum");
  EXPECT_EQ(values(own, 8, DType::f64), filled(8, sum_of_ranks()));
}

TEST(NcclWindows, RanksRegisterInOneOrder) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto group = nccl_group();
  const Registered memory;
  const Operand first = memory.operand(64), second = memory.operand(64);
  EXPECT_TRUE(group->rendezvous(*(rank == 0 ? first : second).storage));
  expect_error(Status::RANKS_DISAGREE, [&] { group->rendezvous(*first.storage); }, {"line", "registered before"});
  EXPECT_TRUE(group->rendezvous(*(rank == 0 ? first : second).storage)); // still usable
}

// NCCL hangs or writes to a wrong place.
TEST(NcclWindows, TheDoubleFindsOtherMemoryOnOneRank) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto group = nccl_group();
  const auto stream = runtime::make_queue(Device::cuda, "data");
  const Registered memory;
  const Operand own = memory.operand(64);
  EXPECT_TRUE(group->rendezvous(*own.storage));
  group->allreduce(*stream, rank == 0 ? operand(filled(8, 1), DType::f64) : own, 8, DType::f64, ReduceOp::sum);
  try {
    const ScopedEnvironment soon("OSTRAKA_TIMEOUT_S", "5");
    runtime::synchronize(stream->record(), "sum");
    runtime::wait_until([&] { return !group->failure().empty(); }, "the failure");
  } catch (const Error&) {
  }
  EXPECT_NE(cuda_double::take_misuse().find("windows"), std::string::npos);
}

} // namespace
} // namespace ostraka::comm::test
