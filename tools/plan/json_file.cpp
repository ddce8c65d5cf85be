// SPDX-License-Identifier: Apache-2.0
#include "json_file.hpp"

#include "file.hpp"
#include "text.hpp"
#include <ostraka/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace ostraka::tool {
namespace {

constexpr std::int64_t largest_file = std::int64_t{64} << 20; // bytes
constexpr int deepest = 16;

std::string read_all(const std::string& path) {
  const File file(path, File::Access::read);
  expect(file.size() <= largest_file, Status::INVALID_ARGUMENT, path, ": expected at most ", human_bytes(largest_file),
         " of JSON, found ", human_bytes(file.size()));
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)), "text");
  return text;
}

/// "line 3, column 7: syntax error ..." of nlohmann's "[json.exception.parse_error.101] parse error at line 3, ...".
std::string syntax_text(const std::string& message) {
  for (const std::string_view begin : {"parse error at ", "] "})
    if (const std::size_t at = message.find(begin); at != std::string::npos)
      return printable(message.substr(at + begin.size()));
  return printable(message);
}

/// Refuses what the parser would let pass: keys that come twice, nesting that could only be meant to harm.
class Watch {
public:
  explicit Watch(const std::string& path) : path_(path) {}

  bool operator()(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    using enum nlohmann::json::parse_event_t;
    expect(depth <= deepest, Status::INVALID_ARGUMENT, path_, ": expected at most ", deepest,
           " levels of brackets, found more");
    if (event == object_start)
      keys_.emplace_back();
    else if (event == object_end)
      keys_.pop_back();
    else if (event == key)
      expect(keys_.back().insert(parsed.get<std::string>()).second, Status::INVALID_ARGUMENT, path_, ": key '",
             printable(parsed.get<std::string>()), "' comes twice in one object");
    return true;
  }

private:
  const std::string& path_;
  std::vector<std::set<std::string>> keys_;
};

/// What stands there, short enough for a message.
std::string found_text(const nlohmann::json& value) {
  if (value.is_array())
    return "a list of " + std::to_string(value.size());
  if (value.is_object())
    return "an object";
  const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return printable(text.size() > 60 ? text.substr(0, 60) + "..." : text);
}

} // namespace

JsonFile::JsonFile(std::string path) : path_(std::move(path)) {
  const std::string text = read_all(path_);
  try {
    auto watch = std::make_shared<Watch>(path_);
    value_ = nlohmann::json::parse(
        text, [watch](int depth, auto event, nlohmann::json& parsed) { return (*watch)(depth, event, parsed); });
  } catch (const nlohmann::json::exception& error) {
    fail(Status::INVALID_ARGUMENT, path_, ": ", syntax_text(error.what()));
  }
}

std::string JsonPlace::where() const { return *file_ + ": " + (path_.empty() ? "" : path_ + ": "); }

void JsonPlace::refuse(const std::string& expected, const std::string& found) const {
  fail(Status::INVALID_ARGUMENT, where(), "expected ", expected, ", found ", found);
}

void JsonPlace::refuse(const std::string& expected) const { refuse(expected, found_text(*value_)); }

void JsonPlace::expect_object() const {
  if (!value_->is_object())
    refuse("an object {...}");
}

void JsonPlace::expect_array() const {
  if (!value_->is_array())
    refuse("a list [...]");
}

JsonPlace JsonPlace::at(const char* key) const {
  if (!has(key))
    refuse("a member '" + std::string(key) + "'", "none");
  return {*file_, path_ + (path_.empty() ? "" : ".") + key, (*value_)[key]};
}

JsonPlace JsonPlace::element(std::size_t index) const {
  return {*file_, path_ + "[" + std::to_string(index) + "]", (*value_)[index]};
}

std::string JsonPlace::text() const {
  if (!value_->is_string())
    refuse("text in quotes");
  auto text = value_->get<std::string>();
  if (text.empty() || printable(text) != text)
    refuse("text without control characters, not empty");
  return text;
}

bool JsonPlace::boolean() const {
  if (!value_->is_boolean())
    refuse("true or false");
  return value_->get<bool>();
}

std::int64_t JsonPlace::whole(std::int64_t least, std::int64_t most) const {
  const bool fits =
      value_->is_number_integer() &&
      (!value_->is_number_unsigned() || value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  if (!fits || value_->get<std::int64_t>() < least || value_->get<std::int64_t>() > most)
    refuse("a whole number from " + std::to_string(least) +
           (most == INT64_MAX ? " to 2^63 - 1" : " to " + std::to_string(most)));
  return value_->get<std::int64_t>();
}

double JsonPlace::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>()) || value_->get<double>() < 0)
    refuse("a number that is not negative");
  return value_->get<double>();
}

void JsonPlace::warn_of_unknown(std::initializer_list<std::string_view> known, const Warn& warn) const {
  for (const auto& [key, value] : value_->items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      warn(where() + "unknown member '" + printable(key) + "' is ignored");
}

} // namespace ostraka::tool
