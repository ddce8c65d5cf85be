// SPDX-License-Identifier: Apache-2.0
// What happens to the weights of a group when a module asks for them, lets them go or updates them: which memory is
// taken and given back, what is gathered and cast, in which queue. Pure: a group carries it out, a dry run counts it.
// Source: spec/megatron_fsdp.md 3.4, design section 3 "Node-shared memory".
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/fsdp/group_plan.hpp>

#include <cstdint>

namespace ostraka::fsdp {

/// Buffers of weights; several may be one.
enum class WeightPart : std::int32_t {
  main,     ///< placements of the optimizer, main type
  model,    ///< the same elements in the storage type, inside the next one
  resting,  ///< placements of the parameter, storage type: what a rank keeps
  gathered, ///< whole, storage type
  whole,    ///< whole, compute type: what is handed out
};

enum class Queue : std::int32_t { compute, gather, reduce };

/// What the rules ask for, in this order. Memory is taken and given back at once; all else is queued.
class WeightWork {
public:
  virtual ~WeightWork() = default;
  virtual void take(WeightPart part) = 0; ///< nothing where it is there
  virtual void give_back(WeightPart part) = 0;
  /// In the gather queue.
  virtual void redistribute(WeightPart from, WeightPart to) = 0;
  virtual void cast(WeightPart from, WeightPart to, Queue queue) = 0;
  /// The gather queue sees what is queued for compute now.
  virtual void gather_after_compute() = 0;
  /// What is in the gather queue now is what wait_arrived() lets compute wait for.
  virtual void note_arrival() = 0;
  virtual void wait_arrived() = 0;

  // Where ranks share the weights, else nothing happens: reads and writes wait for each other.
  virtual void begin_read() {}
  virtual void end_read() {}
  virtual void begin_write() {}
  virtual void begin_write_after_reads() {}
  virtual void end_write() {}
  virtual void wait_written() {}

  // The whole weights can be read from here, and no longer.
  virtual void whole_begins() {}
  virtual void whole_ends() {}
};

/// Calls come in program order.
class OSTRAKA_API WeightRules {
public:
  virtual ~WeightRules() = default;

  virtual void begin_update(WeightWork& work) = 0;
  virtual void begin_update_after_reads(WeightWork& work) = 0;
  virtual void refresh(WeightWork& work, bool is_model_written) = 0;
  virtual void reserve(WeightWork& work) = 0;
  virtual void give_back(WeightWork& work) = 0;
  /// In two steps, so that what several groups gather may go out together.
  virtual void unshard(WeightWork& work) = 0;
  virtual void complete_unshard(WeightWork&) {}
  virtual void wait_unsharded(WeightWork& work) = 0;
  virtual void reshard(WeightWork& work) = 0;
  bool is_unsharded() const { return is_unsharded_; }

protected:
  explicit WeightRules(const WeightTypes& types) : types_(types) {}

  WeightTypes types_;
  bool is_unsharded_ = false;
  std::int64_t version_ = 0; ///< of the model weights
};

/// Every rank has its part and gathers the whole for each use.
class OSTRAKA_API GatheredRules final : public WeightRules {
public:
  /// `rests_whole`: every rank keeps all of them, so that nothing is gathered but what others updated.
  GatheredRules(const WeightTypes& types, bool rests_whole) : WeightRules(types), rests_whole_(rests_whole) {}

  void begin_update(WeightWork& work) override;
  void begin_update_after_reads(WeightWork&) override {}
  void refresh(WeightWork& work, bool is_model_written) override;
  void reserve(WeightWork& work) override;
  void give_back(WeightWork& work) override;
  void unshard(WeightWork& work) override;
  void complete_unshard(WeightWork& work) override;
  void wait_unsharded(WeightWork& work) override;
  void reshard(WeightWork& work) override;

private:
  void give_back_gathered(WeightWork& work);

  bool rests_whole_;
  bool is_arriving_ = false;          ///< asked for, and complete_unshard() is to come
  std::int64_t resting_version_ = -1; ///< of the model weights, when what rests was gathered last
  std::int64_t whole_version_ = -1;   ///< likewise, of the whole
};

/// The ranks of every node keep one whole copy, of which each updates its part; parts of other nodes are gathered after
/// an update.
class OSTRAKA_API SharedRules final : public WeightRules {
public:
  SharedRules(const WeightTypes& types, bool spans_nodes) : WeightRules(types), spans_nodes_(spans_nodes) {}

  void begin_update(WeightWork& work) override;
  void begin_update_after_reads(WeightWork& work) override { work.begin_write_after_reads(); }
  void refresh(WeightWork& work, bool is_model_written) override;
  void reserve(WeightWork& work) override;
  void give_back(WeightWork& work) override;
  void unshard(WeightWork& work) override;
  void wait_unsharded(WeightWork& work) override;
  void reshard(WeightWork& work) override;

private:
  void start_gather(WeightWork& work);
  void complete_gather(WeightWork& work);

  bool spans_nodes_;
  bool is_whole_ = false; ///< asked for and waited for
  bool is_gathering_ = false;
  std::int64_t whole_version_ = -1;
  std::int64_t gathered_version_ = -1;
};

} // namespace ostraka::fsdp
