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

void GradientRules::reduce(GradientWork& work, bool is_last_microbatch, bool may_update, bool divides) {
  bind(work);
  work.clear_unwritten();
  if (adds_up_in_partial(is_last_microbatch))
    return;
  work.reduce_after_compute();
  const bool updates = this->updates(is_last_microbatch, may_update, divides);
  if (!has_persistent_partial_)
    add_contribution(work, updates && !is_reduced_at_the_end_, divides);
  if (is_last_microbatch && is_reduced_at_the_end_)
    work.redistribute(accumulated, main, updates);
  if (has_persistent_partial_ && divides)
    work.divide(main);
  has_gradient_ = is_last_microbatch || !is_reduced_at_the_end_;
  ++version_;
  if (updates) {
    is_updated_ = true;
    has_contributions_ = false;
  }
}

// Not where results of reductions are not yet what an update takes.
bool GradientRules::updates(bool is_last_microbatch, bool may_update, bool divides) const {
  const bool is_first_and_last = !has_contributions_ && has_one_type_;
  return is_last_microbatch && may_update && !divides && (is_reduced_at_the_end_ || is_first_and_last);
}

// The slot of this micro-batch, reduced to the placements of the gradient, into what adds up.
void GradientRules::add_contribution(GradientWork& work, bool updates, bool divides) {
  if (!has_contributions_ && has_one_type_) {
    work.redistribute(partial, accumulated, updates);
    if (divides)
      work.divide(accumulated);
  } else {
    work.take_addend();
    work.redistribute(partial, addend, false);
    add_up(work, divides);
  }
  has_contributions_ = true;
  work.release_slot();
  has_slot_ = false;
}

void GradientRules::add_up(GradientWork& work, bool divides) {
  if (!has_contributions_ && !divides)
    return work.convert_addend();
  if (!has_contributions_)
    work.clear_accumulated();
  work.add_addend(); // rounds once
}

} // namespace ostraka::fsdp
