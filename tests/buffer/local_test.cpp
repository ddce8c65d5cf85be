// SPDX-License-Identifier: Apache-2.0
// Operations without communication: construction, copies, views, casts, accessors.
#include "buffer_test.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace ostraka::buffer::test {
namespace {

const std::vector<Shape> three{{7, 3}, {2, 5}, {7}};

TEST(Construct, RangesOfOneAxis) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(three);
  EXPECT_EQ(layout->size() % (15 * ranks), 0);
  const DBuffer whole(mesh, {R}, layout, DType::f32), own(mesh, {S}, layout, DType::f32);
  EXPECT_EQ(whole.range(), (Range{0, layout->size()}));
  EXPECT_EQ(own.range().begin, rank * layout->size() / ranks);
  EXPECT_EQ(own.numel(), layout->size() / ranks);
  EXPECT_EQ(own.bytes(), own.numel() * 4);
  EXPECT_EQ(own.mesh(), mesh);
  EXPECT_EQ(own.layout(), layout);
  EXPECT_EQ(own.dtype(), DType::f32);
  EXPECT_EQ(own.placements(), Placements{S});
  EXPECT_TRUE(own.is_valid());
  EXPECT_FALSE(DBuffer().is_valid());
  EXPECT_FALSE(whole.is_alias_of(own));
  // Everything is zero although new memory held NaN.
  expect_values(whole, [](std::int64_t) { return 0; });
}

TEST(Construct, OffsetsOfTwoAxes) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const auto layout = reference_of(three);
    const std::int64_t size = layout->size();
    const int outer = mesh->coordinate(0), inner = mesh->coordinate(1);
    const DBuffer own(mesh, {S, S}, layout, DType::f64);
    EXPECT_EQ(own.range().begin, inner * (size / sizes[1]) + outer * (size / (sizes[0] * sizes[1])));
    EXPECT_EQ(own.numel(), size / ranks);
    const DBuffer line(mesh, {R, S}, layout, DType::f64);
    EXPECT_EQ(line.range().begin, inner * (size / sizes[1]));
    EXPECT_EQ(line.numel(), size / sizes[1]);
    const DBuffer whole(mesh, {P, A}, layout, DType::f64);
    EXPECT_EQ(whole.numel(), size);
    for (const Placements& wrong : {Placements{S, R}, Placements{S, P}})
      expect_error(Status::INVALID_ARGUMENT, [&] { DBuffer(mesh, wrong, layout, DType::f64); }, {"suffix"});
  }
}

TEST(Construct, TheTableOfTheSpec) {
  if (ranks != 4)
    GTEST_SKIP() << "needs four ranks";
  const auto mesh = mesh_of({2, 2});
  const auto layout = reference_of(three);
  ASSERT_EQ(layout->size(), 60);
  const Range both[] = {{0, 15}, {30, 45}, {15, 30}, {45, 60}}; // ranks (0,0) (0,1) (1,0) (1,1)
  const Range inner[] = {{0, 30}, {30, 60}, {0, 30}, {30, 60}};
  EXPECT_EQ(DBuffer(mesh, {S, S}, layout, DType::f64).range(), both[rank]);
  EXPECT_EQ(DBuffer(mesh, {R, S}, layout, DType::f64).range(), inner[rank]);
}

TEST(Construct, Empty) {
  const auto mesh = mesh_of({ranks});
  const DBuffer buffer = DBuffer::empty(mesh, {S}, three, DType::i32);
  EXPECT_EQ(*buffer.layout(), build_reference(three, ranks));
  expect_values(buffer, [](std::int64_t) { return 0; });
  EXPECT_EQ(DBuffer::empty(mesh, {S}, {}, DType::f64).numel(), 0);
  EXPECT_EQ(DBuffer::empty(mesh, {R}, {{0, 4}}, DType::f64).numel(), 0);
  expect_error(Status::INVALID_ARGUMENT, [&] { DBuffer::empty(mesh, {S}, {{3, 0}}, DType::f64); });
  expect_error(Status::INVALID_ARGUMENT, [&] { DBuffer::empty(nullptr, {S}, three, DType::f64); }, {"mesh"});
}

TEST(Construct, WrongArguments) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(three);
  expect_error(Status::INVALID_ARGUMENT, [&] { DBuffer(nullptr, {S}, layout, DType::f64); }, {"mesh is null"});
  expect_error(Status::INVALID_ARGUMENT, [&] { DBuffer(mesh, {S}, nullptr, DType::f64); }, {"layout is null"});
  expect_error(Status::INVALID_ARGUMENT, [&] { DBuffer(mesh, {S, S}, layout, DType::f64); }, {"expected 1 placements"});
  expect_error(Status::INVALID_ARGUMENT, [&] { DBuffer(mesh, {S}, layout, static_cast<DType>(9)); }, {"9"});
  if (ranks > 1) {
    const auto other = reference_of(three, ranks + 1);
    expect_error(Status::INVALID_ARGUMENT, [&] { DBuffer(mesh, {S}, other, DType::f64); },
                 {std::to_string(ranks + 1) + " segments"});
  }
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    expect_error(Status::TYPE_MISMATCH, [&] { DBuffer(mesh, {A}, layout, dtype); }, {"mean", name(dtype)});
    const DBuffer whole(mesh, {R}, layout, dtype);
    expect_error(Status::TYPE_MISMATCH, [&] { whole.view({A}); }, {"mean", name(dtype)});
    expect_error(Status::TYPE_MISMATCH, [&] { whole.redistribute({A}); }, {"mean", name(dtype)});
  }
}

TEST(Construct, MoreSegmentsThanRanks) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(three, 3 * ranks);
  const DBuffer own(mesh, {S}, layout, DType::f64);
  EXPECT_EQ(own.range(), (Range{rank * layout->size() / ranks, (rank + 1) * layout->size() / ranks}));
}

TEST(FromLocal, WrapsTheMemoryOfTheCaller) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of({{5, 4}, {2, 6}, {3}}, ranks); // with padding
  const Range own = DBuffer(mesh, {S}, layout, DType::f64).range();
  const CallerMemory memory(mesh->device(), 8 * own.size());
  const DBuffer buffer = DBuffer::from_local(memory.data(), own.size(), mesh, {S}, layout, DType::f64);
  EXPECT_EQ(static_cast<std::byte*>(buffer.data()), memory.data());
  fill(buffer, small);
  const DBuffer gathered = buffer.allgather(0);
  expect_values(gathered, small);
  expect_error(Status::SHAPE_MISMATCH,
               [&] { DBuffer::from_local(memory.data(), own.size() + 1, mesh, {S}, layout, DType::f64); },
               {std::to_string(own.size()), std::to_string(own.size() + 1)});
  expect_error(Status::INVALID_ARGUMENT,
               [&] { DBuffer::from_local(nullptr, own.size(), mesh, {S}, layout, DType::f64); }, {"null"});
  DBuffer released = buffer;
  expect_error(Status::INVALID_STATE, [&] { released.release_storage(); }, {"caller"});
}

TEST(FromLocal, PaddingIsRefusedOrCleared) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of({{5, 4}, {2, 6}, {3}}, ranks);
  ASSERT_GT(layout->padding(), 0);
  for (const DType dtype : {DType::f64, DType::bf16, DType::u8}) {
    const std::int64_t width = width_of(dtype);
    const CallerMemory memory(mesh->device(), layout->size() * width);
    memory.fill(std::byte{0xff});
    expect_error(Status::INVALID_ARGUMENT,
                 [&] { DBuffer::from_local(memory.data(), layout->size(), mesh, {R}, layout, dtype); },
                 {"padding", "not zero"});
    const std::vector<std::byte> before = memory.contents();
    EXPECT_TRUE(std::all_of(before.begin(), before.end(), [](std::byte b) { return b == std::byte{0xff}; }));
    const DBuffer cleared =
        DBuffer::from_local(memory.data(), layout->size(), mesh, {R}, layout, dtype, Padding::clear);
    const std::vector<bool> payload = payload_of(*layout);
    const std::vector<std::byte> after = memory.contents();
    for (std::size_t i = 0; i < after.size(); ++i)
      EXPECT_EQ(after[i], payload[i / static_cast<std::size_t>(width)] ? std::byte{0xff} : std::byte{0}) << i;
    EXPECT_NO_THROW(DBuffer::from_local(memory.data(), layout->size(), mesh, {R}, layout, dtype));
    // A single wrong byte in the last gap is found.
    std::size_t last = payload.size() - 1;
    while (payload[last])
      --last;
    const std::byte wrong{1};
    write_at(memory.data() + static_cast<std::int64_t>(last + 1) * width - 1, &wrong, 1);
    expect_error(Status::INVALID_ARGUMENT,
                 [&] { DBuffer::from_local(memory.data(), layout->size(), mesh, {R}, layout, dtype); });
  }
}

// Memory of the host is copied to a mesh of GPUs.
TEST(FromLocal, HostMemoryOnADevice) {
  const auto mesh = mesh_of({ranks});
  if (mesh->device() == runtime::Device::host)
    GTEST_SKIP() << "needs OSTRAKA_DEVICE=cuda";
  const auto layout = reference_of({{5, 4}, {2, 6}, {3}}, ranks);
  const Range own = DBuffer(mesh, {S}, layout, DType::f64).range();
  std::vector<double> memory(static_cast<std::size_t>(own.size()), 5);
  const DBuffer buffer = DBuffer::from_local(memory.data(), own.size(), mesh, {S}, layout, DType::f64, Padding::clear);
  memory.assign(memory.size(), 6);
  expect_values(buffer, [](std::int64_t) { return 5; });
  EXPECT_TRUE(own.size() == 0 || runtime::is_device_memory(buffer.data()));
  if (layout->gaps(own).empty())
    return;
  expect_error(Status::INVALID_ARGUMENT,
               [&] { DBuffer::from_local(memory.data(), own.size(), mesh, {S}, layout, DType::f64); }, {"padding"});
}

TEST(FromStorage, UsesItsBegin) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(three);
  const auto storage = std::make_shared<memory::Storage>(mesh->arena(), layout->size() * 8, memory::Kind::transient);
  const DBuffer whole = DBuffer::from_storage(storage, mesh, {R}, layout, DType::f64);
  const DBuffer own = DBuffer::from_storage(storage, mesh, {S}, layout, DType::f64);
  EXPECT_EQ(whole.data(), own.data());
  EXPECT_TRUE(whole.is_alias_of(own));
  expect_error(Status::SHAPE_MISMATCH,
               [&] {
                 DBuffer::from_storage(std::make_shared<memory::Storage>(mesh->arena(), 8, memory::Kind::other), mesh,
                                       {R}, layout, DType::f64);
               },
               {std::to_string(layout->size() * 8), "8"});
  expect_error(Status::INVALID_ARGUMENT, [&] { DBuffer::from_storage(nullptr, mesh, {R}, layout, DType::f64); });
}

std::vector<std::vector<std::byte>> whole_tensors(const GlobalLayout& layout, DType dtype) {
  std::vector<std::vector<std::byte>> tensors;
  for (int i = 0; i < layout.num_tensors(); ++i) {
    const Range range = layout.tensor_range(i);
    std::vector<double> values;
    for (std::int64_t e = range.begin; e < range.end; ++e)
      values.push_back(small(e));
    tensors.push_back(encode(values, dtype));
  }
  return tensors;
}

std::vector<const void*> addresses(const std::vector<std::vector<std::byte>>& tensors) {
  std::vector<const void*> result;
  for (const auto& tensor : tensors)
    result.push_back(tensor.data());
  return result;
}

TEST(Distribute, EveryRankKeepsItsPart) {
  const std::vector<Shape> shapes{{7, 3}, {2, 5}, {0, 2}, {7}, {2, 2, 3}};
  const auto mesh = mesh_of({ranks});
  for (const DType dtype : all_types)
    for (const Placements& placements : {Placements{S}, Placements{R}, Placements{P}})
      for (const LayoutPtr& layout :
           {LayoutPtr(), std::make_shared<const GlobalLayout>(build_planned(shapes, ranks, {4, 2}))}) {
        const auto used = layout ? layout : reference_of(shapes);
        const auto tensors = whole_tensors(*used, dtype);
        const DBuffer buffer = DBuffer::distribute_tensors(addresses(tensors), shapes, dtype, mesh, placements, layout);
        EXPECT_EQ(*buffer.layout(), *used);
        expect_values(buffer, small);
      }
}

TEST(Distribute, WrongArguments) {
  const auto mesh = mesh_of({ranks});
  const std::vector<double> tensor(21, 1);
  const std::vector<const void*> one{tensor.data()}, null{nullptr};
  const auto distribute = [&](std::span<const void* const> tensors, std::vector<Shape> shapes,
                              LayoutPtr layout = nullptr) {
    return [=] { DBuffer::distribute_tensors(tensors, shapes, DType::f64, mesh, {S}, layout); };
  };
  expect_error(Status::INVALID_ARGUMENT, distribute({}, {}), {"at least one"});
  expect_error(Status::INVALID_ARGUMENT, distribute(one, {{7, 3}, {2}}), {"1 tensors", "2 shapes"});
  expect_error(Status::SHAPE_MISMATCH, distribute(one, {{3, 7}}, reference_of({{7, 3}})), {"other shapes"});
  expect_error(Status::INVALID_ARGUMENT, distribute(null, {{7, 3}}), {"tensor 0", "null"});
}

TEST(CopyFrom, ConvertsAndChecks) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(three);
  for (const DType from : all_types)
    for (const DType to : all_types) {
      DBuffer buffer(mesh, {S}, layout, to);
      const auto tensors = whole_tensors(*layout, from);
      for (int i = 0; i < layout->num_tensors(); ++i)
        buffer.copy_from(i, tensors[static_cast<std::size_t>(i)].data(), layout->tensor_range(i).size(), from);
      expect_values(buffer, small);
    }
  // Rounding: to nearest, ties to even.
  DBuffer narrow(mesh, {R}, reference_of({{4}}), DType::bf16);
  const float values[] = {257, 259, 1.00390625f, -3.0e38f};
  narrow.copy_from(0, values, 4, DType::f32);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(element(narrow.data(), i, DType::bf16), bf16_value(round_to_bf16(values[i])));
  DBuffer buffer(mesh, {S}, layout, DType::f64);
  const std::vector<double> tensor(21, 1);
  expect_error(Status::SHAPE_MISMATCH, [&] { buffer.copy_from(0, tensor.data(), 20, DType::f64); },
               {"tensor 0", "(7, 3)", "21", "20"});
  expect_error(Status::INVALID_ARGUMENT, [&] { buffer.copy_from(0, nullptr, 21, DType::f64); }, {"tensor 0", "null"});
  for (const int index : {-1, 3})
    expect_error(Status::INVALID_ARGUMENT, [&] { buffer.copy_from(index, tensor.data(), 21, DType::f64); },
                 {std::to_string(index)});
  expect_values(buffer, [](std::int64_t) { return 0; });
}

// Also on ranks that own nothing of the tensor.
TEST(CopyFrom, WrongTypesAreRefusedEverywhere) {
  const auto mesh = mesh_of({ranks});
  DBuffer buffer(mesh, {S}, reference_of({{1}, {64}}), DType::f64);
  const std::int64_t number = 3;
  expect_error(Status::INVALID_ARGUMENT, [&] { buffer.copy_from(0, &number, 1, static_cast<DType>(77)); }, {"77"});
}

TEST(View, ContainedRanges) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const auto layout = reference_of(three);
    const DBuffer whole(mesh, {R, R}, layout, DType::f32);
    fill(whole, small);
    for (const Placements& placements :
         {Placements{R, S}, Placements{S, S}, Placements{P, S}, Placements{A, S}, Placements{P, P}, Placements{R, A}}) {
      const DBuffer view = whole.view(placements);
      EXPECT_EQ(view.placements(), placements);
      EXPECT_TRUE(view.is_alias_of(whole));
      EXPECT_EQ(view.range(), range_of(*layout, placements, sizes, rank));
      EXPECT_EQ(static_cast<std::byte*>(view.data()) - static_cast<std::byte*>(whole.data()), view.range().begin * 4);
      expect_values(view, small);
      EXPECT_EQ(view.view({S, S}).data(), whole.view({S, S}).data()); // views of views
    }
    EXPECT_EQ(whole.view({P, P}).view({R, R}).data(), whole.data());
  }
}

TEST(View, RefusesWhatIsNotContained) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = mesh_of({ranks});
  const DBuffer own(mesh, {S}, reference_of(three), DType::f32);
  for (const Placement& to : {R, P, A})
    expect_error(Status::INVALID_ARGUMENT, [&] { own.view({to}); },
                 {"DBuffer::view", to_string(Placements{to}), "[Shard]"});
  expect_error(Status::INVALID_ARGUMENT, [&] { own.view({R, S}); }, {"expected 1 placements"});
}

TEST(Cast, IdentityAndConversion) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of({{5, 4}, {2, 6}, {3}});
  const DBuffer own(mesh, {S}, layout, DType::f32);
  fill(own, [](std::int64_t i) { return 0.1f * static_cast<float>(i + 1); });
  const DBuffer same = own.cast(DType::f32);
  EXPECT_EQ(same.data(), own.data());
  const DBuffer narrow = own.cast(DType::bf16);
  EXPECT_EQ(narrow.mesh(), mesh);
  EXPECT_EQ(narrow.placements(), Placements{S});
  EXPECT_EQ(narrow.layout(), layout);
  EXPECT_EQ(narrow.range(), own.range());
  expect_values(narrow, [](std::int64_t i) { return bf16_value(round_to_bf16(0.1f * static_cast<float>(i + 1))); });
  const DBuffer wide(mesh, {S}, layout, DType::f64);
  const void* const address = wide.data();
  EXPECT_EQ(narrow.cast(DType::f64, &wide).data(), address);
  expect_values(wide, [](std::int64_t i) { return bf16_value(round_to_bf16(0.1f * static_cast<float>(i + 1))); });
  const DBuffer copy(mesh, {S}, layout, DType::f32);
  EXPECT_EQ(own.cast(DType::f32, &copy).data(), copy.data());
  expect_values(copy, [](std::int64_t i) { return 0.1f * static_cast<float>(i + 1); });
  const DBuffer integers(mesh, {S}, layout, DType::i32);
  EXPECT_EQ(integers.cast(DType::i32).data(), integers.data());
  expect_values(own.cast(DType::u8), [](std::int64_t i) { return std::floor(0.1f * static_cast<float>(i + 1)); });
  expect_error(Status::INVALID_ARGUMENT, [&] { own.cast(static_cast<DType>(9)); }, {"9"});
  const DBuffer average(mesh, {A}, reference_of({{3}}), DType::f32);
  expect_error(Status::TYPE_MISMATCH, [&] { average.cast(DType::i64); }, {"mean", "i64"});
}

TEST(TensorView, WholeRows) {
  const auto mesh = mesh_of({ranks});
  const std::vector<Shape> shapes{{5, 3}, {4, 3}, {7}, {0, 3}, {2, 1, 3}};
  const auto layout = reference_of(shapes);
  const DBuffer own(mesh, {S}, layout, DType::f64);
  fill(own, [](std::int64_t i) { return static_cast<double>(i); });
  for (int t = 0; t < layout->num_tensors(); ++t) {
    const Range tensor = layout->tensor_range(t), part = intersect(tensor, own.range());
    const TensorView view = own.tensor_view(t);
    const std::int64_t row = row_numel(shapes[static_cast<std::size_t>(t)]);
    Shape expected = shapes[static_cast<std::size_t>(t)];
    expected[0] = part.size() / row;
    EXPECT_EQ(view.shape, expected);
    const TensorRange range = own.tensor_range(t);
    EXPECT_EQ(range.count, part.size());
    EXPECT_EQ(range.data, view.data);
    if (part.size() > 0) {
      EXPECT_EQ(view.first_row, (part.begin - tensor.begin) / row);
      EXPECT_EQ(range.offset, part.begin - tensor.begin);
      EXPECT_EQ(element(view.data, 0, DType::f64), static_cast<double>(part.begin));
    } else {
      EXPECT_EQ(view.data, nullptr);
    }
  }
  // Together the ranks hold every element once.
  std::int64_t total = own.tensor_range(0).count + own.tensor_range(2).count;
  MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(total, 15 + 7);
  for (const int index : {-1, 5}) {
    expect_error(Status::INVALID_ARGUMENT, [&] { own.tensor_view(index); }, {std::to_string(index)});
    expect_error(Status::INVALID_ARGUMENT, [&] { own.tensor_range(index); }, {std::to_string(index)});
  }
}

TEST(TensorView, CutRowsAreRefusedByName) {
  if (ranks == 1)
    GTEST_SKIP() << "nothing is cut on one rank";
  const auto mesh = mesh_of({ranks});
  const auto layout = std::make_shared<GlobalLayout>(build_planned({{3, 5}}, ranks)); // 15 elements on 2, 3, 4 ranks
  const DBuffer own(mesh, {S}, layout, DType::f64);
  const std::int64_t segment = (15 + ranks - 1) / ranks, begin = rank * segment;
  const std::int64_t count = std::min<std::int64_t>(15 - begin, segment);
  const TensorRange range = own.tensor_range(0);
  EXPECT_EQ(range.offset, begin);
  EXPECT_EQ(range.count, count);
  if (begin % 5 != 0 || count % 5 != 0)
    expect_error(Status::NOT_SUPPORTED, [&] { own.tensor_view(0); }, {"tensor_range", "tensor 0", "(3, 5)"});
  else
    EXPECT_EQ(own.tensor_view(0).shape, (Shape{count / 5, 5}));
}

TEST(TensorView, WholeRowsInNumberThatBeginInsideARow) {
  if (ranks < 3)
    GTEST_SKIP() << "needs a rank between two others";
  const auto mesh = mesh_of({ranks});
  const auto layout = std::make_shared<GlobalLayout>(build_planned({{2}, {ranks - 1, 5}, {3}}, ranks)); // segments of 5
  const DBuffer own(mesh, {S}, layout, DType::f64);
  if (rank == 0 || rank == ranks - 1)
    return;
  EXPECT_EQ(own.tensor_range(1).count, 5);
  EXPECT_EQ(own.tensor_range(1).offset, 5 * rank - 2);
  expect_error(Status::NOT_SUPPORTED, [&] { own.tensor_view(1); }, {"tensor_range"});
}

TEST(TensorView, ScalarsAndReleasedMemory) {
  const auto mesh = mesh_of({ranks});
  DBuffer buffer(mesh, {S}, reference_of({{}, {3}}), DType::f64);
  const Range scalar = buffer.layout()->tensor_range(0);
  const TensorView view = buffer.tensor_view(0);
  if (buffer.range().contains(scalar)) {
    EXPECT_EQ(view.shape, Shape{});
    EXPECT_NE(view.data, nullptr);
  } else {
    EXPECT_EQ(view.shape, Shape{0});
  }
  buffer.release_storage();
  if (buffer.range().contains(scalar))
    expect_error(Status::INVALID_STATE, [&] { buffer.tensor_range(0); }, {"released"});
}

} // namespace
} // namespace ostraka::buffer::test
