// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/checkpoint/extras.hpp>

#include <algorithm>
#include <cstring>

namespace ostraka::checkpoint {

namespace {

std::vector<std::byte> bytes_of(const void* data, std::int64_t count) {
  const auto* begin = static_cast<const std::byte*>(data);
  return {begin, begin + count};
}

template <class T>
T number(const Extras::Value& value, DType dtype) {
  expect(value.dtype == dtype && value.shape.empty(), Status::TYPE_MISMATCH, "user value '", value.name,
         "': expected one number of type ", name(dtype), ", found ", value.is_text ? "text" : name(value.dtype),
         " of shape ", layout::to_string(value.shape));
  T result;
  std::memcpy(&result, value.bytes.data(), sizeof result);
  return result;
}

} // namespace

void Extras::set_f64(const std::string& name, double value) { set_array(name, DType::f64, {}, &value); }
void Extras::set_i64(const std::string& name, std::int64_t value) { set_array(name, DType::i64, {}, &value); }

void Extras::set_text(const std::string& name, const std::string& text) {
  expect(text.find('\0') == std::string::npos, Status::INVALID_ARGUMENT, "user value '", name,
         "': text with a zero byte");
  const auto length = static_cast<std::int64_t>(text.size());
  set({name, DType::u8, {length}, true, bytes_of(text.data(), length)});
}

void Extras::set_array(const std::string& name, DType dtype, layout::Shape shape, const void* data) {
  const std::int64_t count = multiply(layout::numel(shape), size_of(dtype), "user value: bytes");
  set({name, dtype, std::move(shape), false, bytes_of(data, count)});
}

void Extras::set(Value value) {
  expect(!value.name.empty() && value.name.find('\0') == std::string::npos, Status::INVALID_ARGUMENT, "user value '",
         value.name, "': expected a name without zero bytes");
  const auto bytes = static_cast<std::int64_t>(value.bytes.size());
  expect(bytes == layout::numel(value.shape) * size_of(value.dtype), Status::SHAPE_MISMATCH, "user value '", value.name,
         "': expected the bytes of ", layout::to_string(value.shape), " of ", name(value.dtype), ", found ", bytes);
  expect(!value.is_text || (value.dtype == DType::u8 && value.shape.size() == 1), Status::TYPE_MISMATCH, "user value '",
         value.name, "': expected text as one row of u8");
  const auto found =
      std::find_if(values_.begin(), values_.end(), [&](const Value& other) { return other.name == value.name; });
  if (found != values_.end())
    *found = std::move(value);
  else
    values_.push_back(std::move(value));
}

const Extras::Value* Extras::find(const std::string& name) const {
  const auto found =
      std::find_if(values_.begin(), values_.end(), [&](const Value& value) { return value.name == name; });
  return found == values_.end() ? nullptr : &*found;
}

const Extras::Value& Extras::at(const std::string& name) const {
  if (const Value* found = find(name))
    return *found;
  std::string known;
  for (const Value& value : values_)
    known += (known.empty() ? "'" : ", '") + value.name + "'";
  fail(Status::INVALID_ARGUMENT, "no user value is called '", name, "'; there are: ", known.empty() ? "none" : known);
}

double Extras::f64(const std::string& name) const { return number<double>(at(name), DType::f64); }
std::int64_t Extras::i64(const std::string& name) const { return number<std::int64_t>(at(name), DType::i64); }

std::string Extras::text(const std::string& name) const {
  const Value& value = at(name);
  expect(value.is_text, Status::TYPE_MISMATCH, "user value '", name, "': expected text, found ",
         ostraka::name(value.dtype));
  return {reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()};
}

} // namespace ostraka::checkpoint
