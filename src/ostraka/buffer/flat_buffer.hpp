// SPDX-License-Identifier: Apache-2.0
// The simple buffer of seed 003: tensors packed one after the other, the end padded so that every rank's shard has the
// same size. Every rank holds the whole; its shard is a permanent part of it.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/buffer/dbuffer.hpp>

#include <cstdint>
#include <vector>

namespace ostraka::buffer {

/// Counts are elements. Functions marked collective are called by all ranks of the axis in the same order and return
/// when this rank's result is complete.
class OSTRAKA_API FlatBuffer {
public:
  /// A tensor inside the buffer: its address and shape.
  struct View {
    void* data;
    layout::Shape shape;
  };

  /// Packs tensors of these shapes, zero-filled; the group is the ranks along `axis` of the mesh. Local. Throws
  /// INVALID_ARGUMENT for a null mesh, an axis that does not exist or a negative extent.
  FlatBuffer(MeshPtr mesh, std::vector<layout::Shape> shapes, DType dtype = DType::bf16, int axis = 0);

  int num_tensors() const { return static_cast<int>(shapes_.size()); }
  DType dtype() const { return dtype_; }
  /// The smallest multiple of the group's size that holds all tensors.
  std::int64_t padded_numel() const { return pieces_.size(); }
  std::int64_t shard_numel() const { return pieces_.largest(); }

  /// Tensor `index` in the full buffer. Valid as long as the buffer. Throws INVALID_ARGUMENT for an index out of range.
  View view(int index) const;
  std::vector<View> views() const;
  /// The first of this rank's shard_numel() elements.
  void* local_shard() const;
  /// The first of the padded_numel() elements of the whole.
  void* data() const;

  /// Sums the whole over the group; the local shard receives its part. Collective.
  void reduce_scatter();
  /// Brings the local shards of all ranks into the whole. Collective.
  void all_gather();

private:
  comm::Operand whole() const { return {storage_, 0}; }
  comm::Operand shard() const;
  std::int64_t agreement() const;
  template <class Work>
  void run_now(Work&& work) const;

  MeshPtr mesh_;
  std::vector<layout::Shape> shapes_;
  std::vector<std::int64_t> offsets_;
  DType dtype_;
  int axis_;
  layout::Segments pieces_;
  std::shared_ptr<memory::Storage> storage_;
};

} // namespace ostraka::buffer
