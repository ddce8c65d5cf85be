// SPDX-License-Identifier: Apache-2.0
// What only lines over several nodes do: the order of sums, the bytes between nodes, memory that a node shares.
#include "support/mpi_calls.hpp"
#include "oracle.hpp"

#include <algorithm>
#include <random>

namespace ostraka::comm::test {
namespace {

using NodeOf = std::vector<int>;

/// body(node_of, settings, group, stream) on pretend nodes of every shape.
template <class Body>
void for_all_lines(const std::vector<MpiSettings>& settings, Body&& body) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank stands on one node";
  const auto stream = runtime::make_host_compute_stream();
  for (const NodeOf& node_of : all_node_maps())
    for (const MpiSettings setting : settings) {
      SCOPED_TRACE(text(node_of) + ", " + text(setting));
      body(node_of, *hierarchical_group("line", node_of, setting), *stream);
    }
}

std::vector<int> ranks_of(const NodeOf& node_of, int node) {
  std::vector<int> found;
  for (int r = 0; r < ranks; ++r)
    if (node_of[static_cast<std::size_t>(r)] == node)
      found.push_back(r);
  return found;
}

/// Nodes in the order of their first ranks.
std::vector<int> nodes_of(const NodeOf& node_of) {
  std::vector<int> nodes;
  for (const int node : node_of)
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end())
      nodes.push_back(node);
  return nodes;
}

/// One element, first within nodes in rank order, then over the nodes.
template <class T>
T reduced_by_node(ReduceOp op, const std::vector<double>& by_rank, const std::vector<std::vector<int>>& nodes) {
  bool has_total = false;
  T total{};
  for (const std::vector<int>& members : nodes) {
    T partial = static_cast<T>(by_rank[static_cast<std::size_t>(members[0])]);
    for (std::size_t k = 1; k < members.size(); ++k)
      partial = reduced_pair(op, partial, static_cast<T>(by_rank[static_cast<std::size_t>(members[k])]));
    total = has_total ? reduced_pair(op, total, partial) : partial;
    has_total = true;
  }
  return op == ReduceOp::mean ? total / static_cast<T>(ranks) : total;
}

double expected_element(ReduceOp op, DType dtype, const std::vector<double>& by_rank,
                        const std::vector<std::vector<int>>& nodes) {
  if (dtype == DType::f64)
    return reduced_by_node<double>(op, by_rank, nodes);
  const float result = reduced_by_node<float>(op, by_rank, nodes);
  if (dtype == DType::f32)
    return result;
  return dtype == DType::bf16 ? bf16_value(round_to_bf16(result)) : f16_value(round_to_f16(result));
}

// Exact in 16 bits; large values that cancel make every other order and every early rounding show.
double cancelling_value(int r, std::int64_t i, DType dtype, ReduceOp op) {
  std::minstd_rand random(static_cast<unsigned>(1000 * r + i + 1));
  random.discard(3);
  const double sign = random() / 64 % 2 == 0 ? -1 : 1;
  const int large = dtype == DType::f16 ? 14 : 26;
  if (op != ReduceOp::prod && random() / 64 % 3 == 0)
    return sign * std::ldexp(1, large);
  return sign * std::ldexp(1 + static_cast<double>(random() / 64 % 128) / 128, static_cast<int>(random() / 64 % 6) - 3);
}

std::vector<double> expected(ReduceOp op, DType dtype, layout::Range range, const NodeOf& node_of) {
  std::vector<std::vector<int>> nodes;
  for (const int node : nodes_of(node_of))
    nodes.push_back(ranks_of(node_of, node));
  std::vector<double> result;
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    std::vector<double> by_rank;
    for (int r = 0; r < ranks; ++r)
      by_rank.push_back(cancelling_value(r, i, dtype, op));
    result.push_back(expected_element(op, dtype, by_rank, nodes));
  }
  return result;
}

TEST(Hierarchical, SumsWithinNodesThenInTheOrderOfNodesRoundedOnce) {
  const std::vector<Segments> all = {Segments::equal(ranks, 37), pieces_by([](int k) { return k % 2 == 0 ? 0 : 41; }),
                                     pieces_by([](int k) { return 50 - 6 * k; })};
  for_all_lines({plain, {true, 7}}, [&](const NodeOf& node_of, Communicator& group, runtime::Stream& stream) {
    for (const DType dtype : floating_types)
      for (const ReduceOp op : all_reductions)
        for (const Segments& pieces : all) {
          SCOPED_TRACE(std::string(name(dtype)) + " " + name(op) + " " + text(pieces));
          const auto mine = [&](std::int64_t i) { return cancelling_value(rank, i, dtype, op); };
          const layout::Range own = pieces.range(rank);
          const Operand in = operand(generated(pieces.size(), mine), dtype), out = operand(own.size(), 0, dtype);
          group.reduce_scatter(stream, in, out, pieces, dtype, op);
          EXPECT_EQ(values(out, own.size(), dtype), expected(op, dtype, own, node_of));
          const Operand all_out = operand(pieces.size(), 0, dtype);
          group.allreduce(stream, in, all_out, pieces.size(), dtype, op);
          EXPECT_EQ(values(all_out, pieces.size(), dtype), expected(op, dtype, {0, pieces.size()}, node_of));
          EXPECT_EQ(values(in, pieces.size(), dtype), generated(pieces.size(), mine));
        }
  });
}

// 1 + 2^-8 is not a bf16: rounding the sum of a node before the next one is added would lose every small term.
TEST(Hierarchical, PartialSumsTravelUnrounded) {
  for_all_lines({plain}, [](const NodeOf&, Communicator& group, runtime::Stream& stream) {
    const Operand data = operand(3, rank == 0 ? 1 : std::ldexp(1, -8), DType::bf16);
    group.allreduce(stream, data, 3, DType::bf16, ReduceOp::sum);
    const double sum = 1 + (ranks - 1) * std::ldexp(1, -8);
    EXPECT_EQ(values(data, 3, DType::bf16), std::vector<double>(3, bf16_value(round_to_bf16(sum))));
  });
}

TEST(Hierarchical, EveryOperationOnEveryShape) {
  for_all_lines(all_settings(), [](const NodeOf&, Communicator& group, runtime::Stream& stream) {
    const auto value = [](int r, std::int64_t i) { return static_cast<double>((r * 31 + i * 7) % 100); };
    for (const DType dtype : {DType::f64, DType::f16, DType::u8})
      for (const Segments& pieces : all_pieces()) {
        SCOPED_TRACE(std::string(name(dtype)) + " " + text(pieces));
        const layout::Range own = pieces.range(rank);
        const auto from = [&](int r) { return [&, r](std::int64_t i) { return value(r, i); }; };
        const Operand in = operand(generated(own.size(), from(rank)), dtype);
        const Operand out = operand(pieces.size() + 1, 99, dtype);
        group.allgather(stream, in, out, pieces, dtype);
        std::vector<double> gathered;
        for (int r = 0; r < ranks; ++r)
          for (std::int64_t i = 0; i < pieces.range(r).size(); ++i)
            gathered.push_back(value(r, i));
        gathered.push_back(99);
        EXPECT_EQ(values(out, pieces.size() + 1, dtype), gathered);
        const auto small = [](int r, std::int64_t i) { return static_cast<double>((r * 5 + i * 3) % 16); };
        const Operand whole = operand(generated(pieces.size(), [&](std::int64_t i) { return small(rank, i); }), dtype);
        group.reduce_scatter(stream, whole, part(whole, own.begin, dtype), pieces, dtype, ReduceOp::sum);
        EXPECT_EQ(values(part(whole, own.begin, dtype), own.size(), dtype),
                  all_reduced(ReduceOp::sum, dtype, own.begin, own.size(), small));
      }
    for (int root = 0; root < ranks; ++root) {
      const auto from = [&](int r) { return [&, r](std::int64_t i) { return value(r, i); }; };
      const Operand data = operand(generated(101, from(rank)), DType::u8);
      group.broadcast(stream, data, 100, root);
      EXPECT_EQ(values(data, 100, DType::u8), generated(100, from(root)));
      EXPECT_EQ(values(part(data, 100, DType::u8), 1, DType::u8)[0], value(rank, 100));
    }
  });
}

// --- Traffic

/// What each rank received by messages in `body`, which starts and completes operations.
template <class Body>
std::vector<std::int64_t> received_by(Body&& body) {
  mpi_calls = {};
  body();
  std::vector<std::int64_t> received(static_cast<std::size_t>(ranks));
  MPI_Allgather(&mpi_calls.received, 1, MPI_INT64_T, received.data(), 1, MPI_INT64_T, MPI_COMM_WORLD);
  return received;
}

std::int64_t elements_of(const Segments& pieces, const std::vector<int>& members) {
  std::int64_t sum = 0;
  for (const int r : members)
    sum += pieces.range(r).size();
  return sum;
}

/// Checks the bytes of each node; where they are shares, those of its ranks differ by one element of `width` at most.
void expect_received(const std::vector<std::int64_t>& received, const NodeOf& node_of, int node, std::int64_t bytes,
                     std::int64_t width) {
  std::int64_t sum = 0, least = received[static_cast<std::size_t>(ranks_of(node_of, node)[0])], most = least;
  for (const int r : ranks_of(node_of, node)) {
    const std::int64_t own = received[static_cast<std::size_t>(r)];
    sum += own;
    least = std::min(least, own);
    most = std::max(most, own);
  }
  EXPECT_EQ(sum, bytes) << "node " << node;
  if (width > 0) {
    EXPECT_LE(most - least, width) << "node " << node;
  }
}

// Every remote byte enters a node once in a gather, in equal shares; a reduction sends every node what the others have
// for it, 16-bit types as f32; an all-reduce does both.
TEST(Hierarchical, BytesBetweenNodes) {
  for_all_lines({plain}, [](const NodeOf& node_of, Communicator& group, runtime::Stream& stream) {
    const auto nodes = nodes_of(node_of);
    const auto others = static_cast<std::int64_t>(nodes.size()) - 1;
    for (const Segments& pieces : {Segments::equal(ranks, 30), pieces_by([](int k) { return 7 * k; })})
      for (const DType dtype : {DType::f64, DType::bf16}) {
        const std::int64_t width = width_of(dtype), partial = dtype == DType::bf16 ? 4 : width, size = pieces.size();
        const Operand in = operand(size, 1, dtype), out = operand(size, 1, dtype);
        const auto gathered =
            received_by([&] { group.allgather(stream, part(in, pieces.begin(rank), dtype), out, pieces, dtype); });
        const auto reduced = received_by([&] { group.reduce_scatter(stream, in, out, pieces, dtype, ReduceOp::sum); });
        const auto both = received_by([&] { group.allreduce(stream, in, out, size, dtype, ReduceOp::sum); });
        const Segments even = pieces_by([&](int k) { return size / ranks + (k < size % ranks ? 1 : 0); });
        for (const int node : nodes) {
          const auto members = ranks_of(node_of, node);
          const std::int64_t own = elements_of(pieces, members), own_even = elements_of(even, members);
          expect_received(gathered, node_of, node, (size - own) * width, width);
          expect_received(reduced, node_of, node, others * own * partial, 0);
          expect_received(both, node_of, node, (size - own_even) * width + others * own_even * partial, 0);
        }
      }
  });
}

TEST(Hierarchical, ABroadcastEntersEachNodeOnce) {
  for_all_lines({plain}, [](const NodeOf& node_of, Communicator& group, runtime::Stream& stream) {
    for (int root = 0; root < ranks; ++root) {
      const Operand data = operand(1001, rank, DType::u8);
      const auto received = received_by([&] { group.broadcast(stream, data, 1001, root); });
      for (const int node : nodes_of(node_of))
        expect_received(received, node_of, node, node == node_of[static_cast<std::size_t>(root)] ? 0 : 1001, 0);
    }
  });
}

TEST(Hierarchical, CountLimit) {
  for_all_lines({{false, 7}}, [](const NodeOf& node_of, Communicator& group, runtime::Stream& stream) {
    const Segments pieces = pieces_by([](int k) { return 20 + k; });
    const Operand in = operand(pieces.size(), 1, DType::f32), out = operand(pieces.size(), 0, DType::f32);
    mpi_calls = {};
    group.allgather(stream, part(in, pieces.begin(rank), DType::f32), out, pieces, DType::f32);
    group.reduce_scatter(stream, in, part(out, pieces.begin(rank), DType::f32), pieces, DType::f32, ReduceOp::sum);
    group.allreduce(stream, in, out, pieces.size(), DType::f32, ReduceOp::sum);
    group.broadcast(stream, out, 4 * pieces.size(), 0);
    EXPECT_EQ(mpi_calls.largest, nodes_of(node_of).size() > 1 ? 7 : 0);
  });
}

// --- Memory

// Messages land in the results where the node sees them; elsewhere in a share's room, not in one for the whole.
TEST(Hierarchical, MemoryOfTheNode) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank stands on one node";
  const auto stream = runtime::make_host_compute_stream();
  const NodeOf node_of = nodes_by([](int r) { return r / 2; });
  const std::int64_t size = 30000 * ranks, share = (size - 30000) * 8 / 2 + 64; // of two ranks, at most
  for (const bool is_visible : {true, false}) {
    const auto arena = node::make_node_arena(MPI_COMM_WORLD), own = memory::make_host_arena();
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    const auto group = make_hierarchical_communicator(copy, "line", NodeMap(node_of), arena, plain);
    const auto storage = [&](std::int64_t bytes, const std::shared_ptr<memory::Arena>& where) {
      const auto made = std::make_shared<memory::Storage>(where, bytes, memory::Kind::other);
      std::memset(made->data(), 0, static_cast<std::size_t>(bytes));
      return Operand{made, 0};
    };
    const Operand in = storage(size * 8, arena), out = storage(size * 8, is_visible ? arena : own);
    const bool is_alone = ranks_of(node_of, node_of[static_cast<std::size_t>(rank)]).size() == 1;
    const std::int64_t limit = is_visible || is_alone ? 0 : share;
    group->allgather(*stream, part(in, 30000 * rank, DType::f64), out, Segments::equal(ranks, 30000), DType::f64);
    EXPECT_LE(arena->usage(memory::Kind::transient).peak, limit);
    group->allreduce(*stream, in, out, size, DType::f64, ReduceOp::sum);
    EXPECT_LE(arena->usage(memory::Kind::transient).peak, limit == 0 ? 0 : share + 30000 * 8);
    EXPECT_EQ(arena->usage(memory::Kind::transient).in_use, 0);
  }
}

// --- Progress

// The cycle of design section 3: on nodes {0, 1} and {2, 3} each rank first waits for what another one will only do
// later. Waiting advances everything, so it ends.
TEST(Hierarchical, AWaitCycleOfFourRanksOnTwoNodesEnds) {
  if (ranks != 4)
    GTEST_SKIP() << "needs four ranks";
  const auto line = hierarchical_group("line", {0, 0, 1, 1});
  MPI_Comm near = MPI_COMM_NULL, far = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &near);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &far);
  const auto on_node = make_node_communicator(near, "node", node_arena());
  const auto between = make_mpi_communicator(far, "between", plain);
  MPI_Comm_free(&near);
  constexpr std::int64_t count = 200'000; // more than MPI buffers
  for (int round = 0; round < 5; ++round) {
    const auto a = runtime::make_host_queue("a"), b = runtime::make_host_queue("b"), c = runtime::make_host_queue("c");
    const Operand x = operand(count, rank, DType::f64), y = operand(count, rank, DType::f64);
    const Operand z = operand(count, rank, DType::f64);
    on_node->allreduce(*a, x, count, DType::f64, ReduceOp::sum);
    between->allreduce(*b, y, count, DType::f64, ReduceOp::sum);
    line->allreduce(*c, z, count, DType::f64, ReduceOp::sum);
    const bool waits_for_node = rank == 0 || rank == 3;
    synchronize((waits_for_node ? a : b)->record(), "first");
    synchronize((rank % 2 == 0 ? c : waits_for_node ? b : a)->record(), "second");
    for (const auto& queue : {a, b, c})
      synchronize(queue->record(), "rest");
    EXPECT_EQ(values(x, count, DType::f64), std::vector<double>(count, rank < 2 ? 1 : 5));
    EXPECT_EQ(values(y, count, DType::f64), std::vector<double>(count, rank % 2 == 0 ? 2 : 4));
    EXPECT_EQ(values(z, count, DType::f64), std::vector<double>(count, 6));
  }
}

} // namespace
} // namespace ostraka::comm::test
