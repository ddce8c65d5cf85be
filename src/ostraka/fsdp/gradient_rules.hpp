// SPDX-License-Identifier: Apache-2.0
// What happens to the gradients of a group at the end of a micro-batch: what is reduced where, added, scaled, and which
// memory that takes. Pure: a group carries it out, a dry run counts it. Source: spec/megatron_fsdp.md 3.5.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/fsdp/group_plan.hpp>

#include <cstdint>

namespace ostraka::fsdp {

/// Buffers of gradients; several may be one.
enum class GradientPart : std::int32_t {
  partial,     ///< whole, not reduced: a slot, or the next one where that is Partial on all axes
  accumulated, ///< placements of the gradient, main type: micro-batches add up here
  main,        ///< its part with placements of the optimizer
  addend,      ///< a reduced contribution on its way into `accumulated`, in the type of gradients
};

/// What the rules ask for, in this order. All but slots and the begin is in the reduce queue.
class GradientWork {
public:
  virtual ~GradientWork() = default;
  virtual void bind_slot() = 0;
  /// Everything queued so far has read it.
  virtual void release_slot() = 0;
  /// What nobody wrote counts as zero (compute queue).
  virtual void clear_unwritten() = 0;
  /// The reduce queue sees what the caller wrote.
  virtual void reduce_after_compute() = 0;
  /// Takes memory for it, once.
  virtual void take_addend() = 0;
  /// `updates`: results go to whoever updates weights.
  virtual void redistribute(GradientPart from, GradientPart to, bool updates) = 0;
  virtual void divide(GradientPart part) = 0; ///< by the divisor of the group
  virtual void convert_addend() = 0;          ///< into `accumulated`
  virtual void clear_accumulated() = 0;
  virtual void add_addend() = 0; ///< divided, to `accumulated`
};

class OSTRAKA_API GradientRules {
public:
  explicit GradientRules(const GroupPlan& plan)
      : has_persistent_partial_(plan.has_persistent_partial), is_reduced_at_the_end_(plan.is_reduced_at_the_end),
        has_one_type_(plan.gradient_dtype == plan.types.main) {}

  /// Before the caller writes.
  void bind(GradientWork& work);
  /// Ends a micro-batch. `may_update`: somebody updates weights by results of the last reduction, and nobody reads the
  /// weights. Whether a reduction is due, in the four steps below; else contributions stay in `partial`.
  bool begin(GradientWork& work, bool is_last_microbatch, bool may_update, bool divides);
  void reduce_contribution(GradientWork& work);
  void add_contribution(GradientWork& work);
  void reduce_at_the_end(GradientWork& work);
  void end(GradientWork& work);
  /// Whether the present reduction updates weights.
  bool updates() const { return updates_; }

  /// The weights were updated with the last reduction.
  bool is_updated() const { return is_updated_; }
  /// `main` is, or will be after the reductions queued so far, complete.
  bool has_gradient() const { return has_gradient_; }
  bool is_reduced_at_the_end() const { return is_reduced_at_the_end_; }
  /// Reductions queued so far.
  std::int64_t version() const { return version_; }

  void zero() { has_gradient_ = has_contributions_ = false; }
  /// The update counts.
  void publish() {
    if (is_updated_)
      has_gradient_ = is_updated_ = false;
  }

private:
  /// Whether a contribution is reduced into `accumulated` itself.
  bool is_first_contribution() const { return !has_contributions_ && has_one_type_; }
  void add_up(GradientWork& work);

  bool has_persistent_partial_;
  bool is_reduced_at_the_end_;
  bool has_one_type_;    ///< of contributions and what they add up to
  bool is_last_ = false; ///< the present reduction is that of the last micro-batch,
  bool updates_ = false; ///< updates weights,
  bool divides_ = false; ///< and divides by the divisor of the group
  bool has_slot_ = false;
  bool has_contributions_ = false; ///< `accumulated` holds earlier micro-batches
  bool has_gradient_ = false;
  bool is_updated_ = false;
  std::int64_t version_ = 0;
};

} // namespace ostraka::fsdp
