// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "damage.hpp"
#include "file.hpp"
#include "keys.hpp"
#include "progress.hpp"
#include "safetensors.hpp"
#include "text.hpp"
#include <ostraka/checkpoint/impl/crc32c.hpp>
#include <ostraka/checkpoint/impl/format.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>

namespace ostraka::tool {
namespace {

using checkpoint::Contents;
using checkpoint::Tensor;
using nlohmann::json;

std::optional<std::int64_t> steps_of(const SafetensorsHeader& header, const ImportOptions& options) {
  const auto found = header.metadata.find(steps_key);
  if (options.steps || found == header.metadata.end())
    return options.steps;
  const std::string& text = found->second;
  std::int64_t steps = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), steps);
  expect_whole(result.ec == std::errc() && result.ptr == text.data() + text.size() && steps >= 0, options.safetensors,
               ": __metadata__: ", steps_key, ": expected a number >= 0, found '", text, "'");
  return steps;
}

/// Name that has the data: the names tied to it. Without our list of them, an entry whose value is a tensor's name says
/// so, except "format".
std::multimap<std::string, std::string> tied_names(const SafetensorsHeader& header, const std::string& path) {
  std::multimap<std::string, std::string> result;
  const auto listed = header.metadata.find(tied_names_key);
  const bool has_list = listed != header.metadata.end();
  const json names = has_list ? json::parse(listed->second, nullptr, false) : json();
  expect_whole(!has_list || names.is_array(), path, ": __metadata__: ", tied_names_key,
               ": expected a JSON list, found ", has_list ? listed->second : "");
  for (const auto& [alias, target] : header.metadata)
    if (has_list ? std::find(names.begin(), names.end(), json(alias)) != names.end() : alias != "format")
      result.emplace(target, alias);
  return result;
}

struct Import {
  Contents contents;
  std::vector<Safetensor> sources; // of contents.tensors
};

Import plan(const SafetensorsHeader& header, const ImportOptions& options) {
  const auto tied = tied_names(header, options.safetensors);
  Import result;
  result.contents.steps = steps_of(header, options);
  for (const Safetensor& source : header.tensors) {
    const auto [group, name] = group_and_name_of(source.name);
    if (!is_selected(name, options.only))
      continue;
    Tensor tensor;
    tensor.group = group;
    tensor.name = name;
    tensor.dtype = source.dtype;
    tensor.shape = source.shape;
    const auto [begin, end] = tied.equal_range(source.name);
    for (auto alias = begin; alias != end; ++alias)
      tensor.other_names.push_back(group_and_name_of(alias->second).second);
    result.contents.tensors.push_back(std::move(tensor));
    result.sources.push_back(source);
  }
  expect(!result.sources.empty() || options.only.empty(), Status::INVALID_ARGUMENT, options.safetensors,
         ": --only matches none of ", header.tensors.size(), " tensors");
  return result;
}

/// Calls body(offset in the tensor, block) for all of it.
template <class Body>
void read_blocks(const File& in, const SafetensorsHeader& header, const Safetensor& tensor,
                 std::vector<std::byte>& buffer, Progress& progress, Body&& body) {
  for_each_block(tensor.end - tensor.begin, buffer, progress, [&](std::int64_t offset, auto block) {
    in.read(header.data + tensor.begin + offset, block, tensor.name);
    body(offset, block);
  });
}

} // namespace

int import_safetensors(const ImportOptions& options) {
  const File in(options.safetensors, File::Access::read);
  const SafetensorsHeader header = read_safetensors_header(in);
  Import import = naming(options.safetensors, [&] { return plan(header, options); });
  auto& tensors = import.contents.tensors;
  std::int64_t bytes = 0;
  for (const Tensor& tensor : tensors)
    bytes += tensor.bytes();

  Replacement replacement(options.file, options.force);
  std::vector<std::byte> buffer(block_bytes);
  {
    // Sums stand before the data in the file, so everything is read twice.
    Progress progress("import", 2 * bytes);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      read_blocks(in, header, import.sources[i], buffer, progress, [&](std::int64_t, std::span<const std::byte> block) {
        tensors[i].crc32c = checkpoint::impl::crc32c(tensors[i].crc32c, block.data(), block.size());
      });
    checkpoint::impl::write_frame(replacement.path().string(), import.contents);
    const File out(replacement.path(), File::Access::write);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      read_blocks(
          in, header, import.sources[i], buffer, progress,
          [&](std::int64_t offset, std::span<const std::byte> block) { out.write(tensors[i].offset + offset, block); });
  }
  replacement.commit();
  std::printf("%s: %zu tensors, %s\n", options.file.c_str(), tensors.size(), human_bytes(bytes).c_str());
  return success;
}

} // namespace ostraka::tool
