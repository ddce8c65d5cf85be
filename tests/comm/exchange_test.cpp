// SPDX-License-Identifier: Apache-2.0
// Random exchanges. Both sides of a pair cut its elements differently; the oracle goes element by element: the k-th
// place of the sender's list goes to the k-th of the receiver's.
#include "group.hpp"
#include "support/mpi_calls.hpp"
#include "support/rounds.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace ostraka::comm::test {
namespace {

using Transfers = std::vector<Transfer>;

/// One exchange between all ranks, equal on all of them.
struct Case {
  DType dtype = DType::u8;
  std::int64_t size = 0;                  ///< of the operands of every rank
  std::vector<Transfers> sends, receives; ///< by rank
};

std::int64_t below(std::mt19937& random, std::int64_t end) { return random() % static_cast<std::uint32_t>(end); }

/// Lengths > 0 that add up to `count`; sometimes with an empty one between.
std::vector<std::int64_t> random_cuts(std::mt19937& random, std::int64_t count) {
  std::vector<std::int64_t> lengths;
  while (count > 0) {
    lengths.push_back(1 + below(random, count));
    count -= lengths.back();
    if (below(random, 8) == 0)
      lengths.push_back(0);
  }
  return lengths;
}

std::vector<int> random_order(std::mt19937& random) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

/// Places that do not overlap: the transfers in a random order, with gaps.
void place(std::mt19937& random, Transfers& transfers, std::int64_t size) {
  std::int64_t total = 0, offset = 0;
  for (const Transfer& transfer : transfers)
    total += transfer.count;
  std::vector<std::size_t> order(transfers.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t k : order) {
    offset += below(random, 3) * (size - total > 2 * static_cast<std::int64_t>(transfers.size()));
    transfers[k].offset = offset;
    offset += transfers[k].count;
  }
}

Case random_case(std::mt19937& random) {
  Case one;
  one.dtype = all_types[below(random, std::size(all_types))];
  one.sends.resize(static_cast<std::size_t>(ranks));
  one.receives.resize(static_cast<std::size_t>(ranks));
  std::vector<std::vector<std::int64_t>> counts(static_cast<std::size_t>(ranks)); ///< [from][to]
  std::int64_t most = 0;
  for (auto& row : counts)
    for (int to = 0; to < ranks; ++to) {
      row.push_back(below(random, 3) == 0 ? 0 : below(random, 40));
      most += row.back();
    }
  one.size = 4 * most + 64;
  for (int r = 0; r < ranks; ++r) {
    const auto own = static_cast<std::size_t>(r);
    for (const int peer : random_order(random))
      for (const std::int64_t length : random_cuts(random, counts[own][static_cast<std::size_t>(peer)]))
        one.sends[own].push_back({peer, below(random, one.size - length), length}); // may overlap
    for (const int peer : random_order(random))
      for (const std::int64_t length : random_cuts(random, counts[static_cast<std::size_t>(peer)][own]))
        one.receives[own].push_back({peer, 0, length});
    place(random, one.receives[own], one.size);
  }
  return one;
}

std::vector<std::int64_t> places(const Transfers& transfers, int peer) {
  std::vector<std::int64_t> all;
  for (const Transfer& transfer : transfers)
    for (std::int64_t i = 0; i < transfer.count && transfer.peer == peer; ++i)
      all.push_back(transfer.offset + i);
  return all;
}

double value(int r, std::int64_t i) { return static_cast<double>((r * 37 + i) % 127); }

std::vector<double> expected(const Case& one) {
  std::vector<double> result(static_cast<std::size_t>(one.size), 127); // what nobody writes stays
  for (int from = 0; from < ranks; ++from) {
    const auto sent = places(one.sends[static_cast<std::size_t>(from)], rank);
    const auto received = places(one.receives[static_cast<std::size_t>(rank)], from);
    for (std::size_t k = 0; k < sent.size(); ++k)
      result[static_cast<std::size_t>(received[k])] = value(from, sent[k]);
  }
  return result;
}

std::vector<double> inputs(const Case& one) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < one.size; ++i)
    result.push_back(value(rank, i));
  return result;
}

// Several in flight at once, so that messages of one must not be taken for those of another.
void run(Communicator& group, std::uint64_t seed, int number) {
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto a = runtime::make_host_queue("a"), b = runtime::make_host_queue("b");
  std::vector<Case> cases;
  std::vector<Operand> ins, outs;
  for (int k = 0; k < number; ++k) {
    cases.push_back(random_case(random));
    const Case& one = cases.back();
    ins.push_back(part(operand(one.size + 3, 126, one.dtype), 3, one.dtype));
    for (std::int64_t i = 0; i < one.size; ++i)
      set_element(ins.back().data(), i, one.dtype, value(rank, i));
    outs.push_back(operand(one.size, 127, one.dtype));
    const auto own = static_cast<std::size_t>(rank);
    group.exchange(k % 3 == 0 ? *a : *b, ins.back(), one.sends[own], outs.back(), one.receives[own], one.dtype, k);
  }
  synchronize(a->record(), "a");
  synchronize(b->record(), "b");
  for (std::size_t k = 0; k < cases.size(); ++k) {
    EXPECT_EQ(values(outs[k], cases[k].size, cases[k].dtype), expected(cases[k])) << "exchange " << k;
    EXPECT_EQ(values(ins[k], cases[k].size, cases[k].dtype), inputs(cases[k])) << "exchange " << k;
  }
}

TEST(Exchange, RandomTransfers) {
  for (const std::uint64_t seed : {std::uint64_t{1}, fresh_seed("Exchange.RandomTransfers")})
    for (const MpiSettings settings : all_settings())
      for (const auto& group : all_groups("data", settings)) {
        SCOPED_TRACE("seed " + std::to_string(seed) + " " + text(settings));
        mpi_calls = {};
        run(*group, seed, rounds(6));
        EXPECT_EQ(mpi_calls.of("MPI_Type_free"), mpi_calls.of("MPI_Type_create_hindexed"));
      }
}

TEST(Exchange, NothingAtAll) {
  for (const MpiSettings settings : all_settings())
    for (const auto& group : all_groups("data", settings)) {
      const Operand in = operand(0, 0, DType::f64), out = operand(4, 5, DType::f64);
      group->exchange(*runtime::make_host_compute_stream(), in, {}, out, {{0, 2, 0}}, DType::f64, 0);
      EXPECT_EQ(values(out, 4, DType::f64), std::vector<double>(4, 5));
    }
}

// A ring of messages beyond what MPI buffers: everybody sends before anybody receives.
TEST(Exchange, LargeRing) {
  constexpr std::int64_t count = 200'000;
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (const auto& group : all_groups("data")) {
    const Operand in = operand(count, rank, DType::f64), out = operand(count, -1, DType::f64);
    group->exchange(*runtime::make_host_compute_stream(), in, {{next, 0, 5}, {next, 5, count - 5}}, out,
                    {{before, 0, count}}, DType::f64, 0);
    EXPECT_EQ(values(out, count, DType::f64), std::vector<double>(count, before));
  }
}

TEST(Exchange, WrongTransfersLeaveTheGroupUsable) {
  for (const auto& group : all_groups("data")) {
    const auto stream = runtime::make_host_compute_stream();
    const Operand in = operand(8, rank, DType::f64), out = operand(8, -1, DType::f64);
    const auto refused = [&](const Transfers& sends, const Transfers& receives,
                             std::initializer_list<std::string> parts) {
      expect_error(
          Status::INVALID_ARGUMENT, [&] { group->exchange(*stream, in, sends, out, receives, DType::f64, 0); }, parts);
    };
    refused({{ranks, 0, 1}}, {}, {"data", "exchange", "peer", "found " + std::to_string(ranks)});
    refused({}, {{-1, 0, 1}}, {"data", "exchange", "peer", "found -1"});
    refused({{0, 0, -1}}, {}, {"data", "exchange", "-1"});
    refused({}, {{0, -4, 1}}, {"data", "exchange", "-4"});
    if (ranks > 1)
      refused({{0, 0, 1}, {1, 1, 1}, {0, 2, 1}}, {}, {"data", "exchange", "rank 0", "together"});
    refused({{rank, 0, 2}}, {{rank, 0, 3}}, {"data", "exchange", "2", "3", "itself"});
    EXPECT_EQ(values(out, 8, DType::f64), std::vector<double>(8, -1));
    group->exchange(*stream, in, {{rank, 0, 8}}, out, {{rank, 0, 8}}, DType::f64, 0);
    EXPECT_EQ(values(out, 8, DType::f64), std::vector<double>(8, rank));
  }
}

} // namespace
} // namespace ostraka::comm::test
