// SPDX-License-Identifier: Apache-2.0
// JSON files of users: every error names the file and the place, and what was expected and found.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace ostraka::tool {

using Warn = std::function<void(const std::string&)>;

/// A value inside a file; valid as long as the JsonFile.
class JsonPlace {
public:
  JsonPlace(const std::string& file, std::string path, const nlohmann::json& value)
      : file_(&file), path_(std::move(path)), value_(&value) {}

  /// Throws INVALID_ARGUMENT "FILE: PATH: expected EXPECTED, found FOUND".
  [[noreturn]] void refuse(const std::string& expected, const std::string& found) const;
  [[noreturn]] void refuse(const std::string& expected) const;

  void expect_object() const;
  void expect_array() const;
  bool has(const char* key) const { return value_->contains(key); }
  /// The member or element; refused where there is none.
  JsonPlace at(const char* key) const;
  JsonPlace element(std::size_t index) const;
  std::size_t size() const { return value_->size(); }
  bool is_array() const { return value_->is_array(); }
  bool is_object() const { return value_->is_object(); }
  const nlohmann::json& value() const { return *value_; }

  /// A string that is not empty and holds no control characters.
  std::string text() const;
  bool boolean() const;
  /// A whole number in [least, most].
  std::int64_t whole(std::int64_t least, std::int64_t most) const;
  /// A finite number >= 0.
  double number() const;

  /// Tells of members that are not in `known`.
  void warn_of_unknown(std::initializer_list<std::string_view> known, const Warn& warn) const;
  std::string where() const;

private:
  const std::string* file_;
  std::string path_;
  const nlohmann::json* value_;
};

class JsonFile {
public:
  /// Reads all of it. INPUT_OUTPUT where it cannot be read, INVALID_ARGUMENT with line and column where it is no JSON,
  /// has a key twice in one object, nests deeper than files of ours do, or is larger than 64 MiB.
  explicit JsonFile(std::string path);

  JsonPlace root() const { return {path_, "", value_}; }

private:
  std::string path_;
  nlohmann::json value_;
};

} // namespace ostraka::tool
