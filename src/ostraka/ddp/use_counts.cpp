// SPDX-License-Identifier: Apache-2.0
#include <ostraka/ddp/config.hpp>
#include <ostraka/ddp/use_counts.hpp>

namespace ostraka::ddp {

UseCounts::UseCounts(std::vector<int> groups, int num_groups, int uses) : incomplete_(num_groups, 0) {
  for (const int group : groups) {
    parameters_.push_back({group, uses});
    incomplete_[group] += uses != 0 ? 1 : 0;
  }
}

void UseCounts::set_uses(int parameter, int uses) { set_expected(parameters_[parameter], uses); }

void UseCounts::set_expected(Parameter& parameter, int expected) {
  int& incomplete = incomplete_[parameter.group];
  incomplete -= parameter.count != parameter.expected ? 1 : 0;
  parameter.expected = expected;
  incomplete += parameter.count != parameter.expected ? 1 : 0;
}

bool UseCounts::is_complete(int parameter) const {
  return parameters_[parameter].count == parameters_[parameter].expected;
}

void UseCounts::add(int parameter) {
  Parameter& used = parameters_[parameter];
  if (++used.count == used.expected)
    --incomplete_[used.group];
}

bool UseCounts::is_missing(int parameter) const {
  const Parameter& used = parameters_[parameter];
  return used.expected == uses_auto ? used.count == 0 : used.count < used.expected;
}

void UseCounts::reset(bool complete) {
  for (Parameter& parameter : parameters_) {
    const int count = parameter.count;
    const bool has_learned = complete && parameter.expected == uses_auto && count > 0;
    incomplete_[parameter.group] += parameter.count == parameter.expected && count > 0 ? 1 : 0;
    parameter.count = 0;
    if (has_learned)
      set_expected(parameter, count);
  }
}

} // namespace ostraka::ddp
