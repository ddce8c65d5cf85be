// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/checkpoint/impl/format.hpp>

namespace ostraka::checkpoint::impl {

std::string escape(std::string_view name) {
  expect(!name.empty(), Status::INVALID_ARGUMENT, "checkpoint: a tensor has no name");
  expect(name.find('\0') == std::string_view::npos, Status::INVALID_ARGUMENT, "checkpoint: the name '", name.data(),
         "' goes on behind a zero byte");
  if (name == ".")
    return "%2E";
  std::string link;
  for (const char c : name)
    if (c == '%')
      link += "%25";
    else if (c == '/')
      link += "%2F";
    else
      link += c;
  return link;
}

std::string unescape(std::string_view link) {
  std::string name;
  for (std::size_t i = 0; i < link.size(); ++i) {
    const std::string_view code = link.substr(i, 3);
    const char* meaning = code == "%25" ? "%" : code == "%2F" ? "/" : code == "%2E" ? "." : nullptr;
    if (meaning == nullptr) {
      name += link[i];
      continue;
    }
    name += meaning;
    i += 2;
  }
  return name;
}

} // namespace ostraka::checkpoint::impl
