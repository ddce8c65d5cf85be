// SPDX-License-Identifier: Apache-2.0
#include "keys.hpp"

#include <ostraka/base/error.hpp>
#include <ostraka/checkpoint/contents.hpp>
#include <ostraka/checkpoint/impl/format.hpp>

namespace ostraka::tool {
namespace {

const std::string state_prefix = "ostraka.state/";
const std::string state_group_prefix = std::string(checkpoint::state_group) + "/";

} // namespace

std::string key_of(const std::string& group, const std::string& name) {
  if (group.starts_with(state_group_prefix))
    return state_prefix + checkpoint::impl::escape(group.substr(state_group_prefix.size())) + "/" + name;
  expect(!name.starts_with(state_prefix), Status::INVALID_ARGUMENT, "weight '", name, "': names that begin with '",
         state_prefix, "' are for optimizer state in a safetensors file");
  return name;
}

std::pair<std::string, std::string> group_and_name_of(const std::string& key) {
  if (!key.starts_with(state_prefix))
    return {checkpoint::main_weight_group, key};
  const std::size_t begin = state_prefix.size(), slash = key.find('/', begin);
  expect(slash != std::string::npos && slash > begin && slash + 1 < key.size(), Status::INVALID_ARGUMENT, "tensor '",
         key, "': expected '", state_prefix, "STATE/NAME'");
  return {state_group_prefix + checkpoint::impl::unescape(key.substr(begin, slash - begin)), key.substr(slash + 1)};
}

} // namespace ostraka::tool
