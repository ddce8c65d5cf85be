// SPDX-License-Identifier: Apache-2.0
// Parameters of one module with one storage type, all trainable or all frozen: their weights, gradients and what moves
// them. All buffers share one planned layout. Source: spec/megatron_fsdp.md 3.2 - 3.5, design section 3.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/buffer/named_state.hpp>
#include <ostraka/fsdp/resources.hpp>
#include <ostraka/fsdp/weights.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::fsdp {

struct ParameterSpec {
  std::string name;
  layout::Shape shape;
  DType dtype = DType::f64; ///< storage type of the model weights: f64, f32 or bf16
  bool trainable = true;
};

class OSTRAKA_API ParameterGroup : public std::enable_shared_from_this<ParameterGroup> {
public:
  /// Lays out and allocates (zero). `specs` have equal type and trainability. Local. NOT_SUPPORTED for types that
  /// differ where gradients add up in the main gradient itself.
  ParameterGroup(std::shared_ptr<Resources> resources, std::string module_name, std::vector<ParameterSpec> specs,
                 const Precision& precision);

  const std::vector<ParameterSpec>& specs() const { return specs_; }
  std::string full_name(int index) const { return module_name_ + "." + specs_[index].name; }
  const layout::GlobalLayout& layout() const { return *layout_; }
  bool is_trainable() const { return specs_.front().trainable; }
  /// The types in which whole weights are handed out and gradients are taken.
  DType compute_dtype() const { return compute_dtype_; }
  DType gradient_dtype() const { return gradient_dtype_; }
  DType main_dtype() const { return weights_->main().dtype(); }
  /// Bytes that a gradient slot needs for this group.
  std::int64_t slot_bytes() const;

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
  void reduce_contribution();
  void add_contribution();
  void reduce_at_the_end();
  void end_reduction();
  /// Whether that reduction updates weights.
  bool updates() const { return updates_; }

  /// Whether main_gradient() is reduced, complete and no longer in flight.
  bool has_gradient() const { return has_gradient_ && !is_reducing_; }
  /// The reductions queued so far are complete.
  void finish_reduction() { is_reducing_ = false; }
  void zero_grad();
  /// Whether weights have been updated in place of main_gradient() and are not published yet.
  bool is_updated() const { return is_updated_; }
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
  /// Whether gradients stay Partial on all axes until the last micro-batch: then nothing is reduced before.
  bool has_persistent_partial() const;
  /// Whether the last micro-batch ends with a further reduction, in place.
  bool is_reduced_at_the_end() const;
  bool may_update_while_reducing() const;
  comm::Consumer update_of_weights();
  void bind_slot();
  void reduce_to(const buffer::DBuffer& from, const buffer::DBuffer& to, bool updates);
  /// Whether the reduction writes the accumulated gradient itself.
  bool is_first_contribution() const { return !has_contributions_ && gradient_dtype_ == main_dtype(); }

  std::shared_ptr<Resources> resources_;
  std::string module_name_;
  std::vector<ParameterSpec> specs_;
  buffer::LayoutPtr layout_;
  DType compute_dtype_;
  DType gradient_dtype_;

  std::unique_ptr<Weights> weights_;

  buffer::DBuffer accumulated_;   ///< placements of the gradient, main type: micro-batches add up here
  buffer::DBuffer main_gradient_; ///< its part with placements of the optimizer
  buffer::DBuffer partial_;       ///< whole, not reduced: a slot, or accumulated_ where that is Partial on all axes
  buffer::DBuffer addend_;        ///< a reduced contribution on its way into accumulated_; allocated when needed
  std::optional<int> slot_;
  std::vector<char> written_;           ///< per parameter: partial_ holds contributions
  std::vector<char> written_this_pass_; ///< per parameter: in the present micro-batch
  bool has_contributions_ = false;      ///< accumulated_ holds earlier micro-batches
  bool has_gradient_ = false;           ///< main_gradient_ will be complete after the reductions queued so far
  double gradient_divisor_ = 1;
  comm::Consumer consumer_; ///< updates weights; null: results of reductions are kept
  bool is_last_ = false;    ///< the present reduction is that of the last micro-batch
  bool updates_ = false;    ///< and updates weights
  bool is_updated_ = false;
  bool is_reducing_ = false;          ///< some of them may be in flight
  std::int64_t gradient_version_ = 0; ///< reductions queued so far
};

} // namespace ostraka::fsdp
