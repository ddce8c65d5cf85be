// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_file.hpp"
#include "commands.hpp"
#include "damage.hpp"
#include "text.hpp"

#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace ostraka::tool {
namespace {

/// Every path of a checkpoint, those of tied names too.
using Paths = std::map<std::string, const Tensor*>;

Paths paths_of(const Contents& contents, const std::vector<std::string>& only) {
  Paths paths;
  for (const Tensor& tensor : contents.tensors) {
    if (is_selected(tensor.name, only))
      paths.emplace(tensor.path(), &tensor);
    for (const std::string& other : tensor.other_names)
      if (is_selected(other, only))
        paths.emplace(tensor.group + "/" + other, &tensor);
  }
  return paths;
}

std::string type_text(const Tensor& tensor) { return tensor.is_text ? "text" : name(tensor.dtype); }
std::string kind_text(const Tensor& tensor) { return type_text(tensor) + " " + shape_text(tensor.shape); }

/// The element's indices in C order.
std::string position_text(std::int64_t element, const layout::Shape& shape) {
  std::vector<std::int64_t> position(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; element /= shape[d])
    position[d] = element % shape[d];
  return shape_text(position);
}

class Comparison {
public:
  Comparison(const DiffOptions& options)
      : options_(options), a_(options.a), b_(options.b), paths_a_(paths_of(a_.contents(), options.only)),
        paths_b_(paths_of(b_.contents(), options.only)) {}

  int run() {
    expect(options_.only.empty() || !paths_a_.empty() || !paths_b_.empty(), Status::INVALID_ARGUMENT,
           "--only matches no tensor of ", options_.a, " and ", options_.b);
    compare_steps();
    compare_names();
    compare_values();
    for (const std::string& line : lines_)
      std::printf("%s\n", line.c_str());
    if (lines_.empty())
      std::printf("equal: %zu names, %s\n", paths_a_.size(), human_bytes(bytes_).c_str());
    else
      std::printf("different: %zu of %zu names\n", different_.size(), names_);
    return lines_.empty() ? success : difference_found;
  }

private:
  using Pair = std::pair<const Tensor*, const Tensor*>;

  void add(const char* kind, const std::string& path, const std::string& what) {
    lines_.push_back(std::string(kind) + "  " + printable(path) + (what.empty() ? "" : ": " + what));
    different_.insert(path);
  }

  void compare_steps() {
    const auto text = [](const std::optional<std::int64_t>& steps) { return steps ? std::to_string(*steps) : "none"; };
    const auto &a = a_.contents().steps, &b = b_.contents().steps;
    if (a != b)
      lines_.push_back("step    " + text(a) + " in " + a_.path() + ", " + text(b) + " in " + b_.path());
  }

  /// Names and kinds; `pairs_` gets what is to be read.
  void compare_names() {
    for (const auto& [path, tensor] : paths_a_) {
      const auto found = paths_b_.find(path);
      if (found == paths_b_.end())
        add("only in A", path, kind_text(*tensor));
      else
        compare_kinds(path, *tensor, *found->second);
    }
    names_ = paths_a_.size();
    for (const auto& [path, tensor] : paths_b_)
      if (!paths_a_.contains(path)) {
        add("only in B", path, kind_text(*tensor));
        ++names_;
      }
  }

  void compare_kinds(const std::string& path, const Tensor& a, const Tensor& b) {
    if (type_text(a) != type_text(b))
      add("type     ", path, type_text(a) + " in A, " + type_text(b) + " in B");
    if (a.shape != b.shape)
      add("shape    ", path, shape_text(a.shape) + " in A, " + shape_text(b.shape) + " in B");
    else if (a.is_text == b.is_text)
      pairs_.emplace_back(path, Pair{&a, &b});
  }

  void compare_values() {
    std::map<Pair, std::optional<std::string>> known; // a tied tensor is read once
    for (const auto& [path, pair] : pairs_)
      if (known.try_emplace(pair).second)
        bytes_ += pair.first->bytes();
    Progress progress("diff", bytes_);
    for (const auto& [path, pair] : pairs_) {
      std::optional<std::string>& difference = known[pair];
      if (!difference)
        difference = value_difference(*pair.first, *pair.second, progress);
      if (!difference->empty())
        add("values   ", path, *difference);
    }
  }

  std::string value_difference(const Tensor& a, const Tensor& b, Progress& progress) {
    TensorReader reader_a(a_, a), reader_b(b_, b);
    const std::int64_t elements_per_block = block_bytes / 8, numel = layout::numel(a.shape);
    const std::int64_t size_a = size_of(a.dtype), size_b = size_of(b.dtype);
    ValueDifference difference;
    for (std::int64_t first = 0; first < numel; first += elements_per_block) {
      const std::int64_t count = std::min(elements_per_block, numel - first);
      const auto block_a = std::span(buffer_a_).first(static_cast<std::size_t>(count * size_a));
      const auto block_b = std::span(buffer_b_).first(static_cast<std::size_t>(count * size_b));
      reader_a.read(block_a);
      reader_b.read(block_b);
      compare(a.dtype, block_a, b.dtype, block_b, first, options_.tolerance, difference);
      progress.add(count * size_a);
    }
    reader_a.expect_sum();
    reader_b.expect_sum();
    return to_text(difference, a);
  }

  static std::string to_text(const ValueDifference& difference, const Tensor& tensor) {
    if (difference.elements == 0)
      return "";
    if (tensor.is_text)
      return "texts of one length differ, first at byte " + std::to_string(difference.first);
    std::string text = std::to_string(difference.elements) + " of " + std::to_string(layout::numel(tensor.shape)) +
                       " elements, first at " + position_text(difference.first, tensor.shape) +
                       "; largest difference " + number_text(difference.absolute) + ", relative " +
                       number_text(difference.relative);
    if (difference.only_one_nan > 0)
      text += "; NaN in one only: " + std::to_string(difference.only_one_nan);
    return text;
  }

  const DiffOptions& options_;
  CheckpointFile a_, b_;
  Paths paths_a_, paths_b_;
  std::vector<std::pair<std::string, Pair>> pairs_;
  std::vector<std::string> lines_;
  std::set<std::string> different_;
  std::size_t names_ = 0;
  std::int64_t bytes_ = 0;
  std::vector<std::byte> buffer_a_ = std::vector<std::byte>(block_bytes);
  std::vector<std::byte> buffer_b_ = std::vector<std::byte>(block_bytes);
};

} // namespace

int diff(const DiffOptions& options) { return Comparison(options).run(); }

} // namespace ostraka::tool
