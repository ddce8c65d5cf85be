// SPDX-License-Identifier: Apache-2.0
// Conversions between all types, and accumulation, by the rules of buffer/impl/kernels.hpp. The oracle computes in long
// double, which holds every value of every type.
#include "buffer_test.hpp"
#include "support/rounds.hpp"
#include <ostraka/buffer/execute.hpp>

#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace ostraka::buffer::test {
namespace {

static_assert(std::numeric_limits<long double>::digits >= 64);

using Bytes = std::vector<std::byte>;

std::int64_t count_of(const Bytes& bytes, DType dtype) {
  return static_cast<std::int64_t>(bytes.size()) / width_of(dtype);
}

template <class T>
void append(Bytes& bytes, T value) {
  bytes.resize(bytes.size() + sizeof value);
  store(bytes.data() + bytes.size() - sizeof value, value);
}

long double exact(const void* data, std::int64_t index, DType dtype) {
  const auto* at = static_cast<const std::byte*>(data) + index * width_of(dtype);
  return dtype == DType::i64 ? static_cast<long double>(load<std::int64_t>(at)) : element(data, index, dtype);
}

template <class Integer>
Integer to_integer(long double value) {
  constexpr Integer low = std::numeric_limits<Integer>::min(), high = std::numeric_limits<Integer>::max();
  if (std::isnan(value))
    return 0;
  return value <= low ? low : value >= high ? high : static_cast<Integer>(std::trunc(value));
}

// The bytes of `value` in type `to`, zeros behind.
using Element = std::array<std::byte, 8>;

Element converted(long double value, DType to) {
  Element element{};
  switch (to) {
  case DType::f64:
    store(element.data(), static_cast<double>(value));
    break;
  case DType::f32:
    store(element.data(), static_cast<float>(value));
    break;
  case DType::bf16:
    store(element.data(), round_to_bf16(value));
    break;
  case DType::f16:
    store(element.data(), round_to_f16(value));
    break;
  case DType::i64:
    store(element.data(), to_integer<std::int64_t>(value));
    break;
  case DType::i32:
    store(element.data(), to_integer<std::int32_t>(value));
    break;
  case DType::u8:
    store(element.data(), to_integer<std::uint8_t>(value));
    break;
  }
  return element;
}

// Limits of all types and ties between their values, with neighbours that a second rounding would take for ties.
std::vector<long double> landmarks() {
  const long double one = 1;
  std::vector<long double> result{0,         0.5,         one,      1.5,         2.5,       254.5,          255,
                                  255.5,     256,         65504,    65519,       65520,     65536,          0x1p31L - 1,
                                  0x1p31L,   0x1p31L + 1, 0x1p32L,  0x1p53L + 1, 0x1p63L,   0x1p64L,        FLT_MAX,
                                  0x1p128L,  DBL_MAX,     FLT_MIN,  DBL_MIN,     0x1p-149L, 0x1p-150L,      0x1p-1074L,
                                  0x1p-133L, 0x1p-134L,   0x1p-14L, 0x1p-24L,    0x1p-25L,  0x1.ffffffp127L};
  for (const int bits : {8, 11, 24}) // significant bits of bf16, f16, f32: ties with and without more behind
    for (const int more : {30, 40, 52})
      for (const int upper : {0, 1}) {
        const long double tie = one + std::ldexp(2 * upper + one, -bits), behind = std::ldexp(one, -more);
        result.insert(result.end(), {tie, tie + behind, tie - behind});
      }
  for (const long double tie : {0x1p62L + 0x1p54L, 0x1p62L + 3 * 0x1p54L, 0x1p54L + 0x1p46L}) // of i64 in bf16
    result.insert(result.end(), {tie, tie + 1, tie - 1});
  for (const long double limit : {0x1p31L, 0x1p63L}) // the last values below
    result.insert(result.end(), {limit - 0.5L, limit - 1, std::nextafter(static_cast<double>(limit), 0.0),
                                 std::nextafter(static_cast<float>(limit), 0.0f)});
  return result;
}

template <class Floating, class Word>
void append_floating(Bytes& bytes, std::mt19937_64& random) {
  using Limits = std::numeric_limits<Floating>;
  for (const Floating special : {Limits::quiet_NaN(), Limits::infinity(), Limits::max(), Limits::denorm_min()})
    for (const Floating sign : {Floating{1}, Floating{-1}})
      append(bytes, sign * special);
  for (const long double landmark : landmarks())
    for (const long double value : {landmark, -landmark})
      for (const Floating to : {Limits::infinity(), -Limits::infinity(), static_cast<Floating>(value)})
        append(bytes, std::nextafter(static_cast<Floating>(value), to));
  for (int i = 0; i < rounds(2'000); ++i) {
    append(bytes, static_cast<Word>(random())); // any pattern
    append(bytes,
           std::ldexp(static_cast<Floating>(static_cast<std::int64_t>(random())), -static_cast<int>(random() % 90)));
  }
}

template <class Integer>
void append_integers(Bytes& bytes, std::mt19937_64& random) {
  for (const long double landmark : landmarks())
    for (const long double value : {landmark, -landmark, landmark + 1, -landmark - 1, -landmark + 1})
      append(bytes, to_integer<Integer>(value));
  for (int i = 0; i < rounds(2'000); ++i)
    append(bytes, static_cast<Integer>(static_cast<std::int64_t>(random()) >> random() % 64));
}

// Every value of small types, landmarks and random values of the others.
Bytes values_of(DType dtype, std::mt19937_64& random) {
  Bytes bytes;
  switch (dtype) {
  case DType::f64:
    append_floating<double, std::uint64_t>(bytes, random);
    break;
  case DType::f32:
    append_floating<float, std::uint32_t>(bytes, random);
    break;
  case DType::bf16:
  case DType::f16:
    for (int i = 0; i < 65536; ++i)
      append(bytes, static_cast<std::uint16_t>(i));
    break;
  case DType::i64:
    append_integers<std::int64_t>(bytes, random);
    break;
  case DType::i32:
    append_integers<std::int32_t>(bytes, random);
    break;
  case DType::u8:
    for (int i = 0; i < 256; ++i)
      append(bytes, static_cast<std::uint8_t>(i));
    break;
  }
  return bytes;
}

// A buffer that holds `values`, and the first of them again, with gaps.
DBuffer holding(const MeshPtr& mesh, const Bytes& values, DType dtype) {
  const std::int64_t count = count_of(values, dtype), width = width_of(dtype);
  const auto layout = std::make_shared<const GlobalLayout>(build_planned({{5}, {count}, {3}}, ranks, {16, 16}));
  EXPECT_GT(layout->padding(), 0);
  DBuffer buffer(mesh, {S}, layout, dtype);
  for (int t = 0; t < 3; ++t)
    if (const TensorRange own = buffer.tensor_range(t); own.count > 0)
      write_at(own.data, values.data() + own.offset * width, own.count * width);
  return buffer;
}

// Bit by bit, apart from which NaN it is.
void expect_converted(const DBuffer& from, const DBuffer& to) {
  const auto width = static_cast<std::size_t>(width_of(to.dtype()));
  const std::vector<bool> payload = payload_of(*from.layout());
  const std::vector<std::byte> before = bytes_of(from), after = bytes_of(to);
  for (std::int64_t i = 0; i < from.numel(); ++i) {
    const long double value = exact(before.data(), i, from.dtype());
    const bool is_payload = payload[static_cast<std::size_t>(from.range().begin + i)];
    const Element expected = is_payload ? converted(value, to.dtype()) : Element{};
    const void* found = after.data() + static_cast<std::size_t>(i) * width;
    const bool both_nan = std::isnan(ostraka::test::element(found, 0, to.dtype())) &&
                          std::isnan(ostraka::test::element(expected.data(), 0, to.dtype()));
    if (!both_nan && std::memcmp(found, expected.data(), width) != 0)
      FAIL() << name(from.dtype()) << " to " << name(to.dtype()) << ", element " << i << ": " << std::hexfloat << value
             << (is_payload ? "" : " (padding)") << " became " << exact(found, 0, to.dtype()) << ", expected "
             << exact(expected.data(), 0, to.dtype());
  }
}

TEST(Cast, EveryTypeToEveryType) {
  const auto mesh = mesh_of({ranks});
  for (const std::uint64_t seed : {std::uint64_t{1}, fresh_seed("Cast.EveryTypeToEveryType")}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (const DType from : all_types) {
      const DBuffer source = holding(mesh, values_of(from, random), from);
      for (const DType to : all_types) {
        const DBuffer out(mesh, {S}, source.layout(), to);
        expect_converted(source, to == from ? source.cast(to, &out) : source.cast(to));
      }
    }
  }
}

TEST(Cast, TheRulesInNumbers) {
  const auto mesh = mesh_of({ranks});
  const double infinity = std::numeric_limits<double>::infinity();
  DBuffer wide(mesh, {R}, reference_of({{8}}), DType::f64);
  const double values[] = {infinity, -infinity, -0.0, -1.9, 0x1p63, 300.5, 257 + 0x1p-40, std::nan("")};
  wide.copy_from(0, values, 8, DType::f64);
  const auto expect_cast = [&](DType to, const std::vector<double>& expected) {
    const DBuffer narrow = wide.cast(to);
    EXPECT_EQ(elements(narrow.data(), 7, to), expected) << name(to);
    const double from_nan = element(narrow.data(), 7, to);
    EXPECT_TRUE(is_floating(to) ? std::isnan(from_nan) : from_nan == 0) << name(to);
  };
  expect_cast(DType::f32, {infinity, -infinity, 0, -1.9f, 0x1p63, 300.5, 257});
  expect_cast(DType::bf16, {infinity, -infinity, 0, -1.8984375, 0x1p63, 300, 258});
  expect_cast(DType::f16, {infinity, -infinity, 0, -1.900390625, infinity, 300.5, 257});
  expect_cast(DType::i64, {0x1p63, -0x1p63, 0, -1, 0x1p63, 300, 257}); // 2^63 - 1, which is 2^63 as a double
  expect_cast(DType::i32, {0x1p31 - 1, -0x1p31, 0, -1, 0x1p31 - 1, 300, 257});
  expect_cast(DType::u8, {255, 0, 0, 0, 255, 255, 255});
}

TEST(Accumulate, EveryFloatingTypeIntoEveryFloatingType) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of({{40, 50}, {7}});
  const auto stream = runtime::compute_stream(mesh->device());
  std::mt19937_64 random(3);
  const auto random_value = [&](DType dtype) { // so few bits that products are exact
    const int bits = dtype == DType::f64 ? 45 : 20;
    return std::ldexp(static_cast<double>(static_cast<std::int64_t>(random()) >> (63 - bits)), 10 - bits);
  };
  for (const DType from : floating_types)
    for (const DType to : floating_types)
      for (const double factor : {-0.5, 3.0}) {
        SCOPED_TRACE(std::string(name(from)) + " into " + name(to));
        const DBuffer addend(mesh, {S}, layout, from), sum(mesh, {S}, layout, to);
        fill(addend, [&](std::int64_t) { return random_value(from); });
        fill(sum, [&](std::int64_t) { return random_value(to); });
        if (sum.range().begin == 0) { // 1 + 2^-8 and 1 + 2^-11 and a little: rounding f64 twice gives 1
          set_element(addend.data(), 0, from, (0x1p-8 + 0x1p-40) / factor);
          set_element(addend.data(), 1, from, (0x1p-11 + 0x1p-40) / factor);
          set_element(sum.data(), 0, to, 1);
          set_element(sum.data(), 1, to, 1);
        }
        Bytes expected(static_cast<std::size_t>(sum.bytes()));
        const Bytes sums = bytes_of(sum), addends = bytes_of(addend);
        for (std::int64_t i = 0; i < sum.numel(); ++i) {
          const double exactly =
              ostraka::test::element(sums.data(), i, to) + factor * ostraka::test::element(addends.data(), i, from);
          const bool is_wide = from == DType::f64 || to == DType::f64;
          ostraka::test::set_element(expected.data(), i, to, is_wide ? exactly : static_cast<float>(exactly));
        }
        accumulate(factor, addend, sum, *stream);
        ASSERT_EQ(bytes_of(sum), expected);
      }
}

TEST(Accumulate, IntegersAreRefused) {
  const auto mesh = mesh_of({ranks});
  const auto stream = runtime::compute_stream(mesh->device());
  const DBuffer floating(mesh, {R}, reference_of({{4}}), DType::f16);
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    const DBuffer integers(mesh, {R}, reference_of({{4}}), dtype);
    expect_error(Status::NOT_SUPPORTED, [&] { accumulate(1, floating, integers, *stream); }, {name(dtype)});
    expect_error(Status::NOT_SUPPORTED, [&] { accumulate(1, integers, floating, *stream); }, {name(dtype)});
  }
}

} // namespace
} // namespace ostraka::buffer::test
