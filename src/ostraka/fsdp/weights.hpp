// SPDX-License-Identifier: Apache-2.0
// The weights of a parameter group: at rest, whole while a module runs, and main weights for the optimizer. Where the
// ranks of each node together hold all parts they keep one whole copy; else the whole is gathered for each use, into
// memory that ranks of a node share or a rank has for itself.
// Source: spec/megatron_fsdp.md 3.2 - 3.5, design section 3 "Node-shared memory", "Types".
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/fsdp/initial_values.hpp>
#include <ostraka/fsdp/resources.hpp>
#include <ostraka/fsdp/weight_rules.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace ostraka::fsdp {

class OSTRAKA_API Weights : private WeightWork {
public:
  ~Weights() override = default;
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  /// Placements of the optimizer.
  const buffer::DBuffer& main() const { return main_; }

  /// Copies this rank's part of a whole tensor. On shared memory waits until the peers have let the weights go.
  void set(int index, const void* data, std::int64_t count, DType dtype);
  /// The same from `fill`, which is called once for what this rank has of the tensor, if anything; what it throws
  /// reaches the caller, behind an update of unknown values.
  void initialise(int index, const Fill& fill);
  /// Before main() changes: waits for whoever still reads what main() is made of.
  void begin_update() { rules_->begin_update(*this); }
  /// The same where no rank reads them any more: waits for nothing.
  void begin_update_after_reads() { rules_->begin_update_after_reads(*this); }
  /// The same elements in the storage type; is main() when the types agree.
  const buffer::DBuffer& model() const { return model_; }
  /// main() has changed: model weights follow, unless they have been written already, and whole copies become stale.
  void refresh(bool is_model_written) { rules_->refresh(*this, is_model_written); }
  void refresh() { refresh(false); }

  /// Whether the recipe replicates them over some axis; then, before training starts, ranks compare what they were
  /// given as tensor `index`, or take what rank 0 was given. broadcast() is collective over the mesh.
  bool have_replicas() const { return initial_ != nullptr; }
  std::int64_t replica_hash(int index) const { return initial_->hash(index); }
  void broadcast();
  /// Of the elements of main(): equal on ranks that keep the same ones.
  std::int64_t part_hash() const;
  /// Training starts.
  void end_setup() { initial_.reset(); }
  /// Bytes of this rank's part of what the ranks of a node share.
  virtual std::int64_t shared_bytes() const { return 0; }

  /// Takes the memory that whole weights need, and gives back what they do not keep. Set-up only; local, in the same
  /// order on all ranks.
  void reserve() { rules_->reserve(*this); }
  void give_back() { rules_->give_back(*this); }

  /// Asks for the whole weights, which may take until wait_unsharded(); in two steps, between which a comm::Group may
  /// hand over what all groups of a module gather.
  void unshard() { rules_->unshard(*this); }
  void complete_unshard() { rules_->complete_unshard(*this); }
  /// Waits (on the compute stream) until the whole weights can be read, if they were asked for.
  void wait_unsharded() { rules_->wait_unsharded(*this); }
  /// Lets the whole weights go.
  void reshard() { rules_->reshard(*this); }
  /// Whether whole weights were asked for and not let go.
  bool is_unsharded() const { return rules_->is_unsharded(); }
  /// Whether somebody has written to the whole weights, as far as OSTRAKA_CHECK=1 lets know.
  bool were_written() const;
  /// The whole tensor, compute type.
  const void* whole(int index) const { return whole_.tensor_range(index).data; }

protected:
  Weights(std::shared_ptr<Resources> resources, std::unique_ptr<WeightRules> rules)
      : resources_(std::move(resources)), rules_(std::move(rules)) {}

  /// To be called once all buffers are there.
  void end_making(const std::string& name);
  /// With OSTRAKA_CHECK=1: what the whole weights are now must not change until whole_ends().
  void remember_whole();

  void take(WeightPart part) override { buffer(part).storage()->reallocate(); }
  void whole_begins() override { remember_whole(); }
  void whole_ends() override { remembered_.reset(); }

  std::shared_ptr<Resources> resources_;
  buffer::DBuffer main_;
  buffer::DBuffer model_;
  buffer::DBuffer resting_;
  buffer::DBuffer gathered_;
  buffer::DBuffer whole_;

private:
  buffer::DBuffer& buffer(WeightPart part);
  void give_back(WeightPart part) override { buffer(part).release_storage(); }
  void redistribute(WeightPart from, WeightPart to) override;
  void cast(WeightPart from, WeightPart to, Queue queue) override;
  void gather_after_compute() override { resources_->gather->wait(resources_->compute->record()); }
  void note_arrival() override { arrived_ = resources_->gather->record(); }
  void wait_arrived() override {
    resources_->compute->wait(arrived_);
    resources_->compute->hand_over(); // what is queued reads addresses when it goes to the device
  }
  std::int64_t hash_whole() const;

  std::unique_ptr<WeightRules> rules_;
  runtime::Event arrived_;
  std::unique_ptr<InitialValues> initial_; ///< of replicated weights, during set-up
  std::optional<std::int64_t> remembered_; ///< hash of the whole weights
};

/// Those that fit the memory of `resources`, allocated and zero. `name` is for messages. Local.
std::unique_ptr<Weights> make_weights(std::shared_ptr<Resources> resources, const GroupPlan& plan,
                                      const std::string& name);

} // namespace ostraka::fsdp
