// SPDX-License-Identifier: Apache-2.0
// The simple buffer of seed 003 (spec 1.9).
#include "buffer_test.hpp"
#include <ostraka/buffer/flat_buffer.hpp>

namespace ostraka::buffer::test {
namespace {

const std::byte* bytes(const void* address) { return static_cast<const std::byte*>(address); }

std::int64_t padded(std::int64_t count, int n) { return (count + n - 1) / n * n; }

TEST(FlatBuffer, TheNumbersOfTheSpec) {
  const auto mesh = mesh_of({ranks});
  const FlatBuffer buffer(mesh, {{5, 3}, {4, 3}, {7}});
  EXPECT_EQ(buffer.dtype(), DType::bf16);
  EXPECT_EQ(buffer.num_tensors(), 3);
  EXPECT_EQ(buffer.padded_numel(), padded(34, ranks)); // 36 on four ranks
  EXPECT_EQ(buffer.shard_numel(), padded(34, ranks) / ranks);
  const std::int64_t offsets[] = {0, 15, 27};
  const std::vector<FlatBuffer::View> views = buffer.views();
  ASSERT_EQ(views.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(buffer.view(i).data, views[static_cast<std::size_t>(i)].data);
    EXPECT_EQ(bytes(buffer.view(i).data) - bytes(buffer.data()), 2 * offsets[i]);
  }
  EXPECT_EQ(buffer.view(0).shape, (Shape{5, 3}));
  EXPECT_EQ(views[2].shape, Shape{7});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
  const FlatBuffer cut(mesh, {{5, 4}, {2, 6}, {3}}); // elements of a row may go to two ranks
  EXPECT_EQ(cut.padded_numel(), padded(35, ranks));
  // New memory held NaN.
  EXPECT_EQ(elements(buffer.data(), buffer.padded_numel(), DType::bf16),
            std::vector<double>(static_cast<std::size_t>(buffer.padded_numel()), 0));
}

struct Case {
  std::vector<Shape> shapes;
  std::int64_t numel;
};

std::vector<Case> cases() {
  return {{{{5, 3}, {4, 3}, {7}}, 34},
          {{{5, 4}, {2, 6}, {3}}, 35},
          {{{}}, 1},
          {{{}, {}, {3}}, 5},
          {{{0, 4}, {2}, {3, 0}}, 2},
          {{}, 0},
          {{{0}}, 0},
          {{{101}}, 101},
          {{{1}, {1}, {1}, {1}}, 4},
          {{{2, 3, 2, 2}}, 24}};
}

void set_all(const FlatBuffer& buffer, const Values& value) {
  for (std::int64_t i = 0; i < buffer.padded_numel(); ++i)
    set_element(const_cast<void*>(buffer.data()), i, buffer.dtype(), value(i));
}

// Sums over the group, its own part only; then everybody's parts.
void reduce_and_gather(const MeshPtr& mesh, int axis, const Case& c, DType dtype) {
  SCOPED_TRACE("axis " + std::to_string(axis) + ", " + std::to_string(c.numel) + " elements of " + name(dtype));
  const int n = mesh->axis_size(axis), own = mesh->coordinate(axis);
  const int line = rank - own * (axis == 0 && mesh->dims() == 2 ? mesh->axis_size(1) : 1); // tells groups apart
  FlatBuffer buffer(mesh, c.shapes, dtype, axis);
  const std::int64_t shard = buffer.shard_numel();
  ASSERT_EQ(buffer.padded_numel(), padded(c.numel, n));
  ASSERT_EQ(shard * n, buffer.padded_numel());
  const std::int64_t width = width_of(dtype);
  EXPECT_EQ(bytes(buffer.local_shard()) - bytes(buffer.data()), own * shard * width);
  const auto value = [&](int member, std::int64_t i) {
    return i < c.numel ? static_cast<double>((i + 2 * line) % 5 + member) : 0.0;
  };
  const auto sum = [&](std::int64_t i) {
    double total = 0;
    for (int member = 0; member < n; ++member)
      total += value(member, i);
    return total;
  };
  set_all(buffer, [&](std::int64_t i) { return value(own, i); });
  buffer.reduce_scatter();
  for (std::int64_t i = 0; i < buffer.padded_numel(); ++i)
    ASSERT_EQ(element(buffer.data(), i, dtype), i / shard == own ? sum(i) : value(own, i)) << i;
  for (std::int64_t i = 0; i < buffer.padded_numel(); ++i)
    if (i / shard != own)
      set_element(buffer.data(), i, dtype, 99);
  buffer.all_gather();
  for (std::int64_t i = 0; i < buffer.padded_numel(); ++i)
    ASSERT_EQ(element(buffer.data(), i, dtype), sum(i)) << i;
}

TEST(FlatBuffer, ReduceScatterAndAllGather) {
  const auto mesh = mesh_of({ranks});
  for (const Case& c : cases())
    for (const DType dtype : all_types)
      reduce_and_gather(mesh, 0, c, dtype);
}

TEST(FlatBuffer, AlongAnyAxis) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    for (const int axis : {0, 1})
      for (const Case& c : cases())
        for (const DType dtype : {DType::bf16, DType::f64})
          reduce_and_gather(mesh, axis, c, dtype);
  }
}

TEST(FlatBuffer, ViewsAreParts) {
  const auto mesh = mesh_of({ranks});
  const FlatBuffer buffer(mesh, {{2, 3}, {0}, {}, {4}}, DType::i32);
  for (int i = 0; i < 4; ++i) {
    const FlatBuffer::View view = buffer.view(i);
    for (std::int64_t e = 0; e < numel(view.shape); ++e)
      set_element(view.data, e, DType::i32, 100 * i + static_cast<double>(e));
  }
  EXPECT_EQ(elements(buffer.data(), 11, DType::i32), (std::vector<double>{0, 1, 2, 3, 4, 5, 200, 300, 301, 302, 303}));
  for (std::int64_t i = 11; i < buffer.padded_numel(); ++i)
    EXPECT_EQ(element(buffer.data(), i, DType::i32), 0);
  const std::vector<Shape> shapes{{2, 3}, {0}, {}, {4}};
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(buffer.views()[static_cast<std::size_t>(i)].shape, shapes[static_cast<std::size_t>(i)]);
}

TEST(FlatBuffer, GivesItsMemoryBack) {
  const auto mesh = mesh_of({ranks});
  const memory::Usage& usage = mesh->arena()->usage(memory::Kind::other);
  {
    const FlatBuffer buffer(mesh, {{100}}, DType::f64);
    const FlatBuffer copy = buffer; // refers to the same memory
    EXPECT_EQ(copy.data(), buffer.data());
    EXPECT_EQ(usage.in_use, (8 * padded(100, ranks) + 63) / 64 * 64);
  }
  EXPECT_EQ(usage.in_use, 0);
}

TEST(FlatBuffer, WrongArguments) {
  const auto mesh = mesh_of({1, ranks});
  const auto expect_refused = [](MeshPtr on, std::vector<Shape> shapes, DType dtype, int axis,
                                 std::initializer_list<std::string> parts) {
    expect_error(
        Status::INVALID_ARGUMENT, [&] { FlatBuffer(on, shapes, dtype, axis); }, parts);
  };
  expect_refused(nullptr, {{2}}, DType::f32, 0, {"flat buffer", "mesh is null"});
  for (const int axis : {-1, 2})
    expect_refused(mesh, {{2}}, DType::f32, axis, {"axis", std::to_string(axis)});
  expect_refused(mesh, {{2}, {3, -1}}, DType::f32, 0, {"(3, -1)"});
  expect_refused(mesh, {{2}}, static_cast<DType>(9), 0, {"9"});
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  expect_refused(mesh, {{huge}, {huge}}, DType::u8, 0, {"64 bits"});
  expect_refused(mesh, {{huge}}, DType::f64, 0, {"bytes"});
  expect_error(Status::OUT_OF_MEMORY, [&] { FlatBuffer(mesh, {{std::int64_t{1} << 50}}, DType::u8); });
  EXPECT_EQ(mesh->arena()->usage(memory::Kind::other).in_use, 0);
  const FlatBuffer buffer(mesh, {{2}, {3}});
  for (const int index : {-1, 2})
    expect_error(Status::INVALID_ARGUMENT, [&] { buffer.view(index); }, {"flat buffer", std::to_string(index)});
}

} // namespace
} // namespace ostraka::buffer::test
