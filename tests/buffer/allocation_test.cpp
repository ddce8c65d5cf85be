// SPDX-License-Identifier: Apache-2.0
// Memory that cannot be had: an error on every rank before anything is communicated, nothing taken, everything usable.
#include "buffer_test.hpp"

#include <sys/resource.h>

#include <fstream>

namespace ostraka::buffer::test {
namespace {

constexpr std::int64_t too_many = std::int64_t{1} << 44; // elements: 128 TiB of f64

struct OutOfMemory : testing::Test {
  std::vector<std::int64_t> in_use() const {
    std::vector<std::int64_t> bytes;
    for (int kind = 0; kind < memory::num_kinds; ++kind)
      bytes.push_back(mesh->arena()->usage(static_cast<memory::Kind>(kind)).in_use);
    return bytes;
  }

  // `action` fails everywhere; the data and the communicators are as before.
  void expect_out_of_memory(const std::function<void()>& action, std::initializer_list<std::string> parts = {}) {
    const auto before = in_use();
    const int growths = mesh->arena()->growths();
    expect_error(Status::OUT_OF_MEMORY, action, parts);
    EXPECT_EQ(in_use(), before);
    EXPECT_EQ(mesh->arena()->growths(), growths);
    expect_values(own, small);
    expect_values(own.allgather(0), small);
  }

  // Storage that claims more than there is; nobody looks inside.
  DBuffer pretended(const Placements& placements, std::uintptr_t address) const {
    const std::int64_t bytes = 8 * huge->local_range(placements, mesh->position()).size();
    auto storage = std::make_shared<memory::Storage>(reinterpret_cast<void*>(address), bytes, mesh->device());
    return DBuffer::from_storage(std::move(storage), mesh, placements, huge, DType::f64);
  }

  MeshPtr mesh = mesh_of({1, 1, ranks});
  LayoutPtr huge = share(build_flat({{too_many * ranks}}, ranks));
  DBuffer own = [&] {
    const DBuffer buffer(mesh_of({ranks}), {S}, reference_of({{5, 4}, {3}}), DType::f64);
    fill(buffer, small);
    return buffer;
  }();
};

TEST_F(OutOfMemory, NewBuffers) {
  const Placements cut{S, S, S};
  expect_out_of_memory([&] { DBuffer(mesh, cut, huge, DType::f64); }, {"arena", std::to_string(8 * too_many)});
  expect_out_of_memory(
      [&] {
        DBuffer(mesh, cut, huge, DType::u8, {nullptr, memory::Kind::transient});
      },
      {std::to_string(too_many)});
  expect_error(Status::INVALID_ARGUMENT,
               [&] {
                 DBuffer(mesh, {R, R, R}, share(build_flat({{std::int64_t{1} << 61}}, ranks)), DType::f64);
               },
               {"bytes", "64 bits"});
}

TEST_F(OutOfMemory, Reallocation) {
  DBuffer late(mesh, {S, S, S}, huge, DType::f64, {nullptr, memory::Kind::gradients, false});
  for (int attempt = 0; attempt < 2; ++attempt) {
    expect_out_of_memory([&] { late.reallocate_storage(); });
    EXPECT_FALSE(late.is_allocated());
  }
}

TEST_F(OutOfMemory, ResultsOfOperations) {
  const DBuffer part = pretended({S, S, S}, 1ul << 46), sum = pretended({P, P, P}, 1ul << 46);
  expect_out_of_memory([&] { part.redistribute({R, R, R}); });
  expect_out_of_memory([&] { part.cast(DType::f32); });
  expect_out_of_memory([&] { sum.redistribute({S, S, S}); });
  expect_out_of_memory([&] { sum.redistribute({R, R, R}); });
}

// The scratch of a reduction over several axes.
TEST_F(OutOfMemory, Scratch) {
  if (ranks == 1)
    GTEST_SKIP() << "everything fits into the result";
  mesh = mesh_of({1, ranks, 1});
  const DBuffer sum = pretended({P, P, P}, 1ul << 46), out = pretended({S, S, S}, 1ul << 59);
  expect_out_of_memory([&] { sum.redistribute({S, S, S}, &out); });
}

std::int64_t address_space() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

// What the process may still map, for the life of this object.
class AddressLimit {
public:
  explicit AddressLimit(std::int64_t bytes) {
    getrlimit(RLIMIT_AS, &old_);
    rlimit limited = old_;
    limited.rlim_cur = static_cast<rlim_t>(address_space() + bytes);
    setrlimit(RLIMIT_AS, &limited);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &old_); }

private:
  rlimit old_{};
};

constexpr std::int64_t mebi = std::int64_t{1} << 20;

// ulimit -v: a request beyond it is refused, smaller ones and other memory can be had, of both kinds of blocks.
TEST_F(OutOfMemory, UnderALimitOfAddresses) {
  for (const std::int64_t limit : {1024 * mebi, 1030 * mebi, 700 * mebi}) {
    SCOPED_TRACE(limit / mebi);
    const auto arena = memory::make_host_arena();
    const AddressLimit limited(limit);
    expect_error(Status::OUT_OF_MEMORY, [&] { memory::Storage(arena, 2 * limit, memory::Kind::other); },
                 {std::to_string(2 * limit)});
    EXPECT_EQ(arena->usage(memory::Kind::other).in_use, 0);
    {
      const memory::Storage weights(arena, 4 * mebi, memory::Kind::other),
          slot(arena, 4 * mebi, memory::Kind::transient);
      for (const memory::Storage* storage : {&weights, &slot})
        storage->data()[0] = storage->data()[4 * mebi - 1] = std::byte{1};
      std::unique_ptr<char[]> others; // everybody else needs addresses, too
      EXPECT_NO_THROW(others.reset(new char[static_cast<std::size_t>(limit / 8)]));
      expect_error(Status::OUT_OF_MEMORY, [&] { memory::Storage(arena, limit, memory::Kind::transient); });
    }
    EXPECT_EQ(arena->usage(memory::Kind::transient).in_use, 0);
  }
  expect_values(own.allgather(0), small);
}

} // namespace
} // namespace ostraka::buffer::test
