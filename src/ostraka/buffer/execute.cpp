// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/buffer/execute.hpp>
#include <ostraka/buffer/impl/kernels.hpp>
#include <ostraka/buffer/plan.hpp>

#include <algorithm>

namespace ostraka::buffer {

namespace {

comm::Operand operand(const DBuffer& buffer) { return {buffer.storage(), buffer.byte_offset()}; }

void queue_copy(const DBuffer& from, const DBuffer& to, runtime::Stream& stream) {
  if (from.is_alias_of(to) && from.byte_offset() == to.byte_offset())
    return;
  stream.launch("copy", [from, to](const runtime::Execution& execution) {
    kernels::copy(execution, from.data(), to.data(), to.bytes());
  });
}

// The part of `from` that `to` covers; both have the same layout.
DBuffer part(const DBuffer& from, const DBuffer& to) { return from.view(to.placements()); }

comm::Reduction reduction_of(const DBuffer& from, int axis) {
  return from.placements()[axis].op == layout::ReduceOp::mean ? comm::Reduction::mean : comm::Reduction::sum;
}

void run(const RedistributeStep& step, const DBuffer& from, const DBuffer& to, runtime::Stream& stream,
         const mesh::Communicators& communicators) {
  using Kind = RedistributeStep::Kind;
  switch (step.kind) {
  case Kind::view:
  case Kind::relabel:
    queue_copy(part(from, to), to, stream);
    return;
  case Kind::allgather:
    communicators.gather[step.axis]->allgather(stream, operand(from), operand(to), from.numel(), from.dtype());
    return;
  case Kind::reduce_scatter:
    communicators.reduce[step.axis]->reduce_scatter(stream, operand(from), operand(to), to.numel(), from.dtype(),
                                                    reduction_of(from, step.axis));
    return;
  case Kind::allreduce:
    queue_copy(from, to, stream);
    communicators.reduce[step.axis]->allreduce(stream, operand(to), to.numel(), to.dtype(),
                                               reduction_of(from, step.axis));
    return;
  }
}

} // namespace

void redistribute(const DBuffer& from, const DBuffer& to, runtime::Stream& stream,
                  const mesh::Communicators& communicators) {
  const auto steps = plan_redistribute(from.placements(), to.placements());
  if (steps.empty())
    return queue_copy(from, to, stream);
  const bool cuts = std::any_of(steps.begin(), steps.end(), [](const RedistributeStep& step) {
    return step.kind == RedistributeStep::Kind::allgather || step.kind == RedistributeStep::Kind::reduce_scatter;
  });
  expect(!cuts || from.layout()->has_equal_segments(), Status::NOT_SUPPORTED, "redistribute: a ",
         layout::name(from.layout()->policy()),
         " layout has unequal segments, which collectives of this version do not move; choose an equal one");
  DBuffer current = from;
  for (const RedistributeStep& step : steps) {
    const DBuffer next = &step == &steps.back() ? to : to.view(step.placements); // intermediates lie inside the result
    run(step, current, next, stream, communicators);
    current = next;
  }
}

void cast(const DBuffer& from, const DBuffer& to, runtime::Stream& stream) {
  stream.launch("cast", [from, to](const runtime::Execution& execution) {
    kernels::cast(execution, from.data(), from.dtype(), to.data(), to.dtype(), to.numel());
  });
}

void accumulate(double factor, const DBuffer& from, const DBuffer& to, runtime::Stream& stream) {
  stream.launch("accumulate", [=](const runtime::Execution& execution) {
    kernels::accumulate(execution, factor, from.data(), from.dtype(), to.data(), to.dtype(), to.numel());
  });
}

void fill_zero(const DBuffer& data, runtime::Stream& stream) {
  stream.launch("fill_zero", [data](const runtime::Execution& execution) {
    kernels::fill_zero(execution, data.data(), data.bytes());
  });
}

void clear_padding(const DBuffer& data, runtime::Stream& stream) {
  stream.launch("clear_padding", [data](const runtime::Execution& execution) {
    const std::int64_t width = size_of(data.dtype());
    auto* begin = static_cast<std::byte*>(data.data());
    for (const layout::Range& gap : data.layout()->gaps(data.range()))
      kernels::fill_zero(execution, begin + (gap.begin - data.range().begin) * width, gap.size() * width);
  });
}

void clear_tensor(const DBuffer& data, int index, runtime::Stream& stream) {
  stream.launch("clear_tensor", [data, index](const runtime::Execution& execution) {
    const TensorRange range = data.tensor_range(index);
    kernels::fill_zero(execution, range.data, range.count * size_of(data.dtype()));
  });
}

} // namespace ostraka::buffer
