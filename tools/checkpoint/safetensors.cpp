// SPDX-License-Identifier: Apache-2.0
#include "safetensors.hpp"

#include "damage.hpp"
#include "text.hpp"
#include <ostraka/base/checked.hpp>
#include <ostraka/base/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

namespace ostraka::tool {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "both file formats are little endian");

constexpr const char* metadata_key = "__metadata__";
// What the safetensors package accepts.
constexpr std::int64_t max_header_bytes = 100'000'000;
constexpr std::array<std::pair<DType, const char*>, 7> types{{{DType::f64, "F64"},
                                                              {DType::f32, "F32"},
                                                              {DType::bf16, "BF16"},
                                                              {DType::f16, "F16"},
                                                              {DType::i64, "I64"},
                                                              {DType::i32, "I32"},
                                                              {DType::u8, "U8"}}};

/// Parses text whose keys are unique; plain json::parse would keep the last of several.
json parse_unique(const std::string& text, const std::string& path) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == json::parse_event_t::key)
      expect_whole(keys.back().insert(value.get<std::string>()).second, path, ": the safetensors header has the key ",
                   value.dump(), " twice");
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    throw Damage(path + ": the safetensors header is not JSON: " + error.what());
  }
}

std::string read_header_text(const File& file) {
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)), "length of the safetensors header");
  expect_whole(length <= static_cast<std::uint64_t>(std::min(file.size() - 8, max_header_bytes)), file.path().string(),
               ": is no safetensors file: expected a header of at most ", std::min(file.size() - 8, max_header_bytes),
               " bytes, found ", length);
  std::string text(length, '\0');
  file.read(8, std::as_writable_bytes(std::span(text)), "safetensors header");
  return text;
}

std::map<std::string, std::string> metadata_from(const json& object, const std::string& path) {
  std::map<std::string, std::string> metadata;
  expect_whole(object.is_object(), path, ": __metadata__: expected an object, found ", object.dump());
  for (const auto& [key, value] : object.items()) {
    expect_whole(value.is_string(), path, ": __metadata__: expected a text for '", key, "', found ", value.dump());
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

DType type_from(const std::string& text, const std::string& where) {
  const auto found = std::find_if(types.begin(), types.end(), [&](const auto& type) { return text == type.second; });
  expect(found != types.end(), Status::NOT_SUPPORTED, where,
         ": expected one of the types F64, F32, BF16, F16, I64, I32, U8, found ", text);
  return found->first;
}

std::int64_t bytes_of(const Safetensor& tensor, const std::string& where) {
  std::int64_t bytes = size_of(tensor.dtype);
  for (const std::int64_t extent : tensor.shape)
    bytes = multiply(bytes, extent, where);
  return bytes;
}

/// The member `key` of a tensor: a list of `count` numbers >= 0, of any length when `count` is absent.
std::vector<std::int64_t> numbers_from(const json& object, const char* key, std::optional<std::size_t> count,
                                       const std::string& where) {
  const json found = object.value(key, json());
  bool is_right = found.is_array() && (!count || found.size() == *count);
  for (std::size_t i = 0; is_right && i < found.size(); ++i)
    is_right = found[i].is_number_unsigned() && found[i].get<std::uint64_t>() <= INT64_MAX;
  expect_whole(is_right, where, ": ", key, ": expected a list of ", count ? std::to_string(*count) + " " : "",
               "numbers, found ", found.dump());
  return found.get<std::vector<std::int64_t>>();
}

Safetensor tensor_from(const std::string& name, const json& object, const std::string& path) {
  const std::string where = path + ": tensor '" + name + "'";
  expect_whole(object.is_object() && object.value("dtype", json()).is_string(), where,
               ": expected an object with dtype, shape and data_offsets, found ", object.dump());
  Safetensor tensor{name, type_from(object["dtype"].get<std::string>(), where), {}, 0, 0};
  tensor.shape = numbers_from(object, "shape", {}, where);
  const auto offsets = numbers_from(object, "data_offsets", 2, where);
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  const std::int64_t bytes = bytes_of(tensor, where);
  expect_whole(tensor.end >= tensor.begin && tensor.end - tensor.begin == bytes, where, ": ",
               safetensors_type(tensor.dtype), " of shape ", shape_text(tensor.shape), ": expected ", bytes,
               " bytes, found data_offsets [", tensor.begin, ", ", tensor.end, "]");
  return tensor;
}

/// The data of the tensors, one behind the other, is the rest of the file.
void check_places(const SafetensorsHeader& header, const File& file) {
  std::int64_t end = 0;
  for (const Safetensor& tensor : header.tensors) {
    expect_whole(tensor.begin == end, file.path().string(), ": tensor '", tensor.name, "': expected its data at byte ",
                 end, ", behind that of the tensor before, found ", tensor.begin);
    end = tensor.end;
  }
  expect_whole(file.size() - header.data == end, file.path().string(), ": expected ", end,
               " bytes of data behind the header, found ", file.size() - header.data);
}

void expect_utf8(const std::string& text, const std::string& what) {
  try {
    json(text).dump();
  } catch (const json::exception&) {
    fail(Status::INVALID_ARGUMENT, what, " is not UTF-8, which safetensors files demand");
  }
}

} // namespace

const char* safetensors_type(DType dtype) {
  return std::find_if(types.begin(), types.end(), [&](const auto& type) { return dtype == type.first; })->second;
}

SafetensorsHeader read_safetensors_header(const File& file) {
  const std::string path = file.path().string(), text = read_header_text(file);
  const json object = parse_unique(text, path);
  expect_whole(object.is_object(), path, ": the safetensors header is no JSON object");
  SafetensorsHeader header;
  header.data = 8 + static_cast<std::int64_t>(text.size());
  for (const auto& [name, value] : object.items()) {
    if (name == metadata_key)
      header.metadata = metadata_from(value, path);
    else
      header.tensors.push_back(tensor_from(name, value, path));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const Safetensor& a, const Safetensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_places(header, file);
  return header;
}

void place_safetensors(SafetensorsHeader& header) {
  std::sort(header.tensors.begin(), header.tensors.end(), [](const Safetensor& a, const Safetensor& b) {
    const auto size = size_of(a.dtype), other = size_of(b.dtype);
    return size != other ? size > other : a.name < b.name;
  });
  std::int64_t end = 0;
  for (Safetensor& tensor : header.tensors) {
    tensor.begin = end;
    tensor.end = end = add(end, bytes_of(tensor, tensor.name), tensor.name);
  }
}

std::string safetensors_prefix(SafetensorsHeader& header) {
  json object = json::object();
  for (const auto& [key, value] : header.metadata)
    expect_utf8(key + value, "entry '" + key + "' of __metadata__");
  if (!header.metadata.empty())
    object[metadata_key] = header.metadata;
  for (const Safetensor& tensor : header.tensors) {
    expect(tensor.name != metadata_key, Status::INVALID_ARGUMENT, "a tensor '", metadata_key,
           "' cannot be in a safetensors file: the format keeps this name for itself");
    expect(!object.contains(tensor.name), Status::INVALID_ARGUMENT, "two tensors would be '", tensor.name,
           "' in the safetensors file");
    expect_utf8(tensor.name, "the name of tensor '" + tensor.name + "'");
    object[tensor.name] = {{"dtype", safetensors_type(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = object.dump();
  text.resize(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(text.size()), 8, "header")), ' ');
  const std::uint64_t length = text.size();
  expect(length <= static_cast<std::uint64_t>(max_header_bytes), Status::NOT_SUPPORTED,
         "the safetensors header: expected at most ", max_header_bytes, " bytes, found ", length);
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &length, 8);
  header.data = 8 + static_cast<std::int64_t>(length);
  return prefix + text;
}

} // namespace ostraka::tool
