// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/scoped_environment.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ostraka::runtime::test {

/// An empty folder of this test for the file of OSTRAKA_TRACE.
class TraceFolder {
public:
  explicit TraceFolder(const std::string& file = "trace.json") : variable_("OSTRAKA_TRACE", (path_ / file).c_str()) {
    std::filesystem::create_directory(path_);
  }
  ~TraceFolder() { std::filesystem::remove_all(path_); }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  /// "traceEvents" of a file.
  nlohmann::json read(const std::string& name = "trace.0.json") const {
    std::ifstream file(path_ / name);
    return nlohmann::json::parse(file).at("traceEvents");
  }

private:
  static std::filesystem::path make_path() {
    static int made = 0;
    return std::filesystem::temp_directory_path() /
           ("ostraka_trace_" + std::to_string(getpid()) + "_" + std::to_string(made++));
  }

  std::filesystem::path path_ = make_path();
  ostraka::test::ScopedEnvironment variable_;
};

struct Found {
  std::string name, track;
  double begin, end; ///< microseconds
};

/// The complete events in the order of the file, with the names of their tracks.
inline std::vector<Found> complete_events(const nlohmann::json& events) {
  std::vector<std::string> tracks;
  for (const auto& event : events)
    if (event.at("name") == "thread_name") {
      EXPECT_EQ(event.at("tid"), tracks.size());
      tracks.push_back(event.at("args").at("name"));
    }
  std::vector<Found> found;
  for (const auto& event : events)
    if (event.at("ph") == "X") {
      const double begin = event.at("ts");
      found.push_back({event.at("name"), tracks.at(event.at("tid")), begin, begin + event.at("dur").get<double>()});
    }
  return found;
}

inline std::vector<std::string> names(const std::vector<Found>& events) {
  std::vector<std::string> all;
  for (const Found& event : events)
    all.push_back(event.name);
  return all;
}

inline std::vector<std::string> tracks(const std::vector<Found>& events) {
  std::vector<std::string> all;
  for (const Found& event : events)
    all.push_back(event.track);
  return all;
}

} // namespace ostraka::runtime::test
