// SPDX-License-Identifier: Apache-2.0
// Who serves whom where several ranks hold the same, what a plan costs on many ranks, and what is refused.
#include "plan_model.hpp"
#include "support/expect_error.hpp"
#include <ostraka/buffer/transfer_plan.hpp>
#include <ostraka/layout/builders.hpp>

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <new>

namespace {
std::size_t allocated_bytes = 0; // by this program since its start
}

// Not inlined, or GCC takes the mixture with malloc for a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocated_bytes += bytes;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  allocated_bytes += bytes;
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace ostraka::buffer::test {
namespace {

using comm::Transfer;
using ostraka::test::expect_error;
using Transfers = std::vector<Transfer>;

const Placement R = replicate(), S = shard(), P = partial();

struct Arrangement {
  Placements placements;
  std::vector<int> sizes;
};

TransferPlan plan(const GlobalLayout& from, const Arrangement& before, const GlobalLayout& to, const Arrangement& after,
                  int rank) {
  return plan_transfers({from, before.placements, before.sizes}, {to, after.placements, after.sizes}, rank);
}

/// How many other ranks each rank serves.
std::vector<int> served(const GlobalLayout& layout, const Arrangement& before, const Arrangement& after, int ranks) {
  std::vector<int> counts;
  for (int rank = 0; rank < ranks; ++rank) {
    const Transfers sends = plan(layout, before, layout, after, rank).sends;
    counts.push_back(static_cast<int>(
        std::count_if(sends.begin(), sends.end(), [&](const Transfer& send) { return send.peer != rank; })));
  }
  return counts;
}

// All ranks need all parts: every holder serves the same number of them.
TEST(TransferSpread, FullyReplicated) {
  const GlobalLayout layout(Policy::flat, {{12}}, {0}, 12, 1);
  const std::pair<Arrangement, int> holders_of_a_part[] = {{{{S}, {12}}, 1},
                                                           {{{R, S}, {3, 4}}, 3},
                                                           {{{R, S}, {4, 3}}, 4},
                                                           {{{R, S, S}, {2, 2, 3}}, 2},
                                                           {{{R, R, S}, {2, 3, 2}}, 6},
                                                           {{{R}, {12}}, 12}};
  for (const auto& [before, holders] : holders_of_a_part) {
    const int share = (12 - holders) / holders; // of the ranks that do not hold the part
    EXPECT_EQ(served(layout, before, {{R, R}, {2, 6}}, 12), std::vector<int>(12, share)) << holders;
  }
}

// Two replicas of four parts to eight parts: neighbours that need the same part ask different holders for it.
TEST(TransferSpread, NeighboursTakeTurns) {
  const GlobalLayout layout(Policy::flat, {{16}}, {0}, 8, 2);
  for (const int count : served(layout, {{R, S}, {2, 4}}, {{S}, {8}}, 8))
    EXPECT_LE(count, 1);
  // And where both sides have replicas, of which those of the destination have their own.
  for (const int count : served(layout, {{R, S}, {8, 2}}, {{R, S}, {2, 8}}, 16))
    EXPECT_LE(count, 1);
}

// Replica groups that stay what they are, or grow, take nothing from beyond themselves.
TEST(TransferSpread, StaysInsideReplicas) {
  const GlobalLayout from = build_ragged({{50}, {31}}, 12), to = build_flat({{50}, {31}}, 12);
  for (int rank = 0; rank < 12; ++rank) {
    for (const Transfer& send : plan(from, {{R, S}, {3, 4}}, to, {{R, S}, {3, 4}}, rank).sends)
      EXPECT_EQ(send.peer / 4, rank / 4);
    for (const Transfer& send : plan(from, {{R, S}, {6, 2}}, to, {{R, S}, {3, 4}}, rank).sends)
      EXPECT_EQ(send.peer / 4, rank / 4);
    for (const Transfer& send : plan(from, {{R, S}, {3, 4}}, to, {{R, S}, {6, 2}}, rank).sends)
      EXPECT_EQ(send.peer / 4, rank / 4);
  }
}

// --- many ranks

constexpr int many = 100'000;

std::vector<Shape> many_tensors() {
  std::vector<Shape> shapes;
  for (int tensor = 0; tensor < 1000; ++tensor)
    shapes.push_back({100 + tensor % 7, 64 + tensor % 11});
  return shapes;
}

std::int64_t sum_with(const Transfers& transfers, int peer) {
  std::int64_t sum = 0;
  for (const Transfer& transfer : transfers)
    sum += transfer.peer == peer ? transfer.count : 0;
  return sum;
}

/// A few ranks' plans: no more than `most` transfers each, memory for these only, and both ends of each pair agree.
void check_scale(const char* what, const GlobalLayout& from, const Arrangement& before, const GlobalLayout& to,
                 const Arrangement& after, std::size_t most) {
  SCOPED_TRACE(what);
  const std::clock_t begin = std::clock(); // not the wall's, which other programs move
  int plans = 0;
  const auto planned = [&](int rank) {
    const std::size_t bytes_before = allocated_bytes;
    const TransferPlan result = plan(from, before, to, after, rank);
    const std::size_t transfers = result.sends.size() + result.receives.size();
    EXPECT_LE(allocated_bytes - bytes_before, 2048 + 128 * transfers) << "rank " << rank; // growth and sorting included
    EXPECT_LE(transfers, most) << "rank " << rank;
    ++plans;
    return result;
  };
  for (int rank = 0; rank < many && !testing::Test::HasFailure(); rank += 2 * many / 13 - 1) {
    const TransferPlan own = planned(rank);
    EXPECT_TRUE(own.sends.empty() || own.sends.back().peer < many);
    for (const int other : {rank, own.sends.empty() ? rank : own.sends.back().peer,
                            own.receives.empty() ? rank : own.receives.front().peer}) {
      const TransferPlan peers = planned(other);
      EXPECT_EQ(sum_with(own.sends, other), sum_with(peers.receives, rank));
      EXPECT_EQ(sum_with(own.receives, other), sum_with(peers.sends, rank));
    }
  }
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / plans;
  std::cout << what << ": " << 1e6 * seconds << " us a plan\n";
  EXPECT_LT(seconds, 0.03); // a loop over all ranks or replicas for each tensor takes longer
}

TEST(TransferScale, ManyRanks) {
  const std::vector<Shape> shapes = many_tensors();
  std::vector<int> owners(shapes.size());
  for (std::size_t tensor = 0; tensor < owners.size(); ++tensor)
    owners[tensor] = static_cast<int>(tensor * 99); // in steps, with empty segments between them
  const GlobalLayout flat = build_flat(shapes, many, {16, 4}), ragged = build_ragged(shapes, many),
                     atomic = build_tensor_atomic(shapes, many, owners);
  const Arrangement line{{S}, {many}}, square{{S, S}, {250, 400}}, groups{{R, S}, {100, 1000}},
      small_groups{{R, S}, {1000, 100}}, pairs{{R, S}, {many / 2, 2}}, everywhere{{R, R}, {250, 400}};
  check_scale("ragged to flat", ragged, line, flat, line, 6);
  check_scale("flat to ragged on another mesh", flat, square, ragged, line, 6);
  check_scale("whole tensors to flat", atomic, line, flat, line, 120);
  check_scale("flat to whole tensors", flat, line, atomic, line, 120);
  check_scale("replicas to none", ragged, groups, flat, square, 6);
  check_scale("none to replicas", flat, line, ragged, groups, 310);
  check_scale("many replicas", flat, pairs, ragged, pairs, 1100);
  check_scale("few parts to more", flat, small_groups, ragged, groups, 8);
  check_scale("all on every rank to parts", flat, everywhere, ragged, line, 6);
}

// --- what is refused

TEST(TransferErrors, Refused) {
  const GlobalLayout layout = build_flat({{3, 4}, {5}}, 6);
  const Arrangement line{{S}, {6}}, square{{R, S}, {2, 3}};
  EXPECT_NO_THROW(plan(layout, line, layout, square, 5));
  const auto refused = [&](Status status, const GlobalLayout& to, const Arrangement& before, const Arrangement& after,
                           int rank, std::initializer_list<std::string> parts) {
    expect_error(
        status, [&] { plan(layout, before, to, after, rank); }, parts);
  };
  refused(Status::SHAPE_MISMATCH, build_flat({{3, 4}, {6}}, 6), line, line, 0, {"tensor 1", "(5)", "(6)"});
  refused(Status::SHAPE_MISMATCH, build_flat({{4, 3}, {5}}, 6), line, line, 0, {"tensor 0", "(3, 4)", "(4, 3)"});
  refused(Status::SHAPE_MISMATCH, build_flat({{3, 4}}, 6), line, line, 0, {"2", "1"});
  refused(Status::INVALID_ARGUMENT, layout, line, {{S}, {3}}, 0, {"6 ranks", "3"});
  refused(Status::INVALID_ARGUMENT, layout, line, {{R, S}, {4, 3}}, 0, {"6 ranks", "12"});
  for (const int rank : {-1, 6})
    refused(Status::INVALID_ARGUMENT, layout, line, line, rank, {"[0, 6)", std::to_string(rank)});
  refused(Status::INVALID_ARGUMENT, layout, line, {{S, R}, {2, 3}}, 0, {"suffix"});
  refused(Status::INVALID_ARGUMENT, layout, {{S}, {2, 3}}, line, 0, {"[Shard]"});
  refused(Status::INVALID_ARGUMENT, build_flat({{3, 4}, {5}}, 4), line, line, 0, {"multiple of the 6 shards"});
  refused(Status::INVALID_ARGUMENT, layout, line, {{R}, {0}}, 0, {"size >= 1"});
  refused(Status::NOT_SUPPORTED, layout, {{P, S}, {2, 3}}, line, 0, {"[Partial(sum), Shard]", "axis 0"});
  refused(Status::NOT_SUPPORTED, layout, line, {{R, P}, {2, 3}}, 0, {"[Replicate, Partial(sum)]", "axis 1"});
  refused(Status::NOT_SUPPORTED, layout, {{R, R}, {1 << 20, 1 << 20}}, line, 0, {"32 bits"});
}

// Elements beyond 32 bits, from metadata alone.
TEST(TransferErrors, LargeTensors) {
  const GlobalLayout from = build_flat({{3'000'000'000}}, 2), to = build_ragged({{3'000'000'000}}, 3 * 2);
  const Arrangement line{{S}, {2}}, all{{R}, {2}};
  EXPECT_EQ(plan(from, line, to, all, 1).sends, (Transfers{{0, 0, 1'500'000'000}, {1, 0, 1'500'000'000}}));
  EXPECT_EQ(plan(from, line, to, all, 0).receives,
            (Transfers{{0, 0, 1'500'000'000}, {1, 1'500'000'000, 1'500'000'000}}));
}

} // namespace
} // namespace ostraka::buffer::test
