// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/gradient_rules.hpp>

namespace ostraka::fsdp {

using enum GradientPart;

void GradientRules::bind(GradientWork& work) {
  if (has_persistent_partial_ || has_slot_)
    return;
  work.bind_slot();
  has_slot_ = true;
}

bool GradientRules::begin(GradientWork& work, bool is_last_microbatch, bool may_update, bool divides) {
  bind(work);
  work.clear_unwritten();
  if (has_persistent_partial_ && !is_last_microbatch)
    return false;
  work.reduce_after_compute();
  is_last_ = is_last_microbatch;
  divides_ = divides;
  // Not where results of reductions are not yet what an update takes.
  updates_ = is_last_ && may_update && !divides && (is_reduced_at_the_end_ || is_first_contribution());
  return true;
}

// The slot of this micro-batch goes to the placements of the gradient.
void GradientRules::reduce_contribution(GradientWork& work) {
  if (has_persistent_partial_)
    return;
  if (is_first_contribution())
    return work.redistribute(partial, accumulated, updates_ && !is_reduced_at_the_end_);
  work.take_addend();
  work.redistribute(partial, addend, false);
}

void GradientRules::add_contribution(GradientWork& work) {
  if (has_persistent_partial_)
    return;
  if (!is_first_contribution())
    add_up(work);
  else if (divides_)
    work.divide(accumulated);
  has_contributions_ = true;
  work.release_slot();
  has_slot_ = false;
}

void GradientRules::add_up(GradientWork& work) {
  if (!has_contributions_ && !divides_)
    return work.convert_addend();
  if (!has_contributions_)
    work.clear_accumulated();
  work.add_addend(); // rounds once
}

void GradientRules::reduce_at_the_end(GradientWork& work) {
  if (is_last_ && is_reduced_at_the_end_)
    work.redistribute(accumulated, main, updates_);
}

void GradientRules::end(GradientWork& work) {
  if (has_persistent_partial_ && divides_)
    work.divide(main);
  has_gradient_ = is_last_ || !is_reduced_at_the_end_;
  ++version_;
  if (!updates_)
    return;
  is_updated_ = true;
  has_contributions_ = false;
}

} // namespace ostraka::fsdp
