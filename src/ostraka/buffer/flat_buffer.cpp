// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/environment.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/buffer/flat_buffer.hpp>
#include <ostraka/buffer/impl/kernels.hpp>
#include <ostraka/buffer/impl/run_now.hpp>
#include <ostraka/comm/running.hpp>

#include <utility>

namespace ostraka::buffer {

template <class Work>
void FlatBuffer::run_now(Work&& work) const {
  impl::run_now(mesh_->device(), "flat buffer", std::forward<Work>(work));
}

FlatBuffer::FlatBuffer(MeshPtr mesh, std::vector<layout::Shape> shapes, DType dtype, int axis)
    : mesh_(std::move(mesh)), shapes_(std::move(shapes)), dtype_(dtype), axis_(axis) {
  expect(mesh_ != nullptr, Status::INVALID_ARGUMENT, "flat buffer: the mesh is null");
  const int ranks = mesh_->axis_size(axis_);
  std::int64_t numel = 0;
  for (const layout::Shape& shape : shapes_) {
    offsets_.push_back(numel);
    numel = add(numel, layout::numel(shape), "flat buffer: number of elements");
  }
  const std::int64_t padded = round_up(numel, ranks, "flat buffer: padded number of elements");
  pieces_ = layout::Segments::equal(ranks, padded / ranks);
  const std::int64_t bytes = multiply(padded, size_of(dtype_), "flat buffer: bytes");
  storage_ = std::make_shared<memory::Storage>(mesh_->arena(), bytes, memory::Kind::other);
  run_now([&](runtime::Stream& stream) {
    stream.launch("fill_zero", [storage = storage_](const runtime::Execution& execution) {
      kernels::fill_zero(execution, storage->data(), storage->bytes());
    });
  });
}

FlatBuffer::View FlatBuffer::view(int index) const {
  expect(index >= 0 && index < num_tensors(), Status::INVALID_ARGUMENT, "flat buffer: expected a tensor in [0, ",
         num_tensors(), "), found ", index);
  return {storage_->data() + offsets_[static_cast<std::size_t>(index)] * size_of(dtype_),
          shapes_[static_cast<std::size_t>(index)]};
}

std::vector<FlatBuffer::View> FlatBuffer::views() const {
  std::vector<View> result;
  for (int i = 0; i < num_tensors(); ++i)
    result.push_back(view(i));
  return result;
}

comm::Operand FlatBuffer::shard() const {
  return {storage_, pieces_.begin(mesh_->coordinate(axis_)) * size_of(dtype_)};
}

void* FlatBuffer::local_shard() const { return shard().data(); }
void* FlatBuffer::data() const { return storage_->data(); }

// Equal sizes say little about which tensors these are.
std::int64_t FlatBuffer::agreement() const {
  Hash hash;
  if (environment::check())
    for (const layout::Shape& shape : shapes_) {
      hash.add(shape.size());
      for (const std::int64_t extent : shape)
        hash.add(extent);
    }
  return hash.value();
}

void FlatBuffer::reduce_scatter() {
  comm::require_running("flat buffer: reduce_scatter");
  impl::communicate_now(*mesh_, "flat buffer: reduce_scatter", [&](runtime::Stream& stream) {
    mesh_->communicators().reduce[axis_]->reduce_scatter(stream, whole(), shard(), pieces_, dtype_,
                                                         layout::ReduceOp::sum, nullptr, agreement());
  });
}

void FlatBuffer::all_gather() {
  comm::require_running("flat buffer: all_gather");
  impl::communicate_now(*mesh_, "flat buffer: all_gather", [&](runtime::Stream& stream) {
    mesh_->communicators().gather[axis_]->allgather(stream, shard(), whole(), pieces_, dtype_, nullptr, agreement());
  });
}

} // namespace ostraka::buffer
