// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/pattern.hpp>
#include <ostraka/checkpoint/impl/load_plan.hpp>

#include <algorithm>
#include <map>

namespace ostraka::checkpoint::impl {

namespace {

bool is_state(const Tensor& tensor) { return tensor.group.compare(0, 6, "state/") == 0; }

bool fits(const std::string& pattern, const Tensor& tensor) {
  return matches(pattern, tensor.name) ||
         std::any_of(tensor.other_names.begin(), tensor.other_names.end(),
                     [&](const std::string& other) { return matches(pattern, other); });
}

class Planner {
public:
  Planner(const Catalog& catalog, const Contents& contents, const LoadOptions& options, const std::string& operation)
      : catalog_(catalog), contents_(contents), options_(options), operation_(operation) {
    for (std::size_t i = 0; i < contents_.tensors.size(); ++i) {
      const Tensor& tensor = contents_.tensors[i];
      places_[tensor.path()] = i;
      for (const std::string& other : tensor.other_names)
        places_[tensor.group + "/" + other] = i;
    }
  }

  LoadPlan make() {
    check_patterns();
    std::vector<char> is_used(contents_.tensors.size(), 0);
    for (std::size_t i = 0; i < catalog_.sources.size(); ++i)
      if (is_wanted(catalog_.sources[i].tensor))
        if (const auto found = find(catalog_.sources[i].tensor)) {
          is_used[*found] = 1;
          compare(catalog_.sources[i].tensor, contents_.tensors[*found]);
          plan_.matches.push_back({i, *found});
        }
    for (std::size_t i = 0; i < is_used.size(); ++i)
      if (is_used[i] == 0 && options_.patterns.empty() && is_wanted(contents_.tensors[i]))
        plan_.report.unexpected.push_back(contents_.tensors[i].path());
    report_differences();
    list_states();
    std::stable_sort(plan_.matches.begin(), plan_.matches.end(), [&](const Match& a, const Match& b) {
      return contents_.tensors[a.tensor].offset < contents_.tensors[b.tensor].offset;
    });
    return std::move(plan_);
  }

private:
  bool is_wanted(const Tensor& tensor) const {
    if (is_state(tensor) && !options_.state)
      return false;
    return options_.patterns.empty() || std::any_of(options_.patterns.begin(), options_.patterns.end(),
                                                    [&](const std::string& pattern) { return fits(pattern, tensor); });
  }

  void check_patterns() const {
    for (const std::string& pattern : options_.patterns)
      expect(std::any_of(catalog_.sources.begin(), catalog_.sources.end(),
                         [&](const Source& source) { return fits(pattern, source.tensor); }),
             Status::INVALID_ARGUMENT, operation_, ": no tensor of the content is called '", pattern, "'");
  }

  std::optional<std::size_t> find(const Tensor& wanted) {
    std::vector<std::string> names{wanted.name};
    names.insert(names.end(), wanted.other_names.begin(), wanted.other_names.end());
    for (const std::string& name : names)
      if (const auto found = places_.find(wanted.group + "/" + name); found != places_.end())
        return found->second;
    plan_.report.missing.push_back(wanted.path());
    return std::nullopt;
  }

  void compare(const Tensor& wanted, const Tensor& found) {
    if (wanted.shape != found.shape)
      other_shapes_.push_back("'" + wanted.path() + "': expected the shape " + layout::to_string(wanted.shape) +
                              ", found " + layout::to_string(found.shape));
    else if (wanted.dtype != found.dtype && !(is_floating(wanted.dtype) && is_floating(found.dtype)))
      other_types_.push_back("'" + wanted.path() + "': expected the type " + name(wanted.dtype) + ", found " +
                             name(found.dtype));
  }

  void report_differences() const {
    std::string text;
    const auto list = [&](const char* what, const std::vector<std::string>& names, const char* quote) {
      for (std::size_t i = 0; i < names.size(); ++i)
        text += (i == 0 ? std::string(text.empty() ? "" : "; ") + what : std::string(", ")) + quote + names[i] + quote;
    };
    if (options_.strict) {
      list("not in the file: ", plan_.report.missing, "'");
      list("in the file, but not asked for: ", plan_.report.unexpected, "'");
    }
    const bool is_other_set = !text.empty();
    list("of another shape: ", other_shapes_, "");
    list("of another type: ", other_types_, "");
    const Status status = is_other_set             ? Status::INVALID_ARGUMENT
                          : !other_shapes_.empty() ? Status::SHAPE_MISMATCH
                                                   : Status::TYPE_MISMATCH;
    expect(text.empty(), status, operation_, ": tensors do not fit: ", text,
           is_other_set ? " (names, patterns or strict = false load what both have)" : "");
  }

  void list_states() {
    for (const Match& match : plan_.matches)
      if (const int state = catalog_.sources[match.source].state; state >= 0)
        plan_.states.push_back(state);
    std::sort(plan_.states.begin(), plan_.states.end());
    plan_.states.erase(std::unique(plan_.states.begin(), plan_.states.end()), plan_.states.end());
  }

  const Catalog& catalog_;
  const Contents& contents_;
  const LoadOptions& options_;
  const std::string& operation_;
  std::map<std::string, std::size_t> places_;
  LoadPlan plan_;
  std::vector<std::string> other_shapes_, other_types_;
};

} // namespace

LoadPlan make_plan(const Catalog& catalog, const Contents& contents, const LoadOptions& options,
                   const std::string& operation) {
  return Planner(catalog, contents, options, operation).make();
}

} // namespace ostraka::checkpoint::impl
