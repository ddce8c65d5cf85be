// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/buffer/execute.hpp>
#include <ostraka/buffer/impl/kernels.hpp>
#include <ostraka/buffer/impl/run_now.hpp>
#include <ostraka/buffer/plan.hpp>
#include <ostraka/comm/running.hpp>
#include <ostraka/layout/boxes.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/progress.hpp>

#include <algorithm>

namespace ostraka::buffer {

namespace {

runtime::Device device_of(const DBuffer& buffer) {
  const runtime::Device found = buffer.storage()->device(), expected = buffer.mesh()->device();
  expect(found == expected, Status::INVALID_ARGUMENT, "buffer: its memory is on ", runtime::name(found),
         ", its mesh on ", runtime::name(expected));
  return expected;
}

template <class Work>
void run_now(const DBuffer& buffer, const char* operation, Work&& work) {
  impl::run_now(device_of(buffer), operation, std::forward<Work>(work));
}

layout::Range checked_range(const MeshPtr& mesh, const layout::Placements& placements, const LayoutPtr& layout) {
  expect(mesh != nullptr, Status::INVALID_ARGUMENT, "buffer: the mesh is null");
  expect(layout != nullptr, Status::INVALID_ARGUMENT, "buffer: the layout is null");
  layout::validate(placements, mesh->dims());
  return layout->local_range(placements, mesh->position());
}

void check_average_type(const layout::Placements& placements, DType dtype) {
  const bool averages = std::any_of(placements.begin(), placements.end(), [](const layout::Placement& placement) {
    return placement == layout::partial(layout::ReduceOp::mean);
  });
  expect(!averages || is_floating(dtype), Status::TYPE_MISMATCH, "buffer: Partial(mean) of ", name(dtype),
         " is not defined; expected a floating type or Partial(sum)");
}

void check_out(const DBuffer& out, const DBuffer& from, const layout::Placements& placements, DType dtype,
               const char* operation) {
  expect(out.is_valid(), Status::INVALID_ARGUMENT, operation, ": out refers to no buffer");
  expect(out.mesh() == from.mesh(), Status::INVALID_ARGUMENT, operation, ": out is on another mesh");
  if (out.placements() != placements)
    fail(Status::INVALID_ARGUMENT, operation, ": out has placements ", layout::to_string(out.placements()),
         ", expected ", layout::to_string(placements));
  expect(*out.layout() == *from.layout(), Status::SHAPE_MISMATCH, operation, ": out has another layout");
  expect(out.dtype() == dtype, Status::TYPE_MISMATCH, operation, ": out holds ", name(out.dtype()), ", expected ",
         name(dtype));
  expect(out.storage()->device() == from.storage()->device(), Status::INVALID_ARGUMENT, operation,
         ": out is on another device");
}

// Refused here, since a collective that cannot start fails its communicator for good.
void check_allocated(const DBuffer& buffer, const char* operation) {
  if (!buffer.is_allocated())
    fail(Status::INVALID_STATE, operation, ": the storage of ", layout::to_string(buffer.placements()),
         " is released; reallocate_storage brings it back");
}

// At once, with scratch of its own: queued operations may still use that of the communicators.
void run(const DBuffer& from, const DBuffer& to) {
  memory::Scratch scratch;
  device_of(from);
  impl::communicate_now(*from.mesh(), "redistribute", [&](runtime::Stream& stream) {
    buffer::redistribute(from, to, stream, from.mesh()->communicators(), scratch);
  });
  scratch.release();
}

// Of memory of the mesh's device, or of the host.
bool is_zero(const DBuffer& buffer, const void* data, std::int64_t bytes) {
  std::vector<std::byte> copy;
  if (runtime::is_device_memory(data)) {
    copy.resize(static_cast<std::size_t>(bytes));
    runtime::copy_now(buffer.mesh()->device(), data, copy.data(), bytes);
    data = copy.data();
  }
  const auto* begin = static_cast<const std::byte*>(data);
  return std::all_of(begin, begin + bytes, [](std::byte value) { return value == std::byte{0}; });
}

void check_padding(const DBuffer& buffer, const void* data) {
  const std::int64_t width = size_of(buffer.dtype());
  for (const layout::Range& gap : buffer.layout()->gaps(buffer.range())) {
    const std::int64_t begin = gap.begin - buffer.range().begin;
    expect(is_zero(buffer, static_cast<const std::byte*>(data) + begin * width, gap.size() * width),
           Status::INVALID_ARGUMENT, "from_local: padding at local elements [", begin, ", ", begin + gap.size(),
           ") is not zero; clear it or ask for it to be cleared");
  }
}

} // namespace

DBuffer::DBuffer(MeshPtr mesh, layout::Placements placements, LayoutPtr layout, DType dtype, Allocation allocation)
    : mesh_(std::move(mesh)), placements_(std::move(placements)), layout_(std::move(layout)), dtype_(dtype),
      range_(checked_range(mesh_, placements_, layout_)) {
  check_average_type(placements_, dtype_);
  const auto own = allocation.symmetric ? mesh_->symmetric_arena() : mesh_->arena();
  const auto arena = allocation.arena ? allocation.arena : own;
  const std::int64_t bytes = multiply(range_.size(), size_of(dtype_), "buffer: bytes");
  storage_ = std::make_shared<memory::Storage>(arena, bytes, allocation.kind, allocation.allocate);
  if (allocation.allocate)
    run_now(*this, "fill_zero", [&](runtime::Stream& stream) { fill_zero(*this, stream); });
}

DBuffer DBuffer::empty(MeshPtr mesh, layout::Placements placements, std::vector<layout::Shape> shapes, DType dtype) {
  expect(mesh != nullptr, Status::INVALID_ARGUMENT, "empty: the mesh is null");
  auto layout = std::make_shared<layout::GlobalLayout>(layout::build_reference(std::move(shapes), mesh->size()));
  return DBuffer(std::move(mesh), std::move(placements), std::move(layout), dtype);
}

DBuffer DBuffer::from_storage(std::shared_ptr<memory::Storage> storage, MeshPtr mesh, layout::Placements placements,
                              LayoutPtr layout, DType dtype, std::int64_t byte_offset) {
  expect(storage != nullptr, Status::INVALID_ARGUMENT, "from_storage: the storage is null");
  DBuffer buffer;
  buffer.range_ = checked_range(mesh, placements, layout);
  check_average_type(placements, dtype);
  buffer.mesh_ = std::move(mesh);
  buffer.placements_ = std::move(placements);
  buffer.layout_ = std::move(layout);
  buffer.dtype_ = dtype;
  buffer.storage_ = std::move(storage);
  buffer.byte_offset_ = byte_offset;
  const std::int64_t needed = multiply(buffer.numel(), size_of(dtype), "from_storage: bytes");
  const std::int64_t found = buffer.storage_->bytes() - byte_offset;
  expect(byte_offset >= 0 && found >= needed, Status::SHAPE_MISMATCH, "from_storage: expected at least ", needed,
         " bytes, found ", found, " from byte ", byte_offset, " on");
  return buffer;
}

DBuffer DBuffer::from_local(void* data, std::int64_t count, MeshPtr mesh, layout::Placements placements,
                            LayoutPtr layout, DType dtype, Padding padding) {
  const std::int64_t expected = checked_range(mesh, placements, layout).size();
  expect(count == expected, Status::SHAPE_MISMATCH, "from_local: expected ", expected,
         " elements, the local range of this rank, found ", count);
  expect(data != nullptr || count == 0, Status::INVALID_ARGUMENT, "from_local: the address is null");
  const std::int64_t bytes = multiply(count, size_of(dtype), "from_local: bytes");
  const runtime::Device device = mesh->device();
  const bool is_copied = count > 0 && device != runtime::Device::host && !runtime::is_device_memory(data);
  const auto storage = is_copied ? std::make_shared<memory::Storage>(mesh->arena(), bytes, memory::Kind::other)
                                 : std::make_shared<memory::Storage>(data, bytes, device);
  const DBuffer buffer = from_storage(storage, std::move(mesh), std::move(placements), std::move(layout), dtype);
  if (padding == Padding::refuse)
    check_padding(buffer, data);
  if (is_copied)
    runtime::copy_now(device, data, buffer.data(), bytes);
  if (padding == Padding::clear)
    run_now(buffer, "from_local", [&](runtime::Stream& stream) { clear_padding(buffer, stream); });
  return buffer;
}

DBuffer DBuffer::distribute_tensors(std::span<const void* const> tensors, std::vector<layout::Shape> shapes,
                                    DType dtype, MeshPtr mesh, layout::Placements placements, LayoutPtr layout) {
  expect(mesh != nullptr, Status::INVALID_ARGUMENT, "distribute_tensors: the mesh is null");
  expect(!tensors.empty(), Status::INVALID_ARGUMENT, "distribute_tensors: expected at least one tensor, found none");
  expect(tensors.size() == shapes.size(), Status::INVALID_ARGUMENT, "distribute_tensors: ", tensors.size(),
         " tensors but ", shapes.size(), " shapes");
  expect(layout == nullptr || layout->shapes() == shapes, Status::SHAPE_MISMATCH,
         "distribute_tensors: the layout was built for other shapes");
  if (layout == nullptr)
    layout = std::make_shared<layout::GlobalLayout>(layout::build_reference(std::move(shapes), mesh->size()));
  DBuffer buffer(std::move(mesh), std::move(placements), layout, dtype);
  for (int i = 0; i < layout->num_tensors(); ++i)
    buffer.copy_from(i, tensors[i], layout->tensor_range(i).size(), dtype);
  return buffer;
}

void DBuffer::copy_from(int index, const void* tensor, std::int64_t count, DType source_dtype) {
  const std::int64_t source_width = size_of(source_dtype); // also refuses wrong types on ranks that own nothing
  const TensorRange own = tensor_range(index);
  const std::int64_t whole = layout_->tensor_range(index).size();
  expect(count == whole, Status::SHAPE_MISMATCH, "copy_from: tensor ", index, " ",
         layout::to_string(layout_->shape(index)), " has ", whole, " elements, found ", count);
  expect(tensor != nullptr || whole == 0, Status::INVALID_ARGUMENT, "copy_from: the address of tensor ", index,
         " is null");
  if (own.count == 0)
    return;
  const void* from = static_cast<const std::byte*>(tensor) + own.offset * source_width;
  run_now(*this, "copy_from", [&](runtime::Stream& stream) {
    if (mesh_->device() == runtime::Device::host)
      stream.launch("copy_from", [=, to = dtype_](const runtime::Execution& execution) {
        kernels::cast(execution, from, source_dtype, own.data, to, own.count);
      });
    else
      copy_to_device(from, source_dtype, own, stream);
  });
}

// Values that are converted come as they are and are converted there.
void DBuffer::copy_to_device(const void* from, DType source_dtype, const TensorRange& own,
                             runtime::Stream& stream) const {
  const std::int64_t bytes = own.count * size_of(source_dtype);
  if (source_dtype == dtype_)
    return stream.launch("copy_from",
                         [=](const runtime::Execution& execution) { runtime::copy(execution, from, own.data, bytes); });
  const auto raw = std::make_shared<memory::Storage>(mesh_->arena(), bytes, memory::Kind::transient);
  stream.launch("copy_from", [=, to = dtype_](const runtime::Execution& execution) {
    runtime::copy(execution, from, raw->data(), bytes);
    kernels::cast(execution, raw->data(), source_dtype, own.data, to, own.count);
  });
}

void DBuffer::rendezvous(int axis) const {
  comm::require_running("rendezvous");
  mesh_->axis_size(axis); // throws for an axis that does not exist
  check_allocated(*this, "rendezvous");
  mesh_->communicators().gather[axis]->rendezvous(*storage_);
  mesh_->communicators().reduce[axis]->rendezvous(*storage_);
}

void DBuffer::reallocate_storage() {
  const bool was_allocated = storage_->is_allocated();
  storage_->reallocate();
  run_now(*this, "reallocate_storage", [&](runtime::Stream& stream) {
    if (was_allocated || bytes() == storage_->bytes())
      return clear_padding(*this, stream);
    // Handles on the rest of the storage have padding that this one does not know.
    stream.launch("fill_zero", [storage = storage_](const runtime::Execution& execution) {
      kernels::fill_zero(execution, storage->data(), storage->bytes());
    });
  });
}

DBuffer DBuffer::relabel(layout::Placements placements, layout::Range range) const {
  DBuffer result = *this;
  result.byte_offset_ += (range.begin - range_.begin) * size_of(dtype_);
  result.range_ = range;
  result.placements_ = std::move(placements);
  return result;
}

DBuffer DBuffer::view(layout::Placements placements) const {
  const layout::Range range = checked_range(mesh_, placements, layout_);
  check_average_type(placements, dtype_);
  if (!range_.contains(range))
    fail(Status::INVALID_ARGUMENT, "DBuffer::view: [", range.begin, ", ", range.end, ") under ",
         layout::to_string(placements), " is not contained in [", range_.begin, ", ", range_.end, ") under ",
         layout::to_string(placements_), "; redistribute gathers it");
  return relabel(std::move(placements), range);
}

DBuffer DBuffer::make_like(layout::Placements placements, DType dtype) const {
  DBuffer result(mesh_, std::move(placements), layout_, dtype, {storage_->arena()});
  result.name_ = name_;
  return result;
}

DBuffer DBuffer::cast(DType dtype, const DBuffer* out) const {
  if (out != nullptr)
    check_out(*out, *this, placements_, dtype, "cast");
  else if (dtype == dtype_)
    return *this;
  const DBuffer result = out != nullptr ? *out : make_like(placements_, dtype);
  run_now(*this, "cast", [&](runtime::Stream& stream) { buffer::cast(*this, result, stream); });
  return result;
}

DBuffer DBuffer::redistribute(layout::Placements placements, const DBuffer* out) const {
  if (out != nullptr) {
    check_out(*out, *this, placements, dtype_, "redistribute");
    check_allocated(*this, "redistribute");
    check_allocated(*out, "redistribute");
    run(*this, *out);
    return *out;
  }
  const auto steps = plan_redistribute(placements_, placements);
  if (std::none_of(steps.begin(), steps.end(), [](const auto& step) { return step.axis >= 0; }))
    return view(std::move(placements));
  check_allocated(*this, "redistribute");
  const DBuffer result = make_like(std::move(placements), dtype_);
  run(*this, result);
  return result;
}

void DBuffer::redistribute_into(const DBuffer& out) const {
  expect(out.is_valid(), Status::INVALID_ARGUMENT, "redistribute_into: out refers to no buffer");
  check_allocated(*this, "redistribute_into");
  check_allocated(out, "redistribute_into");
  expect(out.storage()->device() == storage_->device(), Status::INVALID_ARGUMENT,
         "redistribute_into: out is on another device");
  device_of(*this);
  impl::communicate_now(*mesh_, "redistribute_into", [&](runtime::Stream& stream) {
    buffer::transfer(*this, out, stream, *mesh_->communicators().data);
  });
}

DBuffer DBuffer::change_axis(int axis, layout::Placement from, layout::Placement to, const char* operation,
                             const DBuffer* out) const {
  expect(axis >= 0 && axis < mesh_->dims(), Status::INVALID_ARGUMENT, operation, ": expected an axis from 0 to ",
         mesh_->dims() - 1, ", found ", axis);
  if (placements_[axis].kind != from.kind)
    fail(Status::INVALID_ARGUMENT, operation, ": axis ", axis, " has placement ",
         layout::to_string({&placements_[axis], 1}), ", expected ", layout::to_string({&from, 1}));
  layout::Placements placements = placements_;
  placements[axis] = to;
  return redistribute(std::move(placements), out);
}

DBuffer DBuffer::allgather(int axis, const DBuffer* out) const {
  return change_axis(axis, layout::shard(), layout::replicate(), "allgather", out);
}

DBuffer DBuffer::allreduce(int axis, const DBuffer* out) const {
  return change_axis(axis, layout::partial(), layout::replicate(), "allreduce", out);
}

DBuffer DBuffer::reduce_scatter(int axis, const DBuffer* out) const {
  return change_axis(axis, layout::partial(), layout::shard(), "reduce_scatter", out);
}

TensorRange DBuffer::tensor_range(int index) const {
  const layout::Range tensor = layout_->tensor_range(index);
  const layout::Range own = layout::owned_elements(tensor, range_);
  if (own.size() == 0)
    return {nullptr, 0, own.begin};
  auto* begin = static_cast<std::byte*>(data());
  return {begin + (tensor.begin + own.begin - range_.begin) * size_of(dtype_), own.size(), own.begin};
}

TensorView DBuffer::tensor_view(int index) const {
  const TensorRange own = tensor_range(index);
  layout::Shape shape = layout_->shape(index);
  const std::int64_t row = std::max<std::int64_t>(layout::row_numel(shape), 1);
  expect(own.offset % row == 0 && own.count % row == 0, Status::NOT_SUPPORTED, "tensor_view: this rank's elements [",
         own.offset, ", ", own.offset + own.count, ") of tensor ", index, " ", layout::to_string(shape),
         " are not whole rows of ", row, "; use tensor_range");
  if (!shape.empty())
    shape[0] = own.count / row;
  else if (own.count == 0)
    shape = {0};
  return {own.data, std::move(shape), own.offset / row};
}

} // namespace ostraka::buffer
