// SPDX-License-Identifier: Apache-2.0
// Parameters of one module with one storage type, all trainable or all frozen: their weights, gradients and what moves
// them. All buffers share one planned layout. Source: spec/megatron_fsdp.md 3.2 - 3.5, design section 3.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/buffer/named_state.hpp>
#include <ostraka/fsdp/gradient_rules.hpp>
#include <ostraka/fsdp/group_plan.hpp>
#include <ostraka/fsdp/resources.hpp>
#include <ostraka/fsdp/weights.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::fsdp {

class OSTRAKA_API ParameterGroup : public std::enable_shared_from_this<ParameterGroup>, private GradientWork {
public:
  /// Lays out and allocates (zero). `specs` have equal type and trainability. Local. NOT_SUPPORTED for types that
  /// differ where gradients add up in the main gradient itself.
  ParameterGroup(std::shared_ptr<Resources> resources, std::string module_name, std::vector<ParameterSpec> specs,
                 const Precision& precision);

  const std::vector<ParameterSpec>& specs() const { return specs_; }
  std::string full_name(int index) const { return module_name_ + "." + specs_[index].name; }
  const layout::GlobalLayout& layout() const { return *plan_.layout; }
  bool is_trainable() const { return plan_.is_trainable; }
  /// The types in which whole weights are handed out and gradients are taken.
  DType compute_dtype() const { return plan_.types.compute; }
  DType gradient_dtype() const { return plan_.gradient_dtype; }
  DType main_dtype() const { return plan_.types.main; }
  const GroupPlan& plan() const { return plan_; }

  Weights& weights() { return *weights_; }
  const Weights& weights() const { return *weights_; }

  // --- gradients
  struct Gradient {
    void* data;
    bool accumulate; ///< the memory holds earlier contributions (beta = 1)
  };
  /// Throws INVALID_STATE when another contribution would be added to a gradient that is already reduced.
  void check_can_accumulate() const;
  /// Where the whole gradient of parameter `index` is written.
  Gradient gradient(int index);
  /// Names of parameters that nobody has written in this micro-batch.
  std::vector<std::string> missing_gradients() const;
  /// Ends the micro-batch: unwritten gradients count as zero. Whether a reduction is due, which is queued by
  /// reduce_contribution(), add_contribution(), reduce_at_the_end() and end_reduction(), in this order; the first and
  /// the third one communicate, for a consumer if that is the last one before a step.
  bool begin_reduction(bool is_last_microbatch);
  void reduce_contribution() { rules_.reduce_contribution(*this); }
  void add_contribution() { rules_.add_contribution(*this); }
  void reduce_at_the_end() { rules_.reduce_at_the_end(*this); }
  void end_reduction();
  /// Whether that reduction updates weights.
  bool updates() const { return rules_.updates(); }

  /// Whether main_gradient() is reduced, complete and no longer in flight.
  bool has_gradient() const { return rules_.has_gradient() && !is_reducing_; }
  /// The reductions queued so far are complete.
  void finish_reduction() { is_reducing_ = false; }
  void zero_grad();
  /// Whether weights have been updated in place of main_gradient() and are not published yet.
  bool is_updated() const { return rules_.is_updated(); }
  /// Whether a consumer asked for that.
  bool updates_while_reducing() const { return consumer_ != nullptr; }
  /// Model weights follow main weights, unless they have been written already; ends what is_updated() says.
  void publish(bool is_model_written);
  /// Each contribution is divided by it once it is reduced; > 0.
  void set_gradient_divisor(double divisor) { gradient_divisor_ = divisor; }
  const buffer::DBuffer& main_gradient() const { return main_gradient_; }

  buffer::NamedState named_state();
  /// Hooks for named_state(): throws while the weights are in use; runs what may wait for other ranks.
  std::function<void()> check_not_in_use;
  std::function<void(const std::function<void()>&)> communicate;

private:
  buffer::DBuffer& buffer(GradientPart part);
  void bind_slot() override;
  void release_slot() override;
  void clear_unwritten() override;
  void reduce_after_compute() override;
  void take_addend() override;
  void redistribute(GradientPart from, GradientPart to, bool updates) override;
  void divide(GradientPart part) override;
  void convert_addend() override;
  void clear_accumulated() override;
  void add_addend() override;
  comm::Consumer update_of_weights();

  std::shared_ptr<Resources> resources_;
  std::string module_name_;
  std::vector<ParameterSpec> specs_;
  GroupPlan plan_;
  GradientRules rules_;

  std::unique_ptr<Weights> weights_;

  buffer::DBuffer accumulated_;   ///< placements of the gradient, main type: micro-batches add up here
  buffer::DBuffer main_gradient_; ///< its part with placements of the optimizer
  buffer::DBuffer partial_;       ///< whole, not reduced: a slot, or accumulated_ where that is Partial on all axes
  buffer::DBuffer addend_;        ///< a reduced contribution on its way into accumulated_; allocated when needed
  std::optional<int> slot_;
  std::vector<char> written_;           ///< per parameter: partial_ holds contributions
  std::vector<char> written_this_pass_; ///< per parameter: in the present micro-batch
  double gradient_divisor_ = 1;
  comm::Consumer consumer_;  ///< updates weights; null: results of reductions are kept
  bool is_reducing_ = false; ///< reductions may be in flight
};

} // namespace ostraka::fsdp
