// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_file.hpp"
#include "commands.hpp"
#include "damage.hpp"
#include "keys.hpp"
#include "safetensors.hpp"
#include "text.hpp"
#include <ostraka/base/error.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <map>

namespace ostraka::tool {
namespace {

bool is_exported(const Tensor& tensor, bool state) {
  return tensor.group == checkpoint::main_weight_group ||
         (state && tensor.group.starts_with(std::string(checkpoint::state_group) + "/"));
}

std::vector<const Tensor*> tensors_of(const CheckpointFile& checkpoint, const ExportOptions& options) {
  std::vector<const Tensor*> tensors;
  for (const Tensor* tensor : select(checkpoint, options.only))
    if (is_exported(*tensor, options.state))
      tensors.push_back(tensor);
  expect(!tensors.empty() || options.only.empty(), Status::INVALID_ARGUMENT, options.file,
         ": --only matches no weight, found only optimizer state or the user's values");
  return tensors;
}

void add_entry(SafetensorsHeader& header, const std::string& key, const std::string& value) {
  expect(header.metadata.emplace(key, value).second, Status::INVALID_ARGUMENT, "__metadata__ would have '", key,
         "' twice");
}

/// The user's texts stand in __metadata__ too.
void add_texts(SafetensorsHeader& header, const CheckpointFile& checkpoint) {
  for (const Tensor& tensor : checkpoint.contents().tensors)
    if (tensor.group == checkpoint::user_group && tensor.is_text) {
      std::string text(static_cast<std::size_t>(tensor.bytes()), '\0');
      TensorReader reader(checkpoint, tensor);
      reader.read(std::as_writable_bytes(std::span(text)));
      reader.expect_sum();
      add_entry(header, tensor.name, text);
    }
}

void add_metadata(SafetensorsHeader& header, const CheckpointFile& checkpoint, const ExportOptions& options) {
  const Contents& contents = checkpoint.contents();
  add_entry(header, format_version_key, std::to_string(contents.format_version));
  add_entry(header, library_version_key, contents.library_version);
  if (contents.steps)
    add_entry(header, steps_key, std::to_string(*contents.steps));
  for (const std::string& entry : options.metadata) {
    const std::size_t equals = entry.find('=');
    expect(equals != std::string::npos && equals > 0, Status::INVALID_ARGUMENT,
           "--metadata: expected KEY=VALUE, found '", entry, "'");
    add_entry(header, entry.substr(0, equals), entry.substr(equals + 1));
  }
}

/// Other names of a tensor, as other programs write them: the name that has the data. Their list, also an empty one,
/// tells them from texts that are names of tensors.
void add_tied_names(SafetensorsHeader& header, const std::vector<const Tensor*>& tensors) {
  nlohmann::json names = nlohmann::json::array();
  for (const Tensor* tensor : tensors)
    for (const std::string& other : tensor->other_names) {
      names.push_back(key_of(tensor->group, other));
      add_entry(header, names.back().get<std::string>(), key_of(tensor->group, tensor->name));
    }
  add_entry(header, tied_names_key, names.dump());
}

struct Export {
  SafetensorsHeader header;
  std::string prefix;                           // what stands before the data
  std::map<std::string, const Tensor*> sources; // by the tensors' names in the header
};

Export plan(const CheckpointFile& checkpoint, const std::vector<const Tensor*>& tensors, const ExportOptions& options) {
  Export result;
  SafetensorsHeader& header = result.header;
  for (const Tensor* tensor : tensors) {
    const std::string key = key_of(tensor->group, tensor->name);
    result.sources.emplace(key, tensor);
    header.tensors.push_back({key, tensor->dtype, tensor->shape, 0, 0});
  }
  add_metadata(header, checkpoint, options);
  add_tied_names(header, tensors);
  add_texts(header, checkpoint);
  place_safetensors(header);
  result.prefix = safetensors_prefix(header);
  return result;
}

void copy(const CheckpointFile& checkpoint, const Tensor& tensor, const File& out, std::int64_t offset,
          std::vector<std::byte>& buffer, Progress& progress) {
  TensorReader reader(checkpoint, tensor);
  for_each_block(tensor.bytes(), buffer, progress, [&](std::int64_t begin, auto block) {
    reader.read(block);
    out.write(offset + begin, block);
  });
  reader.expect_sum();
}

} // namespace

int export_safetensors(const ExportOptions& options) {
  const CheckpointFile checkpoint(options.file);
  const auto tensors = tensors_of(checkpoint, options);
  Export result = naming(options.file, [&] { return plan(checkpoint, tensors, options); });

  Replacement replacement(options.safetensors, options.force);
  {
    const File out(replacement.path(), File::Access::write);
    out.write(0, std::as_bytes(std::span(result.prefix)));
    std::vector<std::byte> buffer(block_bytes);
    Progress progress("export", total_bytes(tensors));
    for (const Safetensor& tensor : result.header.tensors)
      copy(checkpoint, *result.sources.at(tensor.name), out, result.header.data + tensor.begin, buffer, progress);
  }
  replacement.commit();
  std::printf("%s: %zu tensors, %s\n", options.safetensors.c_str(), tensors.size(),
              human_bytes(total_bytes(tensors)).c_str());
  return success;
}

} // namespace ostraka::tool
