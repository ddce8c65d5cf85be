// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/base/pattern.hpp>
#include <ostraka/layout/boxes.hpp>
#include <ostraka/optim/impl/groups.hpp>

#include <algorithm>
#include <cmath>

namespace ostraka::optim {

namespace {

using buffer::NamedState;

// Neighbours with equal values are one run; padding belongs to the tensor before it.
std::vector<Run> make_runs(const buffer::DBuffer& buffer, const std::vector<Hyperparameters>& values) {
  std::vector<Run> tensors;
  for (int i = 0; i < buffer.layout()->num_tensors(); ++i) {
    const layout::Range tensor = buffer.layout()->tensor_range(i);
    const layout::Range own = layout::owned_elements(tensor, buffer.range());
    const std::int64_t shift = tensor.begin - buffer.range().begin;
    if (own.size() > 0)
      tensors.push_back({{own.begin + shift, own.end + shift}, values[i]});
  }
  std::sort(tensors.begin(), tensors.end(), [](const Run& a, const Run& b) { return a.local.begin < b.local.begin; });
  std::vector<Run> runs;
  for (const Run& tensor : tensors)
    if (runs.empty() || !(runs.back().values == tensor.values)) {
      const std::int64_t begin = runs.empty() ? 0 : tensor.local.begin;
      if (!runs.empty())
        runs.back().local.end = begin;
      runs.push_back({{begin, begin}, tensor.values});
    }
  if (!runs.empty())
    runs.back().local.end = buffer.numel();
  return runs;
}

void check_options(const GroupOptions& options) {
  const auto check = [](const char* what, const std::optional<double>& value) {
    expect(!value || (std::isfinite(*value) && *value >= 0), Status::INVALID_ARGUMENT, "set_group: expected ", what,
           " >= 0, found ", value.value_or(0));
  };
  check("learning_rate_factor", options.learning_rate_factor);
  check("weight_decay", options.weight_decay);
  expect(!options.max_dims || *options.max_dims >= 0, Status::INVALID_ARGUMENT,
         "set_group: expected max_dims >= 0, found ", options.max_dims.value_or(0));
}

std::string known_names(std::span<const NamedState> states) {
  constexpr int shown = 20;
  std::string text;
  int count = 0;
  for (const NamedState& state : states)
    for (const std::string& name : state.tensor_names)
      if (++count <= shown)
        text += (count > 1 ? ", '" : "'") + name + "'";
  return count <= shown ? text : text + " and " + std::to_string(count - shown) + " more";
}

} // namespace

Groups::Groups(std::span<const NamedState> states, double weight_decay) {
  for (const NamedState& state : states) {
    values_.emplace_back(state.main_weight.layout()->num_tensors(), Hyperparameters{1, weight_decay});
    runs_.push_back(make_runs(state.main_weight, values_.back()));
  }
}

void Groups::set(std::span<const NamedState> states, const std::string& pattern, const GroupOptions& options) {
  check_options(options);
  auto values = values_;
  bool is_known = false;
  for (std::size_t s = 0; s < states.size(); ++s)
    for (std::size_t t = 0; t < values[s].size(); ++t) {
      const bool matched = matches(pattern, states[s].tensor_names[t]);
      is_known = is_known || matched;
      const auto dims = static_cast<int>(states[s].main_weight.layout()->shape(static_cast<int>(t)).size());
      if (!matched || dims > options.max_dims.value_or(dims))
        continue;
      values[s][t].learning_rate_factor = options.learning_rate_factor.value_or(values[s][t].learning_rate_factor);
      values[s][t].weight_decay = options.weight_decay.value_or(values[s][t].weight_decay);
    }
  expect(is_known, Status::INVALID_ARGUMENT, "set_group: no trainable parameter is called '", pattern, "'; there are ",
         known_names(states));
  values_ = std::move(values);
  for (std::size_t s = 0; s < states.size(); ++s)
    runs_[s] = make_runs(states[s].main_weight, values_[s]);
}

std::int64_t Groups::hash(std::span<const NamedState> states, const buffer::MeshPtr& mesh) const {
  Hash hash;
  for (std::size_t s = 0; s < values_.size(); ++s)
    if (states[s].main_weight.mesh() == mesh)
      for (const Hyperparameters& values : values_[s])
        hash.add(values.learning_rate_factor).add(values.weight_decay);
  return hash.value();
}

const NamedState& widest_state(std::span<const NamedState> states) {
  const auto ranks = [](const NamedState& state) { return state.main_weight.mesh()->size(); };
  return *std::max_element(states.begin(), states.end(),
                           [&](const auto& a, const auto& b) { return ranks(a) < ranks(b); });
}

} // namespace ostraka::optim
