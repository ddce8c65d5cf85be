// SPDX-License-Identifier: Apache-2.0
#include <ostraka/checkpoint/impl/file.hpp>
#include <ostraka/checkpoint/impl/partial_file.hpp>

#include <cstdio>
#include <filesystem>
#include <random>

namespace ostraka::checkpoint::impl {

namespace {

constexpr std::size_t suffix_length = 16;
constexpr const char* partial_mark = ".partial-";

bool is_partial_of(const std::string& name, const std::string& file) {
  const std::string begin = file + partial_mark;
  return name.size() == begin.size() + suffix_length && name.compare(0, begin.size(), begin) == 0 &&
         name.find_first_not_of("0123456789abcdef", begin.size()) == std::string::npos;
}

} // namespace

std::int64_t random_number() {
  std::random_device device;
  return static_cast<std::int64_t>(device()) << 32 | device();
}

std::string partial_path(const std::string& path, std::int64_t number) {
  char digits[suffix_length + 1];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return path + partial_mark + digits;
}

void remove_partial_files(const std::string& path) {
  const std::filesystem::path target(path);
  std::error_code ignored;
  const auto folder = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
  for (std::filesystem::directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored))
    if (is_partial_of(entry->path().filename().string(), target.filename().string()))
      remove_file(entry->path().string());
}

} // namespace ostraka::checkpoint::impl
