// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/environment.hpp>
#include <ostraka/base/error.hpp>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <system_error>

namespace ostraka::environment {

bool check() {
  const char* text = std::getenv("OSTRAKA_CHECK");
  return text != nullptr && std::string_view(text) != "0" && std::string_view(text) != "";
}

namespace {

// A whole number, or `unset` where the variable is not set.
std::int64_t number(const char* variable, std::int64_t least, std::int64_t largest, std::int64_t unset) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0')
    return unset;
  char* end = nullptr;
  const std::int64_t value = std::strtoll(text, &end, 10);
  expect(*end == '\0' && value >= least && value <= largest, Status::INVALID_ARGUMENT, variable,
         ": expected a number from ", least, " to ", largest, ", found '", text, "'");
  return value;
}

constexpr std::int64_t largest_count = std::numeric_limits<std::int32_t>::max();

} // namespace

Backend backend() {
  const char* text = std::getenv("OSTRAKA_BACKEND");
  const std::string_view name = text == nullptr || *text == '\0' ? "node" : text;
  expect(name == "node" || name == "mpi" || name == "staged", Status::INVALID_ARGUMENT,
         "OSTRAKA_BACKEND: expected node, mpi or staged, found '", name, "'");
  return name == "node" ? Backend::node : name == "mpi" ? Backend::mpi : Backend::staged;
}

DeviceSetting device() {
  const char* text = std::getenv("OSTRAKA_DEVICE");
  const std::string_view name = text == nullptr || *text == '\0' ? "host" : text;
  if (name == "host" || name == "cuda")
    return {name == "cuda", -1};
  constexpr std::string_view numbered = "cuda:";
  int index = -1;
  const bool has_number = name.starts_with(numbered);
  const auto [end, code] =
      std::from_chars(name.data() + (has_number ? numbered.size() : 0), name.data() + name.size(), index);
  expect(has_number && code == std::errc() && end == name.data() + name.size() && index >= 0, Status::INVALID_ARGUMENT,
         "OSTRAKA_DEVICE: expected host, cuda or cuda:N, found '", name, "'");
  return {true, index};
}

NcclSplit nccl_split() {
  const char* text = std::getenv("OSTRAKA_NCCL_SPLIT");
  const std::string_view name = text == nullptr || *text == '\0' ? "own" : text;
  expect(name == "own" || name == "shared" || name == "off", Status::INVALID_ARGUMENT,
         "OSTRAKA_NCCL_SPLIT: expected own, shared or off, found '", name, "'");
  return name == "own" ? NcclSplit::own : name == "shared" ? NcclSplit::shared : NcclSplit::off;
}

int local_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PALS_LOCAL_RANKID",
                               "FLUX_TASK_LOCAL_ID", "MV2_COMM_WORLD_LOCAL_RANK"})
    if (const std::int64_t rank = number(variable, 0, largest_count, -1); rank >= 0)
      return static_cast<int>(rank);
  return 0;
}

int ranks_per_node() { return static_cast<int>(number("OSTRAKA_RANKS_PER_NODE", 0, largest_count, 0)); }

std::int64_t count_limit() { return number("OSTRAKA_COUNT_LIMIT", 1, largest_count, largest_count); }

double timeout_seconds() {
  const char* text = std::getenv("OSTRAKA_TIMEOUT_S");
  if (text == nullptr || *text == '\0')
    return 300;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  expect(*end == '\0' && seconds >= 0, Status::INVALID_ARGUMENT,
         "OSTRAKA_TIMEOUT_S: expected a number of seconds >= 0, found '", text, "'");
  return seconds;
}

int log_level() {
  const char* text = std::getenv("OSTRAKA_LOG_LEVEL");
  const std::string_view level = text == nullptr ? "none" : text;
  constexpr std::string_view names[] = {"none", "warn", "info"};
  for (int i = 0; i < 3; ++i)
    if (level == names[i])
      return i;
  fail(Status::INVALID_ARGUMENT, "OSTRAKA_LOG_LEVEL: expected none, warn or info, found '", level, "'");
}

std::string trace_file() {
  const char* text = std::getenv("OSTRAKA_TRACE");
  return text == nullptr ? "" : text;
}

} // namespace ostraka::environment
