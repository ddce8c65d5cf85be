// SPDX-License-Identifier: Apache-2.0
#include "buffer_test.hpp"
#include <ostraka/buffer/kokkos_view.hpp>

#include <map>
#include <type_traits>
#include <utility>

namespace ostraka::buffer::test {
namespace {

const std::vector<Shape> shapes{{4, 3}, {2, 2, 3}, {5}};

TEST(KokkosViews, LocalRange) {
  const auto mesh = mesh_of({ranks});
  const DBuffer own(mesh, {S}, reference_of(shapes), DType::f64);
  const auto view = local_view<double>(own);
  EXPECT_EQ(view.data(), own.data());
  EXPECT_EQ(static_cast<std::int64_t>(view.extent(0)), own.numel());
  const auto constant = local_view<const double>(own);
  EXPECT_EQ(constant.data(), own.data());
  expect_error(Status::TYPE_MISMATCH, [&] { local_view<float>(own); }, {"f64", "f32"});
  expect_error(Status::TYPE_MISMATCH, [&] { tensor_range<std::int64_t>(own, 0); }, {"f64", "i64"});
  expect_error(Status::TYPE_MISMATCH, [&] { (tensor_view<bfloat16, 2>(own, 0)); }, {"f64", "bf16"});
}

TEST(KokkosViews, MemoryOfGpusIsRefused) {
  const auto mesh = mesh_of({ranks});
  std::vector<double> values(64);
  const auto storage = std::make_shared<memory::Storage>(values.data(), 8 * 64, runtime::Device::cuda);
  const DBuffer own = DBuffer::from_storage(storage, mesh, {S}, reference_of(shapes), DType::f64);
  expect_error(Status::NOT_SUPPORTED, [&] { local_view<double>(own); }, {"local_view", "cuda"});
  expect_error(Status::NOT_SUPPORTED, [&] { tensor_range<double>(own, 0); }, {"tensor_range", "cuda"});
  expect_error(Status::NOT_SUPPORTED, [&] { (tensor_view<double, 2>(own, 0)); }, {"tensor_view", "cuda"});
}

TEST(KokkosViews, TensorsInCOrder) {
  const auto mesh = mesh_of({ranks});
  const DBuffer whole(mesh, {R}, reference_of(shapes), DType::f64);
  fill(whole, [](std::int64_t i) { return static_cast<double>(i); });
  const std::int64_t first = whole.layout()->tensor_range(1).begin;
  const auto view = tensor_view<double, 3>(whole, 1);
  ASSERT_EQ(view.extent(0), 2u);
  ASSERT_EQ(view.extent(1), 2u);
  ASSERT_EQ(view.extent(2), 3u);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      for (int k = 0; k < 3; ++k)
        EXPECT_EQ(view(i, j, k), static_cast<double>(first + 6 * i + 3 * j + k));
  view(1, 0, 2) = -1;
  EXPECT_EQ(tensor_range<double>(whole, 1)(8), -1);
  EXPECT_EQ(tensor_range<double>(whole, 2).extent(0), 5u);
  expect_error(Status::SHAPE_MISMATCH, [&] { (tensor_view<double, 2>(whole, 1)); }, {"tensor 1", "3 dimensions", "2"});
  expect_error(Status::INVALID_ARGUMENT, [&] { (tensor_view<double, 2>(whole, 3)); }, {"3"});
}

TEST(KokkosViews, RowsOfThisRank) {
  const auto mesh = mesh_of({ranks});
  const DBuffer own(mesh, {S}, reference_of(shapes), DType::f32);
  for (int t = 0; t < 1; ++t) {
    const auto view = tensor_view<float, 2>(own, t);
    const TensorView rows = own.tensor_view(t);
    EXPECT_EQ(static_cast<std::int64_t>(view.extent(0)), rows.shape[0]);
    EXPECT_EQ(view.extent(1), 3u);
    EXPECT_EQ(view.data(), rows.data);
  }
  EXPECT_EQ(dtype_of<const std::uint8_t>(), DType::u8);
  EXPECT_EQ(dtype_of<std::int32_t>(), DType::i32);
  EXPECT_EQ(dtype_of<bfloat16>(), DType::bf16);
  EXPECT_EQ(dtype_of<const float16>(), DType::f16);
}

TEST(KokkosViews, ConstantViews) {
  const auto mesh = mesh_of({ranks});
  const DBuffer own(mesh, {S}, reference_of(shapes), DType::f64);
  fill(own, [](std::int64_t i) { return static_cast<double>(i); });
  const auto view = tensor_view<const double, 2>(own, 0);
  static_assert(std::is_same_v<decltype(view(0, 0)), const double&>);
  EXPECT_EQ(view.data(), own.tensor_view(0).data);
  const Range tensor = own.layout()->tensor_range(0);
  for (std::size_t i = 0; i < view.extent(0); ++i)
    for (std::size_t j = 0; j < 3; ++j)
      EXPECT_EQ(view(i, j), static_cast<double>(tensor.begin) + 3.0 * (own.tensor_view(0).first_row + i) + j);
  EXPECT_EQ(tensor_range<const double>(own, 0).extent(0), view.size());
  const DBuffer half(mesh, {S}, reference_of(shapes), DType::f16);
  EXPECT_EQ(local_view<const float16>(half).data(), half.data());
  expect_error(Status::TYPE_MISMATCH, [&] { (tensor_view<const bfloat16, 2>(half, 0)); }, {"f16", "bf16"});
}

// Layouts with cut tensors, an empty one, gaps, and tensors out of order.
std::vector<LayoutPtr> layouts() {
  const std::int64_t segment = (17 + ranks - 1) / ranks;
  const auto any_order = GlobalLayout(Policy::planned, {{4}, {3, 2}, {0, 2}, {3}}, {10, 0, 3, 6}, ranks, segment);
  return {reference_of(shapes), std::make_shared<const GlobalLayout>(any_order),
          std::make_shared<const GlobalLayout>(build_ragged(shapes, ranks)), reference_of({})};
}

TEST(LayoutTable, HoldsTheRangesOfThisRank) {
  const auto mesh = mesh_of({ranks});
  for (const LayoutPtr& layout : layouts())
    for (const Placement& placement : {S, R}) {
      DBuffer own(mesh, {placement}, layout, DType::f32);
      std::map<std::int64_t, std::pair<int, TensorRange>> expected; // by local begin
      for (int t = 0; t < layout->num_tensors(); ++t)
        if (const TensorRange range = own.tensor_range(t); range.count > 0)
          expected[static_cast<float*>(range.data) - static_cast<float*>(own.data())] = {t, range};
      own.release_storage(); // the table needs none
      const auto table = layout_table(own);
      ASSERT_EQ(table.extent(0), expected.size());
      std::size_t k = 0;
      for (const auto& [local_begin, tensor_and_range] : expected) {
        const auto& [tensor, range] = tensor_and_range;
        const TensorSlice slice = table(k++);
        EXPECT_EQ(slice.tensor, tensor);
        EXPECT_EQ(slice.local_begin, local_begin);
        EXPECT_EQ(slice.count, range.count);
        EXPECT_EQ(slice.offset, range.offset);
      }
    }
}

struct ScaleByIndex {
  HostView<double*> values;
  Kokkos::View<const TensorSlice*, Kokkos::HostSpace> table;
  void operator()(std::int64_t k) const {
    for (std::int64_t i = 0; i < table(k).count; ++i)
      values(table(k).local_begin + i) *= table(k).tensor;
  }
};

TEST(LayoutTable, OneKernelScalesEveryTensor) {
  const auto mesh = mesh_of({ranks});
  for (const LayoutPtr& layout : layouts())
    for (const Placement& placement : {S, R}) {
      const DBuffer own(mesh, {placement}, layout, DType::f64);
      fill(own, small);
      const ScaleByIndex scale{local_view<double>(own), layout_table(own)};
      Kokkos::parallel_for(Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, scale.table.extent(0)), scale);
      Kokkos::fence();
      expect_values(own, [&](std::int64_t i) {
        for (int t = 0; t < layout->num_tensors(); ++t)
          if (layout->tensor_range(t).contains({i, i + 1}))
            return t * small(i);
        return -1.0;
      });
    }
}

} // namespace
} // namespace ostraka::buffer::test
