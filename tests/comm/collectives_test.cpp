// SPDX-License-Identifier: Apache-2.0
// Moving collectives in every type, with pieces of every kind and every limit, against copies done here.
#include "oracle.hpp"

namespace ostraka::comm::test {
namespace {

double value(int r, std::int64_t i) { return static_cast<double>((r * 31 + i * 7) % 128); }

/// body(group, stream) for every way to run operations.
template <class Body>
void for_all_groups(Body&& body) {
  const auto stream = runtime::make_host_compute_stream();
  for (const MpiSettings settings : all_settings())
    for (const auto& group : all_groups("data", settings)) {
      SCOPED_TRACE(text(settings));
      body(*group, *stream);
    }
}

std::vector<double> gathered(const Segments& pieces) {
  std::vector<double> all;
  for (int r = 0; r < ranks; ++r)
    for (std::int64_t i = 0; i < pieces.range(r).size(); ++i)
      all.push_back(value(r, i));
  return all;
}

void check_allgather(Communicator& group, runtime::Stream& stream, const Segments& pieces, DType dtype) {
  const std::int64_t own = pieces.range(rank).size(), size = pieces.size();
  const std::vector<double> mine = generated(own, [](std::int64_t i) { return value(rank, i); });
  const Operand in = operand(mine, dtype), out = operand(size + 1, 99, dtype);
  group.allgather(stream, in, out, pieces, dtype);
  EXPECT_EQ(values(out, size, dtype), gathered(pieces));
  EXPECT_EQ(values(part(out, size, dtype), 1, dtype)[0], 99);
  EXPECT_EQ(values(in, own, dtype), mine);
  // In place, at an offset inside the storage.
  const Operand whole = part(operand(size + 4, 99, dtype), 4, dtype);
  const Operand place = part(whole, pieces.begin(rank), dtype);
  for (std::int64_t i = 0; i < own; ++i)
    set_element(place.data(), i, dtype, value(rank, i));
  group.allgather(stream, place, whole, pieces, dtype);
  EXPECT_EQ(values(whole, size, dtype), gathered(pieces));
  EXPECT_EQ(values(part(whole, -4, dtype), 4, dtype), std::vector<double>(4, 99));
}

TEST(Collectives, Allgather) {
  for_all_groups([](Communicator& group, runtime::Stream& stream) {
    for (const DType dtype : all_types)
      for (const Segments& segments : all_pieces()) {
        SCOPED_TRACE(std::string(name(dtype)) + " " + text(segments));
        check_allgather(group, stream, segments, dtype);
      }
  });
}

// Some ranks in place, others not, and one storage wrapped twice: the place counts, not the object.
TEST(Collectives, AllgatherInPlaceOnSomeRanks) {
  for_all_groups([](Communicator& group, runtime::Stream& stream) {
    for (const Segments& segments : all_pieces()) {
      SCOPED_TRACE(text(segments));
      const std::int64_t own = segments.range(rank).size();
      const Operand out = operand(segments.size(), 99, DType::f64);
      const Operand place = part(out, segments.begin(rank), DType::f64);
      const std::vector<double> mine = generated(own, [](std::int64_t i) { return value(rank, i); });
      const auto wrapped = std::make_shared<memory::Storage>(place.data(), own * 8, runtime::Device::host);
      Operand in = rank % 2 == 0 ? Operand{wrapped, 0} : operand(mine, DType::f64);
      if (own == 0)
        in = out; // that nothing is sent from there is all that matters
      for (std::int64_t i = 0; i < own; ++i)
        set_element(in.data(), i, DType::f64, value(rank, i));
      group.allgather(stream, in, out, segments, DType::f64);
      EXPECT_EQ(values(out, segments.size(), DType::f64), gathered(segments));
    }
  });
}

TEST(Collectives, Broadcast) {
  for_all_groups([](Communicator& group, runtime::Stream& stream) {
    for (int root = 0; root < ranks; ++root)
      for (const std::int64_t bytes : {0, 1, 3, 8, 61, 500}) {
        SCOPED_TRACE(std::to_string(bytes) + " bytes from " + std::to_string(root));
        const auto from = [](int r) { return [r](std::int64_t i) { return value(r, i); }; };
        const Operand data = operand(generated(bytes + 1, from(rank)), DType::u8);
        group.broadcast(stream, data, bytes, root);
        EXPECT_EQ(values(data, bytes, DType::u8), generated(bytes, from(root)));
        EXPECT_EQ(values(part(data, bytes, DType::u8), 1, DType::u8)[0], value(rank, bytes));
      }
  });
}

TEST(Collectives, WrongArgumentsLeaveTheGroupUsable) {
  for_all_groups([](Communicator& group, runtime::Stream& stream) {
    const Operand data = operand(8 * (ranks + 1), rank, DType::f64), out = operand(8 * (ranks + 1), -1, DType::f64);
    for (const int root : {-1, ranks})
      expect_error(Status::INVALID_ARGUMENT, [&] { group.broadcast(stream, data, 64, root); },
                   {"data", "broadcast", std::to_string(root)});
    for (const int count : {ranks - 1, ranks + 1}) {
      const Segments wrong = Segments::equal(count, 8);
      expect_error(Status::INVALID_ARGUMENT, [&] { group.allgather(stream, data, out, wrong, DType::f64); },
                   {"data", "allgather", std::to_string(ranks) + " pieces", "found " + std::to_string(count)});
      expect_error(Status::INVALID_ARGUMENT,
                   [&] { group.reduce_scatter(stream, data, out, wrong, DType::f64, ReduceOp::sum); },
                   {"data", "reduce-scatter", std::to_string(ranks) + " pieces", "found " + std::to_string(count)});
    }
    for (const int op : {-1, 5})
      expect_error(Status::INVALID_ARGUMENT,
                   [&] { group.allreduce(stream, data, 8, DType::f64, static_cast<ReduceOp>(op)); },
                   {"allreduce", "found " + std::to_string(op)});
    EXPECT_EQ(values(out, 8, DType::f64), std::vector<double>(8, -1));
    EXPECT_EQ(group.failure(), "");
    group.broadcast(stream, data, 64, ranks - 1);
    EXPECT_EQ(values(data, 8, DType::f64), std::vector<double>(8, ranks - 1));
  });
}

int handler_calls = 0;
void count_call(MPI_Comm*, int*, ...) { ++handler_calls; }

// The caller's handler, which may be any, is not ours to change.
TEST(Collectives, TheHandlerOfTheWorldStays) {
  MPI_Errhandler own = MPI_ERRHANDLER_NULL, former = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(count_call, &own);
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &former);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
  for_all_groups([](Communicator& group, runtime::Stream& stream) {
    group.allreduce(stream, operand(8, 1, DType::f64), 8, DType::f64, ReduceOp::sum);
    group.broadcast(stream, operand(8, 1, DType::f64), 64, 0);
  });
  EXPECT_EQ(handler_calls, 0);
  MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER);
  EXPECT_EQ(handler_calls, 1);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, former);
  MPI_Errhandler_free(&own);
  MPI_Errhandler_free(&former);
}

TEST(Collectives, ImpossibleLimitsAreRefused) {
  for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{-1}, no_limit + 1}) {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    expect_error(Status::INVALID_ARGUMENT,
                 [&] {
                   make_mpi_communicator(copy, "data", {false, limit});
                 },
                 {"data", std::to_string(limit)});
    MPI_Comm_free(&copy);
  }
  EXPECT_EQ(MpiSettings{}.count_limit, no_limit);
}

} // namespace
} // namespace ostraka::comm::test
