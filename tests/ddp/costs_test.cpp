// SPDX-License-Identifier: Apache-2.0
// How many collectives a step takes and how much they move, counted where the library calls MPI; and when they start.
#include "network.hpp"
#include "runtime/trace_folder.hpp"
#include "vectors.hpp"
#include <ostraka/runtime/progress.hpp>

#include <chrono>

namespace ostraka::ddp::test {
namespace {

using Counts = std::vector<std::int64_t>;

/// Elements of the buckets in the order in which they are reduced: as a backward pass of `net` completes them.
Counts bucket_sizes(const DistributedDataParallel& ddp) {
  std::vector<std::pair<int, std::int64_t>> buckets; // first parameter, size
  for (const BufferLayout& buffer : ddp.layouts())
    for (const BucketLayout& bucket : buffer.buckets) {
      int first = buffer.parameters[bucket.parameters.front()];
      for (const int position : bucket.parameters)
        first = std::min(first, buffer.parameters[position]);
      buckets.emplace_back(-first, bucket.range.size());
    }
  std::sort(buckets.begin(), buckets.end());
  Counts sizes;
  for (const auto& bucket : buckets)
    sizes.push_back(bucket.second);
  return sizes;
}

Counts with(Counts counts, const Counts& more) {
  counts.insert(counts.end(), more.begin(), more.end());
  return counts;
}
Counts divided(Counts counts, std::int64_t divisor) {
  for (std::int64_t& count : counts)
    count /= divisor;
  return counts;
}
Counts reversed(Counts counts) {
  std::reverse(counts.begin(), counts.end());
  return counts;
}

struct Costs {
  Costs(const buffer::MeshPtr& mesh, const Config& config, int micro_batches)
      : training(mesh, options(config, micro_batches)) {
    training.step(); // compares weights, and prepares the optimizer
    training.step();
    mpi_calls = {};
    training.step();
    calls = mpi_calls;
    sizes = bucket_sizes(training.ddp());
  }
  static Options options(const Config& config, int micro_batches) {
    Options options;
    options.net = mlp({6, 9, 5, 2});
    options.config = config;
    options.config.bucket_size = 1; // of one parameter each
    options.storages = {DType::f32, DType::f64};
    options.micro_batches = micro_batches;
    return options;
  }
  int buckets() const { return static_cast<int>(sizes.size()); }

  Training training;
  MpiCalls calls;
  Counts sizes;
};

const Counts agreement = {1}; ///< at the end of a step, one number

/// Calls body(config, micro_batches).
template <class Body>
void count_all(Body&& body) {
  if (ranks == 1 || !is_mpi())
    GTEST_SKIP() << "counts what several ranks ask MPI for";
  const ScopedEnvironment check("OSTRAKA_CHECK", nullptr);
  for (const bool overlap : {true, false})
    for (const int micro_batches : {1, 3}) {
      SCOPED_TRACE(std::string(overlap ? "overlap" : "no overlap") + ", micro-batches " +
                   std::to_string(micro_batches));
      body(overlap, micro_batches);
    }
}

TEST(Costs, AllReduce) {
  count_all([](bool overlap, int micro_batches) {
    const Costs step(make_unchecked_mesh(), make_config(false, overlap), micro_batches);
    EXPECT_EQ(step.calls.of("MPI_Iallreduce"), step.buckets() + 1);
    EXPECT_EQ(step.calls.counts, with(step.sizes, agreement)) << "in order, and nothing else";
    EXPECT_EQ(step.buckets(), overlap ? 6 : 2);
  });
}

TEST(Costs, ShardedOptimizer) {
  count_all([](bool overlap, int micro_batches) {
    const Costs step(make_unchecked_mesh(), make_config(true, overlap), micro_batches);
    EXPECT_EQ(step.calls.of("MPI_Ireduce_scatter_block"), step.buckets());
    EXPECT_EQ(step.calls.of("MPI_Iallgather"), step.buckets());
    EXPECT_EQ(step.calls.of("MPI_Iallreduce"), 1);
    const Counts gathers = divided(overlap ? reversed(step.sizes) : step.sizes, ranks);
    // With overlap gathers are those of the step before, at the begin of this one.
    EXPECT_EQ(step.calls.counts,
              overlap ? with(with(gathers, step.sizes), agreement) : with(with(step.sizes, agreement), gathers));
  });
}

TEST(Costs, ReplicasAndShards) {
  count_all([](bool overlap, int micro_batches) {
    if (ranks != 4)
      return;
    const Costs step(make_unchecked_mesh({2, 2}), make_config(true, overlap), micro_batches);
    EXPECT_EQ(step.calls.of("MPI_Ireduce_scatter_block"), step.buckets());
    EXPECT_EQ(step.calls.of("MPI_Iallgather"), step.buckets());
    EXPECT_EQ(step.calls.of("MPI_Iallreduce"), step.buckets() + 1);
    std::int64_t total = 0, elements = 0;
    for (const std::int64_t count : step.calls.counts)
      total += count;
    for (const std::int64_t size : step.sizes)
      elements += size;
    EXPECT_EQ(total, elements + elements / 2 + elements / 2 + 1); // whole, reduced halves, gathered halves, agreement
  });
}

TEST(Costs, ForcedAllReduce) {
  count_all([](bool overlap, int) {
    const auto mesh = make_unchecked_mesh();
    Vectors v(mesh, make_config(true, overlap), letters(4));
    for (int step = 0; step < 2; ++step) {
      v.ddp->zero_grad_buffer();
      mpi_calls = {};
      v.backward(1);
      v.ddp->finish_grad_sync(true);
    }
    const int buckets = overlap ? 2 : 1;
    EXPECT_EQ(mpi_calls.of("MPI_Iallreduce"), overlap ? 1 : buckets + 1);
    EXPECT_EQ(mpi_calls.of("MPI_Ireduce_scatter_block"), overlap ? buckets : 0);
    EXPECT_EQ(mpi_calls.of("MPI_Iallgather"), overlap ? buckets : 0);
    mpi_calls = {};
    v.ddp->finish_grad_sync(true); // is reduced
    EXPECT_TRUE(mpi_calls.number.empty());
  });
}

// Gradients are reduced where they are written, weights gathered by copies.
TEST(Costs, NothingGoesOverMpiWithinANode) {
  const char* pieces = std::getenv("OSTRAKA_RANKS_PER_NODE");
  if (is_mpi() || (pieces != nullptr && std::atoi(pieces) < ranks))
    GTEST_SKIP() << "needs one node that shares memory";
  for (const bool sharded : {false, true}) {
    const Costs step(make_unchecked_mesh(), make_config(sharded), 3);
    EXPECT_TRUE(step.calls.number.empty());
  }
}

// --- when they start

struct Event {
  std::string name;
  double begin;
};

/// What a step of eight letters leaves in the trace of this rank. Reductions may take as long as they need before the
/// next gradient is there, since the trace draws those of a communicator one after the other.
std::vector<Event> traced_step(const Config& config) {
  const runtime::test::TraceFolder folder;
  runtime::trace::start();
  {
    Vectors v(make_unchecked_mesh(), config, letters(8));
    for (const char* name : {"h.w", "g.w", "f.w", "e.w", "d.w", "c.w", "b.w", "a.w"}) {
      v.contribute(name, 1);
      MPI_Barrier(MPI_COMM_WORLD);
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      while (std::chrono::steady_clock::now() < end)
        runtime::progress_all();
    }
    v.ddp->finish_grad_sync();
    v.expect_gradients(1);
  }
  runtime::trace::finish();
  std::vector<Event> events;
  for (const auto& found : runtime::test::complete_events(folder.read(folder.files().front())))
    events.push_back({found.name, found.begin});
  return events;
}

double begin_of(const std::vector<Event>& events, const std::string& part) {
  const auto found = std::find_if(events.begin(), events.end(),
                                  [&](const Event& event) { return event.name.find(part) != std::string::npos; });
  EXPECT_NE(found, events.end()) << part;
  return found == events.end() ? 0 : found->begin;
}

TEST(Overlap, ReductionsStartBeforeTheLastGradient) {
  for (const bool sharded : {false, true}) {
    const auto events = traced_step(make_config(sharded));
    const double last = begin_of(events, "gradient_ready 'a.w'");
    for (int bucket = 0; bucket < 3; ++bucket) {
      const std::string second(1, static_cast<char>('g' - 2 * bucket)); // completes the bucket
      const double begin = begin_of(events, "gradients of bucket " + std::to_string(bucket) + " ");
      EXPECT_LT(begin, last) << "bucket " << bucket;
      EXPECT_GT(begin, begin_of(events, "gradient_ready '" + second + ".w'")) << "bucket " << bucket;
    }
  }
}

TEST(Overlap, NotWithoutIt) {
  const auto events = traced_step(make_config(false, false));
  for (const Event& event : events)
    EXPECT_EQ(event.name.find("gradient_ready"), std::string::npos) << "is counted";
  EXPECT_GT(begin_of(events, "gradients of bucket 0 "), 0);
}

} // namespace
} // namespace ostraka::ddp::test
