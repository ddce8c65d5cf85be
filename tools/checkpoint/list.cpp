// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_file.hpp"
#include "commands.hpp"
#include "table.hpp"
#include "text.hpp"
#include <ostraka/base/with_type.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace ostraka::tool {
namespace {

/// The user's short texts and few numbers are shown; empty for all else.
std::string value_text(const CheckpointFile& checkpoint, const Tensor& tensor) {
  constexpr std::int64_t most = 64; // bytes
  if (tensor.group != checkpoint::user_group || tensor.bytes() > most)
    return "";
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
  TensorReader(checkpoint, tensor).read(bytes);
  if (tensor.is_text)
    return "\"" + printable({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) + "\"";
  std::string text;
  with_type(tensor.dtype, [&]<class T>(T value) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(T)) {
      std::memcpy(&value, bytes.data() + i, sizeof(T));
      if constexpr (std::is_integral_v<T>)
        text += (i > 0 ? " " : "") + std::to_string(value);
      else if constexpr (std::is_same_v<T, double>)
        text += (i > 0 ? " " : "") + number_text(value);
      else
        text += (i > 0 ? " " : "") + number_text(static_cast<float>(value));
    }
  });
  return text;
}

void append_rows(const CheckpointFile& checkpoint, const Tensor& tensor, std::vector<Row>& rows) {
  rows.push_back({printable(tensor.group), printable(tensor.name), tensor.is_text ? "text" : name(tensor.dtype),
                  shape_text(tensor.shape), std::to_string(tensor.bytes()), value_text(checkpoint, tensor)});
  for (const std::string& other : tensor.other_names)
    rows.push_back({printable(tensor.group), printable(other), "tied", "to " + printable(tensor.name), "", ""});
}

int print_table(const CheckpointFile& checkpoint, const std::vector<const Tensor*>& tensors) {
  const Contents& contents = checkpoint.contents();
  const std::string steps = contents.steps ? "step " + std::to_string(*contents.steps) : "no step";
  std::printf("%s: format %lld, written by Ostraka %s, %s, %zu tensors, %s\n", checkpoint.path().c_str(),
              static_cast<long long>(contents.format_version), printable(contents.library_version).c_str(),
              steps.c_str(), tensors.size(), human_bytes(total_bytes(tensors)).c_str());
  std::vector<Row> rows{{"GROUP", "NAME", "TYPE", "SHAPE", "BYTES", "VALUE"}};
  for (const Tensor* tensor : tensors)
    append_rows(checkpoint, *tensor, rows);
  const bool has_values = std::any_of(rows.begin() + 1, rows.end(), [](const Row& row) { return !row.back().empty(); });
  if (!has_values)
    rows.front().back().clear();
  std::fputs(table_text(rows).c_str(), stdout);
  return success;
}

nlohmann::ordered_json to_json(const Tensor& tensor) {
  return {{"group", tensor.group},
          {"name", tensor.name},
          {"dtype", name(tensor.dtype)},
          {"is_text", tensor.is_text},
          {"shape", tensor.shape},
          {"bytes", tensor.bytes()},
          {"offset", tensor.offset},
          {"crc32c", hexadecimal(tensor.crc32c)},
          {"other_names", tensor.other_names}};
}

int print_json(const CheckpointFile& checkpoint, const std::vector<const Tensor*>& tensors) {
  const Contents& contents = checkpoint.contents();
  nlohmann::ordered_json json{{"file", checkpoint.path()},
                              {"format_version", contents.format_version},
                              {"library_version", contents.library_version},
                              {"steps", nullptr},
                              {"layout_report", contents.layout_report},
                              {"bytes", total_bytes(tensors)},
                              {"tensors", nlohmann::ordered_json::array()}};
  if (contents.steps)
    json["steps"] = *contents.steps;
  for (const Tensor* tensor : tensors)
    json["tensors"].push_back(to_json(*tensor));
  // HDF5 names are any bytes; those that are not UTF-8 are replaced.
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  return success;
}

} // namespace

int list(const ListOptions& options) {
  const CheckpointFile checkpoint(options.file);
  const auto tensors = select(checkpoint, options.only);
  return options.json ? print_json(checkpoint, tensors) : print_table(checkpoint, tensors);
}

} // namespace ostraka::tool
