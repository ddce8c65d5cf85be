// SPDX-License-Identifier: Apache-2.0
// A module of a network: the unit whose weights are gathered and released together. The caller says when it runs.
// Source: seed 002, spec/megatron_fsdp.md 3.7, 3.8.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/fsdp/parameter_group.hpp>

#include <memory>
#include <string>
#include <vector>

namespace ostraka::fsdp {

class FsdpContext;

/// Owned by its context (FsdpContext::add_module). "Collective" means: called by all ranks of the mesh in the same
/// order of modules. Hooks queue communication and wait only for what they say. Precondition errors change nothing.
class OSTRAKA_API FsdpModule {
public:
  enum class Phase { resting, forward, backward };

  FsdpModule(FsdpContext& context, std::string name, int id);
  FsdpModule(const FsdpModule&) = delete;
  FsdpModule& operator=(const FsdpModule&) = delete;

  const std::string& name() const { return name_; }
  int id() const { return id_; }
  Phase phase() const { return phase_; }

  // --- set-up

  /// Declares a parameter. Local. INVALID_STATE after build, INVALID_ARGUMENT for a name that exists or is empty,
  /// TYPE_MISMATCH for a type other than f64, f32 and bf16.
  void add_parameter(ParameterSpec spec);
  /// Types of this module's parameters; what is not set is as the context says. Local, the same on all ranks.
  /// INVALID_STATE after build, TYPE_MISMATCH for a type that is not possible.
  void set_precision(const Precision& precision);
  /// Lays out and allocates (zero), grouped by type and trainability in the order of declaration. Collective.
  /// RANKS_DISAGREE when parameters differ between ranks, OUT_OF_MEMORY on all ranks when one has too little; then the
  /// module has no parameters: declare smaller ones, or the same when there is room, and build again.
  void build();
  bool is_built() const { return is_built_; }
  /// Copies this rank's part of a whole tensor (host memory, C order, `count` elements of `dtype` f64, f32 or bf16).
  /// Every rank passes the same values. Local before finalize; later all ranks call it in the same order, and it may
  /// wait until the others have let the weights go. INVALID_STATE while weights are in use or the module is not built.
  void set_parameter(const std::string& name, const void* data, std::int64_t count, DType dtype);

  // --- hooks

  /// Makes the whole weights readable and starts gathering the next module's. Collective.
  void pre_forward();
  /// Lets the whole weights go. Collective.
  void post_forward();
  /// As pre_forward, in backward order. There must have been a forward pass that did not go backward yet. Collective.
  void pre_backward();
  /// Lets the weights go; after the last use of this micro-batch starts the reduction of the gradients. A gradient that
  /// nobody asked for counts as zero and is reported by finish_backward. Collective.
  void post_backward();

  /// Makes the whole weights readable until reshard(), whatever hooks run between. Collective.
  void unshard();
  void reshard();

  // --- access

  /// The whole weight, read-only: C order, valid until the matching post_* or reshard. INVALID_STATE when the weights
  /// are not there, TYPE_MISMATCH unless `dtype` is the compute type. Local.
  const void* parameter(const std::string& name, DType dtype) const;

  struct Gradient {
    void* data;  ///< whole tensor, C order
    double beta; ///< 0: contents undefined; 1: earlier contributions. Write beta * g + contribution.
  };
  /// Where the caller writes a gradient; legal between pre_backward and post_backward. Local, but may wait for an
  /// earlier reduction to free its slot.
  Gradient gradient(const std::string& name, DType dtype);

  /// This rank's elements of the reduced gradient: all with no_shard, unless ranks share memory, else its part.
  /// INVALID_STATE when there is none, TYPE_MISMATCH unless `dtype` is
  /// the main type. Local.
  buffer::TensorRange main_gradient(const std::string& name, DType dtype) const;

  const ParameterSpec& spec(const std::string& name) const;
  /// In order of declaration of their groups.
  const std::vector<std::shared_ptr<ParameterGroup>>& groups() const { return groups_; }

private:
  friend class FsdpContext;

  struct Place {
    ParameterGroup* group;
    int index;
  };
  Precision precision() const;
  std::shared_ptr<ParameterGroup> make_group(std::vector<ParameterSpec> specs);
  Place find(const std::string& name) const;
  void require_phase(Phase expected, const char* operation) const;
  void check_not_in_use(const char* operation) const;
  bool is_readable() const;
  void open(Phase phase);
  void close();

  void unshard_groups();
  void wait_unsharded();
  void reshard_groups();
  void complete_gradients();
  void finish_microbatch();

  FsdpContext& context_;
  std::string name_;
  int id_;
  Precision precision_;
  std::vector<ParameterSpec> declared_;
  std::vector<std::shared_ptr<ParameterGroup>> groups_;
  bool is_built_ = false;
  Phase phase_ = Phase::resting;
  bool is_pinned_ = false; ///< between unshard() and reshard()
  int forward_uses_ = 0;   ///< of the present micro-batch
  int backward_uses_ = 0;
};

OSTRAKA_API const char* name(FsdpModule::Phase phase);

} // namespace ostraka::fsdp
