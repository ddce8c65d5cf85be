// SPDX-License-Identifier: Apache-2.0
// Whole weights of some parameters, a part of a contiguous buffer, and this rank's part of them for the optimizer.
// Source: seed 004, spec/megatron_fsdp.md 5.1, 5.4.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/ddp/resources.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace ostraka::ddp {

class OSTRAKA_API Weights {
public:
  /// Those that `layout` describes, in `storage` from element `first` on, which has room for them; zero. Where the
  /// optimizer is sharded, this rank updates its segment, else it updates all. Local.
  Weights(std::shared_ptr<Resources> resources, std::shared_ptr<Ranks> ranks, const std::string& name,
          const buffer::LayoutPtr& layout, std::shared_ptr<memory::Storage> storage, std::int64_t first, DType dtype,
          DType main_dtype, bool is_sharded);

  /// The same elements in the main type; is model() where the types agree.
  const buffer::DBuffer& main() const { return main_; }
  const buffer::DBuffer& model() const { return model_; }
  DType dtype() const { return whole_.dtype(); }
  const comm::Name& name() const { return whole_.name(); }
  const Ranks& ranks() const { return *ranks_; }
  bool is_sharded() const { return whole_.numel() != model_.numel(); }
  void* tensor(int index) const { return whole_.tensor_range(index).data; }

  /// Writes a whole tensor, and this rank's part of it to the main weights.
  void set(int index, const void* data, std::int64_t count, DType dtype);
  /// Copies all weights from rank 0; main weights follow from them (compute queue). Collective.
  void broadcast();
  /// Equal on ranks that have the same weights, or the same tensor. Waits for the compute queue.
  std::int64_t hash() const;
  std::int64_t hash(int index) const;
  /// Main weights have changed: this rank's part of the weights follows, unless it has been written already.
  void refresh(bool is_model_written);
  /// Queues the gather of the whole from the parts of all ranks (gather queue).
  void start_gather();

private:
  std::shared_ptr<Resources> resources_;
  std::shared_ptr<Ranks> ranks_;
  buffer::DBuffer whole_;
  buffer::DBuffer model_; ///< this rank's part of whole_
  buffer::DBuffer main_;
};

/// Placements of what the optimizer updates, of whole buffers, and of buffers that every rank adds to.
layout::Placements optimizer_placements(const Ranks& ranks, bool is_sharded);
layout::Placements replicated(const Ranks& ranks);
layout::Placements partial(const Ranks& ranks);

} // namespace ostraka::ddp
