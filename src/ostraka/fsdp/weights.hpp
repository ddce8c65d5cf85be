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

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace ostraka::fsdp {

/// The types in which weights stand at rest, are handed out and are updated.
struct WeightTypes {
  DType storage;
  DType compute;
  DType main;
};

class OSTRAKA_API Weights {
public:
  virtual ~Weights() = default;
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
  virtual void begin_update() = 0;
  /// The same where no rank reads them any more: waits for nothing.
  virtual void begin_update_after_reads() = 0;
  /// The same elements in the storage type; is main() when the types agree.
  const buffer::DBuffer& model() const { return model_; }
  /// main() has changed: model weights follow, unless they have been written already, and whole copies become stale.
  virtual void refresh(bool is_model_written) = 0;
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
  virtual void reserve() = 0;
  virtual void give_back() = 0;

  /// Asks for the whole weights, which may take until wait_unsharded(); in two steps, between which a comm::Group may
  /// hand over what all groups of a module gather.
  virtual void unshard() = 0;
  virtual void complete_unshard() {}
  /// Waits (on the compute stream) until the whole weights can be read, if they were asked for.
  virtual void wait_unsharded() = 0;
  /// Lets the whole weights go.
  virtual void reshard() = 0;
  /// Whether whole weights were asked for and not let go.
  bool is_unsharded() const { return is_unsharded_; }
  /// Whether somebody has written to the whole weights, as far as OSTRAKA_CHECK=1 lets know.
  bool were_written() const;
  /// The whole tensor, compute type.
  const void* whole(int index) const { return whole_.tensor_range(index).data; }

protected:
  explicit Weights(std::shared_ptr<Resources> resources) : resources_(std::move(resources)) {}

  /// To be called once main_ is there.
  void keep_initial_values();
  /// With OSTRAKA_CHECK=1: what the whole weights are now must not change until forget_whole().
  void remember_whole();
  void forget_whole() { remembered_.reset(); }

  std::shared_ptr<Resources> resources_;
  buffer::DBuffer main_;
  buffer::DBuffer model_;
  buffer::DBuffer whole_; ///< compute type
  bool is_unsharded_ = false;
  std::int64_t version_ = 0; ///< of the model weights

private:
  std::int64_t hash_whole() const;

  std::unique_ptr<InitialValues> initial_; ///< of replicated weights, during set-up
  std::optional<std::int64_t> remembered_; ///< hash of the whole weights
};

/// Those that fit the memory of `resources`, allocated and zero. `name` is for messages. Local.
std::unique_ptr<Weights> make_weights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout,
                                      const WeightTypes& types, const std::string& name);

} // namespace ostraka::fsdp
