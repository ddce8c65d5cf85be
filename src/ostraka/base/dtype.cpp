// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/dtype.hpp>
#include <ostraka/base/error.hpp>

namespace ostraka {

namespace {

struct Entry {
  const char* name;
  std::int64_t bytes;
};

constexpr Entry entries[] = {{"f64", 8}, {"f32", 4}, {"bf16", 2}, {"f16", 2}, {"i64", 8}, {"i32", 4}, {"u8", 1}};

const Entry& entry(DType dtype) {
  const auto index = static_cast<std::int32_t>(dtype);
  expect(index >= 0 && index < static_cast<std::int32_t>(std::size(entries)), Status::INVALID_ARGUMENT,
         "data type: expected a number from 0 (f64) to 6 (u8), found ", index);
  return entries[index];
}

} // namespace

std::int64_t size_of(DType dtype) { return entry(dtype).bytes; }
const char* name(DType dtype) { return entry(dtype).name; }

} // namespace ostraka
