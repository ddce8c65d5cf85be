// SPDX-License-Identifier: Apache-2.0
#include <ostraka/checkpoint/impl/crc32c.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#define OSTRAKA_CRC32C_X86
#include <immintrin.h>
#endif

namespace ostraka::checkpoint::impl {

namespace {

// Polynomials over GF(2) of degree < 32; the highest bit is the coefficient of x^0.
constexpr std::uint32_t polynomial = 0x82f63b78u;
constexpr std::uint32_t one = 0x80000000u;
constexpr std::uint32_t x8 = one >> 8;

constexpr std::uint32_t times_x(std::uint32_t a) { return (a & 1u) != 0 ? (a >> 1) ^ polynomial : a >> 1; }

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1, b = times_x(b))
    if ((a & one) != 0)
      product ^= b;
  return product;
}

// x^(8 bytes): what following zeros do to a CRC.
constexpr std::uint32_t shift_of(std::uint64_t bytes) {
  std::uint32_t result = one, square = x8;
  for (; bytes != 0; bytes >>= 1, square = multiply(square, square))
    if ((bytes & 1) != 0)
      result = multiply(result, square);
  return result;
}

// tables[k][b]: byte b followed by k zero bytes.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = times_x(crc);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k)
    for (std::uint32_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
  return tables;
}
constexpr Tables tables = make_tables();

std::uint64_t word_at(const unsigned char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

std::uint32_t update_portable(std::uint32_t crc, const unsigned char* at, std::size_t bytes) {
  for (; bytes >= 8; at += 8, bytes -= 8) {
    const std::uint64_t word = word_at(at) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k)
      crc ^= tables[7 - k][word >> (8 * k) & 0xff];
  }
  for (; bytes > 0; ++at, --bytes)
    crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xff];
  return crc;
}

#ifdef OSTRAKA_CRC32C_X86
constexpr std::size_t lane = 4096; // bytes of each of three streams that hide the latency of the instruction
constexpr std::uint32_t shift_by_lane = shift_of(lane);

__attribute__((target("sse4.2"))) std::uint32_t update_x86(std::uint32_t crc, const unsigned char* at,
                                                           std::size_t bytes) {
  for (; bytes >= 3 * lane; at += 3 * lane, bytes -= 3 * lane) {
    std::uint64_t a = crc, b = 0, c = 0;
    for (std::size_t i = 0; i < lane; i += 8) {
      a = __builtin_ia32_crc32di(a, word_at(at + i));
      b = __builtin_ia32_crc32di(b, word_at(at + lane + i));
      c = __builtin_ia32_crc32di(c, word_at(at + 2 * lane + i));
    }
    const std::uint32_t ab = multiply(shift_by_lane, static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
    crc = multiply(shift_by_lane, ab) ^ static_cast<std::uint32_t>(c);
  }
  std::uint64_t wide = crc;
  for (; bytes >= 8; at += 8, bytes -= 8)
    wide = __builtin_ia32_crc32di(wide, word_at(at));
  crc = static_cast<std::uint32_t>(wide);
  for (; bytes > 0; ++at, --bytes)
    crc = __builtin_ia32_crc32qi(crc, *at);
  return crc;
}

// Carry-less products of whole registers: what stands `bytes` bytes ahead is carried over to the data there. In the
// reflected order the product of 64-bit words is a bit short, hence the shift.
constexpr long long fold_constant(std::uint64_t bytes) { return static_cast<long long>(shift_of(bytes)) << 1; }

#define OSTRAKA_WIDE __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2")))

OSTRAKA_WIDE inline __m512i fold(__m512i carried, __m512i constants, __m512i data) {
  const __m512i low = _mm512_clmulepi64_epi128(carried, constants, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(carried, constants, 0x11);
  return _mm512_ternarylogic_epi64(low, high, data, 0x96); // the sum of all three
}
template <std::uint64_t bytes>
OSTRAKA_WIDE inline __m512i constants_of() {
  constexpr long long low = fold_constant(bytes + 4), high = fold_constant(bytes - 4);
  return _mm512_set_epi64(high, low, high, low, high, low, high, low);
}
OSTRAKA_WIDE inline __m512i load(const unsigned char* at) { return _mm512_loadu_si512(at); }

constexpr std::size_t register_bytes = 64, stride = 4 * register_bytes;

// Around the caches: the line is not read first. `to` is aligned.
template <bool copies>
OSTRAKA_WIDE inline __m512i take(const unsigned char* at, [[maybe_unused]] unsigned char* to) {
  const __m512i data = load(at);
  if constexpr (copies)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), data);
  return data;
}

// At least a stride of bytes, and with `copies` to an aligned place.
template <bool copies>
OSTRAKA_WIDE std::uint32_t fold_wide(std::uint32_t crc, const unsigned char* at, std::size_t bytes, unsigned char* to) {
  const __m512i far = constants_of<stride>(), near = constants_of<register_bytes>();
  const unsigned char* begin = at;
  __m512i sums[4];
  for (std::size_t k = 0; k < 4; ++k)
    sums[k] = take<copies>(at + k * register_bytes, to + k * register_bytes);
  sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  for (at += stride, bytes -= stride; bytes >= stride; at += stride, bytes -= stride)
    for (std::size_t k = 0; k < 4; ++k)
      sums[k] = fold(sums[k], far, take<copies>(at + k * register_bytes, to + (at - begin) + k * register_bytes));
  for (std::size_t k = 1; k < 4; ++k)
    sums[k] = fold(sums[k - 1], near, sums[k]);
  alignas(register_bytes) unsigned char rest[register_bytes];
  _mm512_store_si512(rest, sums[3]);
  crc = update_x86(update_x86(0, rest, register_bytes), at, bytes);
  if constexpr (copies) {
    std::memcpy(to + (at - begin), at, bytes);
    _mm_sfence(); // another thread may be told of the copy
  }
  return crc;
}

std::uint32_t update_wide(std::uint32_t crc, const unsigned char* at, std::size_t bytes) {
  return bytes < 2 * stride ? update_x86(crc, at, bytes) : fold_wide<false>(crc, at, bytes, nullptr);
}

std::uint32_t copy_wide(std::uint32_t crc, unsigned char* to, const unsigned char* at, std::size_t bytes) {
  const std::size_t before = (register_bytes - reinterpret_cast<std::uintptr_t>(to) % register_bytes) % register_bytes;
  if (bytes < 2 * stride) {
    std::memcpy(to, at, bytes);
    return update_x86(crc, at, bytes);
  }
  std::memcpy(to, at, before);
  return fold_wide<true>(update_x86(crc, at, before), at + before, bytes - before, to + before);
}

bool has_instruction() {
  static const bool result = __builtin_cpu_supports("sse4.2") != 0;
  return result;
}

bool is_wide() {
  static const bool result = has_instruction() && __builtin_cpu_supports("avx512f") &&
                             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq");
  return result;
}
#endif

constexpr std::size_t copied_at_once = 12288; // fits the first cache, and is all lanes once

} // namespace

std::uint32_t crc32c_portable(std::uint32_t crc, const void* data, std::size_t bytes) {
  return ~update_portable(~crc, static_cast<const unsigned char*>(data), bytes);
}

std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t bytes) {
#ifdef OSTRAKA_CRC32C_X86
  if (is_wide())
    return ~update_wide(~crc, static_cast<const unsigned char*>(data), bytes);
  if (has_instruction())
    return ~update_x86(~crc, static_cast<const unsigned char*>(data), bytes);
#endif
  return crc32c_portable(crc, data, bytes);
}

std::uint32_t crc32c_copy_portable(std::uint32_t crc, void* to, const void* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += copied_at_once) {
    const std::size_t count = std::min(copied_at_once, bytes - at);
    std::memcpy(static_cast<std::byte*>(to) + at, static_cast<const std::byte*>(from) + at, count);
    crc = crc32c(crc, static_cast<const std::byte*>(from) + at, count);
  }
  return crc;
}

std::uint32_t crc32c_copy(std::uint32_t crc, void* to, const void* from, std::size_t bytes) {
#ifdef OSTRAKA_CRC32C_X86
  if (is_wide())
    return ~copy_wide(~crc, static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes);
#endif
  return crc32c_copy_portable(crc, to, from, bytes);
}

std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::int64_t bytes) {
  return multiply(shift_of(static_cast<std::uint64_t>(bytes)), first) ^ second;
}

} // namespace ostraka::checkpoint::impl
