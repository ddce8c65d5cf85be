// SPDX-License-Identifier: Apache-2.0
// A module of a network: the unit whose weights are gathered and released together. The caller says when it runs.
// Source: seed 002, spec/megatron_fsdp.md 3.1, 3.7, 3.8.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/fsdp/parameter_group.hpp>
#include <ostraka/fsdp/walk.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::fsdp {

class FsdpContext;

/// Owned by its context (FsdpContext::add_module). "Collective" means: called by all ranks of the mesh in the same
/// order of modules. Hooks queue communication and wait only for what they say. Precondition errors change nothing.
/// Hooks of a module without parameters communicate nothing and may be left out.
class OSTRAKA_API FsdpModule {
public:
  using Phase = fsdp::Phase;
  /// Which order tells what unshard() gathers ahead.
  enum class Ahead : std::int32_t { none = 0, forward = 1, backward = 2 };

  FsdpModule(FsdpContext& context, std::string name, std::string full_name, FsdpModule* parent, int id);
  FsdpModule(const FsdpModule&) = delete;
  FsdpModule& operator=(const FsdpModule&) = delete;

  const std::string& name() const { return name_; }
  /// From the root: "root.child.grandchild", as in messages and names of tensors.
  const std::string& full_name() const { return full_name_; }
  FsdpModule* parent() const { return parent_; } ///< null for a root
  const std::vector<FsdpModule*>& children() const { return children_; }
  int id() const { return id_; }
  Phase phase() const { return uses_.phase; }

  // --- set-up

  /// Adds a module inside this one; names are distinct among siblings. The expected order of the first step is that of
  /// these calls, a module around its children. Local. As FsdpContext::add_module.
  FsdpModule& add_module(std::string name);

  /// Declares a parameter. Local. INVALID_STATE after build, INVALID_ARGUMENT for a name that exists or is empty,
  /// TYPE_MISMATCH for a type other than f64, f32 and bf16.
  void add_parameter(ParameterSpec spec);
  /// Another name of a parameter of this module: one weight, to whose one gradient all uses contribute. Local.
  /// INVALID_STATE after build, INVALID_ARGUMENT for a name that exists or is empty, for an unknown parameter and for
  /// one that another module owns.
  void tie_parameter(const std::string& name, const std::string& existing);
  /// Types of this module's parameters; what is not set is as the context says. Local, the same on all ranks.
  /// INVALID_STATE after build, TYPE_MISMATCH for a type that is not possible.
  void set_precision(const Precision& precision);
  /// Lays out and allocates (zero), grouped by type and trainability in the order of declaration; not needed without
  /// parameters. Collective. RANKS_DISAGREE names the first parameter that differs between ranks, OUT_OF_MEMORY on all
  /// ranks when one has too little; then the module has no parameters: declare smaller ones, or the same when there is
  /// room, and build again.
  void build();
  bool is_built() const { return is_built_; }

  /// Whether gradients that nobody wrote count as zero, and the module may be left out of micro-batches by all ranks
  /// alike. Default false: an error in finish_backward. Local, until finalize, equal on all ranks.
  void set_allow_unused(bool allow);
  /// How much is gathered ahead when this module starts: none: the next module; 0: nothing; else whole modules until
  /// `elements` elements of weights are reached, at least one. Default: as ContextConfig::prefetch. INVALID_ARGUMENT
  /// when negative. Local, until finalize, equal on all ranks.
  void set_prefetch(std::optional<std::int64_t> elements);

  /// Every contribution of this module to its main gradient is divided by `divisor` behind the reduction over ranks.
  /// Default 1. INVALID_ARGUMENT unless > 0. Local, until finalize, equal on all ranks.
  void set_gradient_divisor(double divisor);

  /// Copies this rank's part of a whole tensor (host memory, C order, `count` elements of `dtype` f64, f32 or bf16).
  /// Every rank passes the same values. Local before finalize; later all ranks call it in the same order, and it may
  /// wait until the others have let the weights go. INVALID_STATE while weights are in use or the module is not built.
  void set_parameter(const std::string& name, const void* data, std::int64_t count, DType dtype);

  /// The same from the values of rank `root` of the mesh; other ranks pass the same `count` and `dtype` and no data.
  /// Takes memory for the whole tensor meanwhile. Collective. RANKS_DISAGREE when the arguments differ.
  void set_from_root(const std::string& name, const void* data, std::int64_t count, DType dtype, int root);
  /// Fills a parameter where it is kept: `fill` writes elements [first, first + count) in the main type and is called
  /// once for what this rank keeps, if anything. With ContextConfig::broadcast rank 0 may be asked for the whole tensor
  /// as well. Otherwise as set_parameter; what `fill` throws is passed on, and the values are then unknown.
  void initialise(const std::string& name, const Fill& fill);

  // --- hooks

  /// Makes the whole weights readable and starts gathering what runs next. Once a backward pass has begun, for a module
  /// that is still to go backward: recomputation, which gathers nothing ahead, counts as no use, and after which
  /// weights stay until post_backward. Collective.
  void pre_forward();
  /// Lets the whole weights go. Collective.
  void post_forward();
  /// As pre_forward, in backward order. There must have been a forward pass that did not go backward yet. Collective.
  void pre_backward();
  /// Lets the weights go; after the last use of this micro-batch starts the reduction of the gradients. A gradient that
  /// nobody asked for counts as zero and is reported by finish_backward, unless set_allow_unused. Collective.
  void post_backward();
  /// Stand for both hooks of a use that this rank does not compute: it takes part in what the others communicate, with
  /// zero gradients. Collective with the hooks of the others.
  void skip_forward();
  void skip_backward();

  // --- schedules of the caller's own, without hooks

  /// Makes the whole weights readable until reshard(), whatever hooks run between, and starts gathering what `ahead`
  /// has behind this module. Collective.
  void unshard(Ahead ahead = Ahead::none);
  /// INVALID_STATE while gradients are written that reduce_gradients() was not called for. Collective.
  void reshard();
  /// Starts the reduction of gradients that were written between unshard() and reshard(); what nobody wrote counts as
  /// post_backward says. Nothing is done without trainable parameters. Collective.
  void reduce_gradients();

  // --- access

  /// The whole weight, read-only: C order, valid until the matching post_* or reshard. On devices it is the device's
  /// address, for work that the caller puts on the compute stream before that call. INVALID_STATE when the weights
  /// are not there, TYPE_MISMATCH unless `dtype` is the compute type. Local.
  const void* parameter(const std::string& name, DType dtype) const;

  struct Gradient {
    void* data;  ///< whole tensor, C order
    double beta; ///< 0: contents undefined; 1: earlier contributions. Write beta * g + contribution.
  };
  /// Where the caller writes a gradient, on devices by work on the compute stream; legal between pre_backward and
  /// post_backward, and between unshard and reshard outside inference. Local, but may wait for an earlier reduction to
  /// free its slot.
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
  friend class Walk;

  struct Place {
    ParameterGroup* group;
    int index;
  };
  void check_parameter_name(const std::string& name) const;
  std::int64_t hash_of(std::size_t parameter) const;
  void check_ranks_agree() const;
  Precision precision() const;
  std::shared_ptr<ParameterGroup> make_group(std::vector<ParameterSpec> specs);
  void check_values(const Place& place, std::int64_t count, DType dtype, const char* operation) const;
  Place find(const std::string& name) const;
  bool has_parameter(const std::string& name) const;
  void check_not_finalized(const char* operation) const;
  void require_phase(Phase expected, const char* operation) const;
  void check_not_in_use(const char* operation) const;
  void check_published(const char* operation) const;
  void check_can_accumulate() const;
  bool is_readable() const;

  bool is_trainable() const;
  bool is_updated() const;
  ModuleNeeds needs() const;
  bool has_contributed() const { return uses_.backward > 0 || reductions_ > 0; }

  Uses& uses() { return uses_; }
  void check_recomputes() const;
  void unshard_groups();
  void wait_unsharded();
  void reshard_groups();
  void complete_gradients(const char* operation);
  void reduce();
  void finish_microbatch();

  FsdpContext& context_;
  std::string name_;
  std::string full_name_;
  FsdpModule* parent_;
  int id_;
  std::vector<FsdpModule*> children_;
  Precision precision_;
  std::vector<ParameterSpec> declared_;
  std::map<std::string, std::string> ties_; ///< other names of parameters, and the first one
  std::vector<std::shared_ptr<ParameterGroup>> groups_;
  std::vector<ParameterGroup*> reduced_; ///< those whose reduction is being queued; keeps its memory
  bool needs_build_ = false;
  bool is_built_ = false;
  bool allows_unused_ = false;
  double gradient_divisor_ = 1;
  std::optional<std::int64_t> prefetch_; ///< elements to gather ahead; none: one module

  Uses uses_;
  // Of the present micro-batch.
  bool writes_unhooked_ = false; ///< gradients were written outside hooks and are not reduced yet
  int skipped_uses_ = 0;         ///< backward ones
  int reductions_ = 0;           ///< that the caller started
};

} // namespace ostraka::fsdp
