// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/weight_rules.hpp>

namespace ostraka::fsdp {

using enum WeightPart;

// --- gathered for each use

void GatheredRules::begin_update(WeightWork& work) {
  wait_unsharded(work); // a gather ahead may be sending these weights
  work.whole_ends();
}

void GatheredRules::refresh(WeightWork& work, bool is_model_written) {
  if (!is_model_written && types_.casts_main())
    work.cast(main, model, Queue::compute);
  ++version_;
}

void GatheredRules::reserve(WeightWork& work) {
  if (!rests_whole_)
    work.take(gathered);
  if (types_.casts_whole())
    work.take(whole);
}

void GatheredRules::give_back(WeightWork& work) {
  give_back_gathered(work);
  if (types_.casts_whole())
    work.give_back(whole);
}

void GatheredRules::give_back_gathered(WeightWork& work) {
  if (!rests_whole_)
    work.give_back(gathered);
}

void GatheredRules::unshard(WeightWork& work) {
  if (is_unsharded_ && whole_version_ == version_)
    return;
  reshard(work); // a stale copy
  try {
    reserve(work);
  } catch (...) { // as if nobody had asked
    give_back(work);
    throw;
  }
  work.gather_after_compute(); // sees what the optimizer wrote, and comes behind users of this memory
  if (resting_version_ != version_)
    work.redistribute(model, resting);
  if (!rests_whole_)
    work.redistribute(resting, gathered);
  is_unsharded_ = is_arriving_ = true;
  whole_version_ = resting_version_ = version_;
}

void GatheredRules::complete_unshard(WeightWork& work) {
  if (!is_arriving_)
    return;
  is_arriving_ = false;
  if (types_.casts_whole())
    work.cast(gathered, whole, Queue::gather);
  work.note_arrival();
}

void GatheredRules::wait_unsharded(WeightWork& work) {
  if (!is_unsharded_)
    return;
  work.wait_arrived();
  if (types_.casts_whole())
    give_back_gathered(work);
  work.whole_begins();
}

void GatheredRules::reshard(WeightWork& work) {
  if (!is_unsharded_)
    return;
  wait_unsharded(work); // memory that a gather writes must not go back to the arena
  work.whole_ends();
  give_back(work);
  is_unsharded_ = false;
}

// --- one copy per node

// Lines of peers may gather, over several axes, what this rank is about to write.
void SharedRules::begin_update(WeightWork& work) {
  complete_gather(work);
  if (spans_nodes_)
    work.wait_written();
  work.begin_write();
}

void SharedRules::refresh(WeightWork& work, bool is_model_written) {
  begin_update(work);
  if (!is_model_written && types_.casts_main())
    work.cast(main, model, Queue::compute);
  ++version_;
  if (!spans_nodes_)
    work.end_write(); // else when the parts of other nodes have arrived
}

void SharedRules::reserve(WeightWork& work) {
  if (types_.casts_whole())
    work.take(whole);
}

void SharedRules::give_back(WeightWork& work) {
  if (types_.casts_whole())
    work.give_back(whole);
}

void SharedRules::unshard(WeightWork& work) {
  if (is_unsharded_ && whole_version_ == version_)
    return;
  reshard(work); // a stale copy
  if (spans_nodes_ && gathered_version_ != version_)
    start_gather(work);
  is_unsharded_ = true;
  whole_version_ = version_;
}

void SharedRules::wait_unsharded(WeightWork& work) {
  complete_gather(work);
  if (!is_unsharded_ || is_whole_)
    return;
  work.begin_read();
  if (types_.casts_whole()) {
    work.take(whole);
    work.cast(gathered, whole, Queue::compute);
    work.end_read(); // peers may write again
  }
  work.whole_begins();
  is_whole_ = true;
}

void SharedRules::reshard(WeightWork& work) {
  complete_gather(work);
  if (is_whole_) {
    if (types_.casts_whole())
      work.give_back(whole);
    else
      work.end_read();
  }
  is_unsharded_ = is_whole_ = false;
  work.whole_ends();
}

void SharedRules::start_gather(WeightWork& work) {
  work.begin_write();
  work.gather_after_compute(); // sees what the optimizer wrote
  work.redistribute(model, resting);
  work.note_arrival();
  is_gathering_ = true;
  gathered_version_ = version_;
}

void SharedRules::complete_gather(WeightWork& work) {
  if (!is_gathering_)
    return;
  work.wait_arrived();
  is_gathering_ = false;
  work.end_write();
}

} // namespace ostraka::fsdp
