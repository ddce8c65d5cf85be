// SPDX-License-Identifier: Apache-2.0
// Whole weights on every rank, gradients in contiguous buffers that are reduced bucket by bucket while the backward
// pass goes on; optionally with an optimizer that is sharded over the ranks and weights that are gathered ahead of use.
// Source: seed 004, spec/megatron_fsdp.md section 5, design section 3 "DDP", "Gradients", "Errors".
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/buffer/named_state.hpp>
#include <ostraka/ddp/bucket_group.hpp>
#include <ostraka/ddp/bucket_layout.hpp>
#include <ostraka/ddp/config.hpp>
#include <ostraka/ddp/resources.hpp>
#include <ostraka/ddp/use_counts.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::ddp {

/// Bytes on this rank.
struct MemoryReport {
  std::int64_t parameters = 0; ///< weights, main weights included
  std::int64_t gradients = 0;
  std::int64_t optimizer_state = 0;
  std::int64_t reserved = 0;     ///< taken from the system
  std::int64_t num_elements = 0; ///< of all parameters of this rank, without padding
};

/// All ranks make the calls marked collective in the same order. The others are local; buckets are reduced and gathered
/// in one order on all ranks, whatever order gradients and weights are asked for in.
class OSTRAKA_API DistributedDataParallel : public std::enable_shared_from_this<DistributedDataParallel> {
public:
  /// Gradients are reduced over all ranks of `mesh`, those of expert parameters over all ranks of `expert_mesh`: some
  /// of the ranks of `mesh`, those that have the same experts. A sharded optimizer is sharded over the innermost axis
  /// of either. Collective over `mesh`. INVALID_ARGUMENT for a configuration that makes no sense, RANKS_DISAGREE for
  /// different ones, TYPE_MISMATCH for types that cannot be.
  static std::shared_ptr<DistributedDataParallel> create(buffer::MeshPtr mesh, Config config = {},
                                                         buffer::MeshPtr expert_mesh = nullptr);
  /// Collective, since communicators are freed.
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  // --- set-up

  /// In the order in which a forward pass uses them. Local. INVALID_ARGUMENT for a name that exists or is empty or
  /// a shape that cannot be, TYPE_MISMATCH unless weights are f64, f32 or bf16, INVALID_STATE after finalize.
  void add_parameter(ParameterSpec spec);
  /// Ends set-up: lays out and allocates; weights and gradients are zero. `layouts`: as plan_buffers gives them,
  /// instead of those that follow from the configuration. Collective. RANKS_DISAGREE names what differs;
  /// INVALID_ARGUMENT; OUT_OF_MEMORY on all ranks when one has no room.
  void finalize(std::optional<std::vector<BufferLayout>> layouts = {});
  const std::vector<BufferLayout>& layouts() const { return layouts_; }
  /// After finalize. INVALID_ARGUMENT for a name that there is not.
  const ParameterSpec& spec(const std::string& name) const { return specs_[find(name, "parameter").parameter]; }

  // --- weights: whole, the same memory as long as this object lives

  /// Writes the whole tensor (C order, host memory, f64, f32 or bf16, converted as by cast), main weights included.
  /// Local; all ranks write the same values, or call broadcast_params: the first finish_grad_sync compares what they
  /// have. SHAPE_MISMATCH, TYPE_MISMATCH, INVALID_STATE while they are gathered.
  void set_parameter(const std::string& name, const void* data, std::int64_t count, DType dtype);
  /// The whole tensor, storage type. Makes it readable first, as ensure_ready does. A caller that updates weights
  /// itself (no sharded optimizer, storage type = main type) may write to it. INVALID_STATE where weights are stale and
  /// hooks are disabled, TYPE_MISMATCH for another type.
  void* parameter(const std::string& name, DType dtype);
  /// Copies all weights, frozen ones too, from rank 0 (of each expert mesh for experts). Main weights follow from them.
  /// Collective. INVALID_STATE on all ranks while gradients are in flight on one.
  void broadcast_params();

  // --- gradients

  struct Gradient {
    void* data;
    double beta; ///< 1 where the memory holds earlier contributions, 0 where its values are undefined
  };
  /// Where the whole gradient of a parameter is computed: data = beta * data + contribution. INVALID_STATE, also told
  /// to all ranks by finish_grad_sync: its bucket is in flight, or this is one contribution more than declared. To this
  /// rank only: INVALID_ARGUMENT for an unknown name, INVALID_STATE for a frozen one, TYPE_MISMATCH.
  Gradient gradient(const std::string& name, DType dtype);
  DType gradient_dtype(const std::string& name) const;
  /// A contribution is complete. With overlap_grad_reduce and outside no_sync the last one of a bucket starts its
  /// reduction as soon as the buckets before it have started. Local.
  void gradient_ready(const std::string& name);
  /// How often gradients of this parameter are contributed in a backward pass, from the next one on; 0: never, it is
  /// zero; uses_auto: as often as in the next one, whose reductions then start in finish_grad_sync. Local.
  void set_uses(const std::string& name, int uses);

  /// While one exists, contributions add up on this rank and nothing is reduced: for all but the last micro-batch.
  /// Scopes nest.
  class OSTRAKA_API NoSync {
  public:
    explicit NoSync(DistributedDataParallel& ddp) : ddp_(ddp) { ddp_.begin_no_sync(); }
    ~NoSync() { --ddp_.no_sync_depth_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

  private:
    DistributedDataParallel& ddp_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }
  /// The same for languages without scopes. INVALID_STATE for an end without a begin.
  void begin_no_sync();
  void end_no_sync();
  bool is_syncing() const { return no_sync_depth_ == 0; }

  /// Starts the reductions that have not started, and waits for them unless overlap_grad_reduce. A gradient that is
  /// missing counts as zero and is reported by finish_grad_sync. Collective.
  void start_grad_sync();
  /// Ends the backward pass of a step: starts what has not started, waits, and agrees on the status: when any rank
  /// failed, or has a parameter without all its contributions, all ranks throw that error, naming the parameters, and
  /// gradients count as zero. The first one compares weights between the ranks (RANKS_DISAGREE names the parameter).
  /// `force_all_reduce`: whole gradients on every rank, also with a sharded optimizer. Does nothing when everything is
  /// reduced already. Collective.
  void finish_grad_sync(bool force_all_reduce = false);
  /// This rank cannot go on with the present step; finish_grad_sync tells the others. Local.
  void fail_step(const std::string& message);

  /// Gradients count as zero and contributions start anew (beta = 0); no memory is touched. Local, the same on all
  /// ranks.
  void zero_grad_buffer();
  /// Multiplies all gradients, reduced or not. Local, the same on all ranks. INVALID_STATE in flight, INVALID_ARGUMENT
  /// unless `factor` is finite.
  void scale_gradients(double factor);
  /// This rank's elements of the reduced gradient, main type: all, or, with a sharded optimizer, its part.
  /// INVALID_STATE unless finish_grad_sync has completed it since the last zero_grad_buffer.
  buffer::TensorRange main_gradient(const std::string& name, DType dtype) const;

  /// Gives the memory of all gradients back; restore takes it again, zero. Pointers asked for before are dead, views of
  /// buffers come back to life. Collective. INVALID_STATE in flight or, while given back, for what needs gradients.
  void offload_grad_buffers();
  void restore_grad_buffers();

  // --- gathers of weights, with a sharded optimizer

  /// Queues the gathers that weights need after a step of the optimizer; waits for them with `force_sync` or without
  /// overlap_param_gather. `force_dispatch`: also of weights that are whole. Collective.
  void start_param_sync(bool force_sync = false, bool force_dispatch = false);
  /// Before the module "a.b" runs: waits, as ensure_ready does, for the weights of its own parameters ("a.b.weight",
  /// not "a.b.c.weight") and queues the next gather. Does nothing while hooks are disabled. INVALID_ARGUMENT for a
  /// module without parameters.
  void pre_forward(const std::string& module);
  /// INVALID_STATE when they are enabled already.
  void enable_forward_pre_hook();
  /// Then, with `param_sync`, brings all weights up to date. Collective with param_sync.
  void disable_forward_pre_hook(bool param_sync = true);
  bool has_forward_pre_hooks() const { return has_hooks_; }
  /// Makes the weights of a parameter readable: waits for their gather, or starts it unless hooks are disabled, until
  /// every rank has started it, by a use of its own or a collective call of this object. For readers that come before
  /// the hook of the module.
  void ensure_ready(const std::string& name);
  /// ensure_ready as a function that does nothing once this object is gone.
  std::function<void()> ready_callback(const std::string& name);
  /// Weights count as not gathered, as after a step. Local, the same on all ranks. INVALID_STATE in flight.
  void reset_param_sync_dispatch_state();
  /// Waits for gathers in flight; they hold no memory of their own. Local.
  void free_overlap_buffers();

  // ---

  /// The trainable parameters, a state per bucket; valid longer than this object, but then refuses updates.
  std::vector<buffer::NamedState> named_states();
  /// The same and the frozen parameters, which have no gradients: what a checkpoint holds.
  std::vector<buffer::NamedState> all_states();
  MemoryReport memory() const;
  bool is_finalized() const { return is_finalized_; }
  const Config& config() const { return resources_->config; }
  const buffer::MeshPtr& mesh() const { return dense_->mesh; }

private:
  // A parameter's place: its weights and, where it is trainable, its bucket.
  struct Place {
    int parameter;
    Weights* weights;
    int tensor;
    int group = -1;
    Bucket* bucket = nullptr;
  };

  DistributedDataParallel(buffer::MeshPtr mesh, Config config, buffer::MeshPtr expert_mesh);
  static std::shared_ptr<Ranks> make_ranks(buffer::MeshPtr mesh, const std::string& owner);
  const std::shared_ptr<Ranks>& ranks_of(bool expert) const { return expert ? expert_ : dense_; }
  std::vector<DType> gradient_dtypes() const;
  void check_agreement() const;
  void plan(std::optional<std::vector<BufferLayout>> layouts);
  void check_layouts_agree() const;
  void make_buckets();
  void undo_buckets();
  void make_frozen_weights();
  // `first`: per bucket, the number of the parameter whose gradient comes last.
  void make_groups(std::vector<std::shared_ptr<Bucket>> buckets, const std::vector<int>& first);
  void compare_weights();
  void compare_tensors(const Weights& weights);
  template <class Function>
  void for_all_weights(Function&& function);

  void require_finalized(const char* operation) const;
  void require_gradients(const char* operation) const;
  template <class Function>
  void for_all_buckets(Function&& function);
  void release_gradients();
  const Place& find(const std::string& name, const char* operation) const;
  const Place& find_trainable(const std::string& name, const char* operation) const;

  void require_nothing_in_flight(const char* operation) const;
  void require_nothing_in_flight_anywhere(const char* operation);
  void check_contribution(const Place& place, const std::string& name, const char* operation);
  bool is_counting() const { return config().overlap_grad_reduce && is_syncing(); }
  bool is_missing(const Place& place) const;
  void check_missing();
  void start_reduction(int number, bool all_reduce);
  void start_reductions(bool all_reduce);
  void complete_whole_gradients();
  void wait_for_reductions(const char* operation);
  bool is_reduced() const;
  void end_step(bool failed);

  void start_gathers(int last, bool force = false);
  void finish_gather(int group);
  void gather_all(bool force);
  void make_ready(const Place& place);
  void make_updatable();
  buffer::NamedState named_state(int group, const std::shared_ptr<Bucket>& bucket);
  void refresh(int group, Bucket& bucket, bool is_model_written);
  void gather_updated();

  std::shared_ptr<Resources> resources_;
  std::shared_ptr<Ranks> dense_;
  std::shared_ptr<Ranks> expert_; ///< null without experts

  std::vector<ParameterSpec> specs_;
  std::vector<BufferLayout> layouts_;
  std::map<std::string, Place, std::less<>> places_;
  std::map<std::string, std::vector<int>, std::less<>> groups_of_module_; ///< own parameters, in forward order
  std::vector<std::shared_ptr<memory::Storage>> gradient_storages_;       ///< of buffers and of what buckets add
  std::vector<BucketGroup> groups_; ///< in the order in which they are reduced; gathered in reverse
  std::vector<std::unique_ptr<Weights>> frozen_;
  std::unique_ptr<UseCounts> uses_;
  int next_reduction_ = 0; ///< the first group whose reduction has not started
  int no_sync_depth_ = 0;
  bool has_hooks_ = false;
  bool is_offloaded_ = false;
  bool is_finalized_ = false;
  bool has_compared_weights_ = false;
  std::int64_t gradient_version_ = 0; ///< reductions completed so far
};

template <class Function>
void DistributedDataParallel::for_all_buckets(Function&& function) {
  for (BucketGroup& group : groups_)
    for (const auto& bucket : group.buckets)
      function(*bucket);
}

template <class Function>
void DistributedDataParallel::for_all_weights(Function&& function) {
  for_all_buckets([&](Bucket& bucket) { function(bucket.weights()); });
  for (const auto& weights : frozen_)
    function(*weights);
}

} // namespace ostraka::ddp
