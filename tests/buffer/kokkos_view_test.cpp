// SPDX-License-Identifier: Apache-2.0
#include "buffer_test.hpp"
#include <ostraka/buffer/kokkos_view.hpp>

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
}

} // namespace
} // namespace ostraka::buffer::test
