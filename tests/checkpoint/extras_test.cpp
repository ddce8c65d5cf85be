// SPDX-License-Identifier: Apache-2.0
// Values of the user, steps and conversions between types.
#include "checkpoint_test.hpp"
#include "support/round_16.hpp"

#include <cmath>
#include <limits>

namespace ostraka::checkpoint::test {
namespace {

TEST(Extras, RoundTrip) {
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  Content content = content_of(make_plain_state(mesh, 1));
  const std::vector<float> array{1.5f, -2.5f, 3, 4, 5, 6};
  content.user.set_f64("time", 0.1);
  content.user.set_i64("cycle", std::int64_t{1} << 60);
  content.user.set_text("note", "größer / kleiner %");
  content.user.set_text("nothing", "");
  content.user.set_array("a/b", DType::f32, {2, 3}, array.data());
  content.user.set_array("empty", DType::f64, {0, 3}, nullptr);
  for (const DType dtype : all_types)
    content.user.set_array(std::string("x.") + name(dtype), dtype, {3}, encode({1, 2, 3}, dtype).data());
  content.steps = 12345678901;
  const std::string path = folder.file("user.h5");
  save(path, content);

  Content loaded = content_of(make_plain_state(mesh, 0));
  loaded.user.set_f64("old", 1);
  loaded.steps = 3;
  load(path, loaded);
  EXPECT_EQ(loaded.user.values(), content.user.values());
  EXPECT_EQ(loaded.user.f64("time"), 0.1);
  EXPECT_EQ(loaded.user.i64("cycle"), std::int64_t{1} << 60);
  EXPECT_EQ(loaded.user.text("note"), "größer / kleiner %");
  EXPECT_EQ(loaded.user.text("nothing"), "");
  EXPECT_EQ(loaded.steps, 12345678901);
  EXPECT_FALSE(loaded.user.has("old"));

  save(path, content_of(make_plain_state(mesh, 1)));
  load(path, loaded);
  EXPECT_FALSE(loaded.steps.has_value());
  EXPECT_TRUE(loaded.user.values().empty());
}

TEST(Extras, Access) {
  Extras user;
  user.set_f64("time", 1);
  user.set_f64("time", 2);
  ASSERT_EQ(user.values().size(), 1u);
  EXPECT_EQ(user.f64("time"), 2);
  expect_error(Status::INVALID_ARGUMENT, [&] { user.f64("tme"); }, {"'tme'", "'time'"});
  expect_error(Status::TYPE_MISMATCH, [&] { user.i64("time"); }, {"'time'", "i64", "f64"});
  expect_error(Status::TYPE_MISMATCH, [&] { user.text("time"); }, {"'time'", "text", "f64"});
  expect_error(Status::INVALID_ARGUMENT, [&] { user.set_f64("", 1); }, {"name"});
  expect_error(Status::SHAPE_MISMATCH,
               [&] {
                 user.set({"a", DType::f64, {2}, false, std::vector<std::byte>(8)});
               },
               {"'a'", "(2)"});
  expect_error(Status::TYPE_MISMATCH,
               [&] {
                 user.set({"a", DType::f64, {1}, true, std::vector<std::byte>(8)});
               },
               {"'a'", "text"});
  expect_error(Status::INVALID_ARGUMENT, [&] { user.set_text("a", std::string("b\0c", 3)); }, {"zero byte"});
}

// Rounded once, by an oracle in long double.
TEST(Conversion, FloatingTypes) {
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  const double numbers[] = {0,
                            -0.0,
                            1,
                            1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40), // twice rounded: down
                            1 + std::ldexp(1.0, -8),
                            1 + 3 * std::ldexp(1.0, -8),
                            65520,
                            1e-7,
                            -3e38,
                            1e300,
                            -1e-300,
                            std::numeric_limits<double>::infinity(),
                            0.1};
  const auto count = static_cast<std::int64_t>(std::size(numbers));
  const auto make = [&](DType dtype) {
    Content content;
    content.fields.push_back({{"f"}, DBuffer::empty(mesh, {layout::shard()}, {{count}}, dtype)});
    return content;
  };
  const auto rounded = [](double value, DType dtype) -> double {
    switch (dtype) {
    case DType::f32:
      return static_cast<float>(value);
    case DType::bf16:
      return bf16_value(round_to_bf16(value));
    case DType::f16:
      return f16_value(round_to_f16(value));
    default:
      return value;
    }
  };
  for (const DType from : floating_types)
    for (const DType to : floating_types) {
      const std::string path = folder.file(std::string(name(from)) + name(to));
      Content saved = make(from), loaded = make(to);
      const auto own = saved.fields[0].values.tensor_range(0);
      for (std::int64_t k = 0; k < own.count; ++k)
        set_element(own.data, k, from, numbers[own.offset + k]);
      save(path, saved, {.sync = false});
      load(path, loaded);
      const auto found = loaded.fields[0].values.tensor_range(0);
      for (std::int64_t k = 0; k < found.count; ++k)
        EXPECT_EQ(element(found.data, k, to), rounded(rounded(numbers[found.offset + k], from), to))
            << name(from) << " to " << name(to) << ", " << numbers[found.offset + k];
    }
}

} // namespace
} // namespace ostraka::checkpoint::test
