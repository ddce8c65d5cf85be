// SPDX-License-Identifier: Apache-2.0
// A group of logical tensors in one local storage, with one placement per mesh axis.
// Source: seed 000, spec/megatron_fsdp.md section 2.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/layout/global_layout.hpp>
#include <ostraka/memory/storage.hpp>
#include <ostraka/mesh/device_mesh.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ostraka::buffer {

using MeshPtr = std::shared_ptr<const mesh::DeviceMesh>;
using LayoutPtr = std::shared_ptr<const layout::GlobalLayout>;

/// This rank's rows of a tensor. `shape` is the local shape: rows, then the other extents.
struct TensorView {
  void* data;
  layout::Shape shape;
  std::int64_t first_row;
};

/// This rank's elements of a tensor, wherever it is cut. `offset` is the first one's index inside the tensor.
struct TensorRange {
  void* data;
  std::int64_t count;
  std::int64_t offset;
};

/// What from_local does about padding that is not zero.
enum class Padding : std::int32_t { refuse = 0, clear = 1 };

/// Where a new buffer's memory comes from.
struct Allocation {
  std::shared_ptr<memory::Arena> arena; ///< null: the arena of the mesh
  memory::Kind kind = memory::Kind::other;
  bool allocate = true; ///< false: storage starts released
  /// With `arena` null: the mesh's arena of memory that can be registered, see rendezvous(); equal on all ranks.
  bool symmetric = false;
};

/// A handle: copies refer to the same storage, which lives as long as the last of them. Counts are elements. Errors are
/// thrown before anything changes. Functions marked collective are called by all ranks of the axis in the same order;
/// all functions return when this rank's result is complete. On a mesh of GPUs they run on the compute stream of the
/// device (runtime/device.hpp), behind what it has queued, and addresses are the device's.
class OSTRAKA_API DBuffer {
public:
  /// Refers to nothing; only assignment and destruction are legal.
  DBuffer() = default;

  /// Allocates the local range of `layout`, zero-filled. Local. Throws INVALID_ARGUMENT for placements or layouts that
  /// do not fit the mesh.
  DBuffer(MeshPtr mesh, layout::Placements placements, LayoutPtr layout, DType dtype, Allocation allocation = {});

  /// The same with a reference layout of `shapes`, one segment per rank of the mesh.
  static DBuffer empty(MeshPtr mesh, layout::Placements placements, std::vector<layout::Shape> shapes, DType dtype);

  /// Wraps `count` elements of the caller's memory without a copy: it must be exactly the local range and outlive every
  /// handle. On a mesh of GPUs that is memory of the GPU; memory of the host is copied to where the mesh has its own.
  static DBuffer from_local(void* data, std::int64_t count, MeshPtr mesh, layout::Placements placements,
                            LayoutPtr layout, DType dtype, Padding padding = Padding::refuse);

  /// Uses existing storage from `byte_offset` on, which must have room for the local range; it may be released. No
  /// copy.
  static DBuffer from_storage(std::shared_ptr<memory::Storage> storage, MeshPtr mesh, layout::Placements placements,
                              LayoutPtr layout, DType dtype, std::int64_t byte_offset = 0);

  /// Every rank passes all tensors whole (C order, host memory) and keeps its own part. No communication. `layout`
  /// null: a reference layout of `shapes`.
  static DBuffer distribute_tensors(std::span<const void* const> tensors, std::vector<layout::Shape> shapes,
                                    DType dtype, MeshPtr mesh, layout::Placements placements,
                                    LayoutPtr layout = nullptr);

  /// Copies this rank's part of the whole tensor `index` from host memory of type `source_dtype`, converted as by cast
  /// when it differs. Local.
  void copy_from(int index, const void* tensor, std::int64_t count, DType source_dtype);

  /// Names the buffer in messages about communication; handles made from this one afterwards inherit it. When ranks are
  /// compared (OSTRAKA_CHECK=1) their names must agree.
  void set_name(std::string name) { name_ = std::make_shared<const std::string>(std::move(name)); }
  /// Null when it has none.
  const comm::Name& name() const { return name_; }

  bool is_valid() const { return storage_ != nullptr; }
  const MeshPtr& mesh() const { return mesh_; }
  const layout::Placements& placements() const { return placements_; }
  const LayoutPtr& layout() const { return layout_; }
  DType dtype() const { return dtype_; }
  /// The absolute range of the layout that this rank holds.
  const layout::Range& range() const { return range_; }
  std::int64_t numel() const { return range_.size(); }
  std::int64_t bytes() const { return numel() * size_of(dtype_); }
  const std::shared_ptr<memory::Storage>& storage() const { return storage_; }
  std::int64_t byte_offset() const { return byte_offset_; }
  bool is_alias_of(const DBuffer& other) const { return storage_ == other.storage_; }

  /// The address of the local range now. Throws INVALID_STATE while the storage is released.
  void* data() const { return storage_->data() + byte_offset_; }

  /// Whether the storage is memory that rendezvous() registers: asked for (Allocation::symmetric) and to be had.
  bool is_symmetric_memory() const { return storage_->arena() != nullptr && storage_->arena()->is_symmetric(); }
  /// Registers this rank's storage with the mesh's communicators of `axis` for symmetric-memory collectives, until it
  /// is gone on all ranks or the mesh ends; registered storage stays so, whatever calls this again. Where memory or
  /// NCCL has no such thing nothing happens. Collective over the axis. Throws INVALID_ARGUMENT for an axis that does
  /// not exist, INVALID_STATE while the storage is released, RANKS_DISAGREE where it is new on some ranks, or ranks
  /// registered their storages in another order.
  void rendezvous(int axis) const;

  bool is_allocated() const { return storage_->is_allocated(); }
  /// All handles on the storage stay valid. After reallocate_storage contents are undefined, padding is zero. Symmetric
  /// memory stays where it is meanwhile and serves nobody else.
  void release_storage() { storage_->release(); }
  void reallocate_storage();

  /// A contained range under other placements; shares storage. Local. Throws INVALID_ARGUMENT when not contained.
  DBuffer view(layout::Placements placements) const;

  /// The same layout in any type; without `out` and with the same type: this buffer. Floating types round once, to
  /// nearest; integer types cut the fraction off and take 0 for NaN; values out of range saturate: to the nearest limit
  /// of an integer type, to infinity in a floating type.
  DBuffer cast(DType dtype, const DBuffer* out = nullptr) const;

  /// To other placements as buffer/plan.hpp says. Without `out`, views share storage and equal placements return this
  /// buffer. `out` must have this mesh, layout and type and the new placements; it may share memory with this buffer,
  /// the same elements at the same addresses, which are then overwritten. Collective over the axes that are gathered or
  /// reduced.
  DBuffer redistribute(layout::Placements placements, const DBuffer* out = nullptr) const;
  /// Copies all tensors into `out`, which has the same tensors and type in any layout and placements without Partial,
  /// on this mesh or another one of the same ranks. Collective over the mesh. Padding of `out` is left as it is.
  void redistribute_into(const DBuffer& out) const;
  /// Shard -> Replicate on `axis`, Partial -> Replicate, Partial -> Shard. Collective over the axis. Throw
  /// INVALID_ARGUMENT when the axis has another placement.
  DBuffer allgather(int axis, const DBuffer* out = nullptr) const;
  DBuffer allreduce(int axis, const DBuffer* out = nullptr) const;
  DBuffer reduce_scatter(int axis, const DBuffer* out = nullptr) const;

  /// This rank's rows of tensor `index`; no rows: shape[0] is 0. Throws NOT_SUPPORTED naming tensor_range where a cut
  /// falls inside a row.
  TensorView tensor_view(int index) const;
  /// This rank's elements of tensor `index`; always works.
  TensorRange tensor_range(int index) const;

private:
  void copy_to_device(const void* from, DType source_dtype, const TensorRange& own, runtime::Stream& stream) const;
  DBuffer make_like(layout::Placements placements, DType dtype) const;
  DBuffer relabel(layout::Placements placements, layout::Range range) const;
  DBuffer change_axis(int axis, layout::Placement from, layout::Placement to, const char* operation,
                      const DBuffer* out) const;

  MeshPtr mesh_;
  layout::Placements placements_;
  LayoutPtr layout_;
  DType dtype_ = DType::f64;
  layout::Range range_;
  std::shared_ptr<memory::Storage> storage_;
  std::int64_t byte_offset_ = 0;
  comm::Name name_;
};

} // namespace ostraka::buffer
