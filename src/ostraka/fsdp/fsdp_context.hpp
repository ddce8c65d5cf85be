// SPDX-License-Identifier: Apache-2.0
// The step scheduler: streams, communicators, orders and the status of a step, shared by the modules of one or more
// networks. Source: seed 002, spec/megatron_fsdp.md 3.6 - 3.8, design section 3 "FSDP", "Errors".
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/buffer/named_state.hpp>
#include <ostraka/comm/step_status.hpp>
#include <ostraka/fsdp/fsdp_module.hpp>
#include <ostraka/fsdp/memory_report.hpp>
#include <ostraka/fsdp/resources.hpp>
#include <ostraka/fsdp/walk.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ostraka::fsdp {

class OSTRAKA_API FsdpContext {
public:
  /// A context with communicators, arena and streams of its own; on a mesh of GPUs beside the compute stream of the
  /// device (runtime/device.hpp). Collective over the mesh. INVALID_ARGUMENT for a
  /// configuration that makes no sense, RANKS_DISAGREE for different ones.
  static std::shared_ptr<FsdpContext> create(buffer::MeshPtr mesh, ContextConfig config = {});
  /// Collective, since communicators are freed.
  ~FsdpContext();
  FsdpContext(const FsdpContext&) = delete;
  FsdpContext& operator=(const FsdpContext&) = delete;

  /// Adds an outermost module; the order of these calls is the expected order of the first forward pass. Local. The
  /// reference is valid as long as the context. INVALID_ARGUMENT for a name that exists or is empty, INVALID_STATE
  /// after finalize.
  FsdpModule& add_module(std::string name) { return add_module(std::move(name), nullptr); }
  /// Ends set-up: all ranks must have built the same modules; replicated weights are compared, or copied from rank 0.
  /// Collective. RANKS_DISAGREE names the module or parameter that differs; INVALID_ARGUMENT for two tensors of one
  /// full name; OUT_OF_MEMORY on all ranks when one has no room for the gradient slots of a step.
  void finalize();

  /// The forward pass of this micro-batch is over: forward hooks are recomputations from here. The first pre_backward
  /// or skip_backward says so, too. Local.
  void begin_backward();
  /// Ends the backward pass of a micro-batch: waits for all reductions (on devices the compute stream does, and this
  /// rank goes on; what fails on the device afterwards is thrown by a later call) and agrees on the status: when any
  /// rank failed, all ranks throw that error and all gradients since the last zero_grad are dropped. A trainable module
  /// that had no backward pass although others had one is an error, unless set_allow_unused: then its gradient is zero.
  /// RANKS_DISAGREE when ranks ran modules in different orders: the context can then only be destroyed. Collective.
  void finish_backward();
  /// Stands for all hooks and finish_backward of a micro-batch that this rank does not have: takes part in what the
  /// others communicate, as the order of the last step, or of add_module, tells, with zero gradients. INVALID_STATE
  /// when hooks of this micro-batch have run. Collective with the hooks of the others.
  void skip_microbatch();
  /// This rank cannot go on with the present step: skip the remaining hooks and call finish_backward, which takes part
  /// (with zero gradients) in what the other ranks still do, as far as the order of the last step, or of add_module,
  /// tells; what was done without hooks (unshard, reduce_gradients) is not known. Local.
  void fail_step(const std::string& message);
  bool has_failed_step() const { return status_.has_failed(); }

  /// Whether the next backward pass is the last of its optimizer step (the default). Equal on all ranks. Local.
  void set_last_microbatch(bool is_last);
  bool is_last_microbatch() const { return is_last_microbatch_; }
  /// The next backward pass starts from zero; without it, also after an optimizer step, contributions add up. Local,
  /// but after an update that ran with reductions made by all ranks in the same order, as a step.
  void zero_grad();

  /// Between the two, weights are whole on every rank and forward hooks are local, any number per rank. Collective.
  void begin_inference();
  void end_inference();
  bool is_in_inference() const { return is_in_inference_; }

  /// The trainable parameters, a state per group; valid longer than the context, but then refuses updates.
  std::vector<buffer::NamedState> named_states() const;
  /// The same and the frozen parameters, which have no gradients: what a checkpoint holds.
  std::vector<buffer::NamedState> all_states() const;
  MemoryReport memory() const;
  /// The sums over the ranks on this rank's node (of transient_peak too, though peaks may be at different times),
  /// whatever the back end; num_elements stays that of the model. OSTRAKA_RANKS_PER_NODE counts here as everywhere.
  /// Collective.
  MemoryReport node_memory();

  bool is_finalized() const { return is_finalized_; } ///< set-up has ended
  const buffer::MeshPtr& mesh() const { return resources_->mesh; }
  const ContextConfig& config() const { return resources_->config; }

private:
  friend class FsdpModule;

  FsdpContext(buffer::MeshPtr mesh, ContextConfig config);
  void require_finalized(const std::string& operation) const;
  FsdpModule& add_module(std::string name, FsdpModule* parent);
  std::vector<buffer::NamedState> states(bool with_frozen) const;
  // The module that has a parameter of this name, full or not; null when there is none.
  const FsdpModule* owner_of(const std::string& parameter) const;
  void reserve();
  void check_modules_agree();
  void check_or_broadcast_replicas();
  void check_equal_parts(const ParameterGroup& group);
  bool are_equal_on_lines(int axis, std::int64_t value);
  void check_tensor_names() const;
  bool has_gone_backward() const;
  void check_uses();
  void wait_for_reductions();
  void drain_step();
  void drain_passes();
  void drain(const Pass& pass);
  bool may_run(Event event) const;
  void run(Event event);
  void close_modules(bool forward_only);
  void close(FsdpModule& module);
  void contribute_zeros();
  [[noreturn]] void throw_different_orders();
  void align_clocks();
  bool updates_while_reducing() const;
  [[noreturn]] void end_between_steps(const Error& error);
  void end_pass(bool failed);

  std::shared_ptr<Resources> resources_;
  std::vector<std::unique_ptr<FsdpModule>> modules_;
  ModuleTree tree_;
  Walk walk_;
  comm::StepStatus status_; ///< of this rank, agreed on by finish_backward
  bool is_finalized_ = false;
  bool is_last_microbatch_ = true;
  bool is_in_inference_ = false;
  bool is_draining_ = false;
};

} // namespace ostraka::fsdp
