// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/buffer/execute.hpp>
#include <ostraka/buffer/impl/kernels.hpp>
#include <ostraka/buffer/plan.hpp>
#include <ostraka/buffer/transfer_plan.hpp>
#include <ostraka/comm/running.hpp>

#include <optional>
#include <utility>

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

layout::Segments pieces_of(const DBuffer& sharded, int axis) {
  return axis_pieces(*sharded.layout(), sharded.placements(), sharded.mesh()->position(), axis);
}

// What all ranks of an operation have in common: its name and, when ranks are compared, what its elements mean.
struct Agreement {
  Agreement(const DBuffer& from, const DBuffer& to) : name(from.name()) {
    if (!to.mesh()->checks())
      return;
    Hash hash;
    for (const DBuffer* side : {&from, &to}) {
      hash.add(side->layout()->hash());
      for (const int size : side->mesh()->position().sizes)
        hash.add(size);
      for (const layout::Placement& placement : side->placements())
        hash.add(placement.kind).add(placement.is_partial() ? placement.op : layout::ReduceOp::sum);
    }
    value = hash.value();
  }

  const comm::Name& name;
  std::int64_t value = 0;
};

// Whether `from` and `to` lie in scratch may differ between ranks, their names too.
void run(const RedistributeStep& step, const DBuffer& from, const DBuffer& to, const Agreement& common,
         runtime::Stream& stream, const mesh::Communicators& communicators, const comm::Consumer& consumer = nullptr) {
  using Kind = RedistributeStep::Kind;
  switch (step.kind) {
  case Kind::view:
  case Kind::relabel:
    queue_copy(part(from, to), to, stream);
    return;
  case Kind::allgather:
    communicators.gather[step.axis]->allgather(stream, operand(from), operand(to), pieces_of(from, step.axis),
                                               from.dtype(), common.name, common.value);
    return;
  case Kind::reduce_scatter: {
    comm::Communicator& reduce = *communicators.reduce[step.axis];
    const layout::ReduceOp op = from.placements()[step.axis].op;
    const layout::Segments pieces = pieces_of(to, step.axis);
    if (consumer)
      reduce.reduce_scatter(stream, operand(from), operand(to), pieces, from.dtype(), op, consumer, common.name,
                            common.value);
    else
      reduce.reduce_scatter(stream, operand(from), operand(to), pieces, from.dtype(), op, common.name, common.value);
    return;
  }
  case Kind::allreduce:
    communicators.reduce[step.axis]->allreduce(stream, operand(from), operand(to), to.numel(), to.dtype(),
                                               from.placements()[step.axis].op, common.name, common.value);
    return;
  }
}

// Bytes from the begin of one buffer to that of the other when they share memory.
std::optional<std::int64_t> distance(const DBuffer& from, const DBuffer& to) {
  if (from.bytes() == 0 || to.bytes() == 0)
    return std::nullopt;
  std::int64_t bytes = to.byte_offset() - from.byte_offset();
  if (!from.is_alias_of(to)) { // memory of the caller may be wrapped twice
    if (!from.is_allocated() || !to.is_allocated())
      return std::nullopt;
    bytes = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(to.data()) -
                                      reinterpret_cast<std::intptr_t>(from.data()));
  }
  return bytes < from.bytes() && -bytes < to.bytes() ? std::optional(bytes) : std::nullopt;
}

bool shares_memory_in_place(const DBuffer& from, const DBuffer& to) {
  const auto bytes = distance(from, to);
  if (!bytes)
    return false;
  expect(*bytes == (to.range().begin - from.range().begin) * size_of(from.dtype()), Status::INVALID_ARGUMENT,
         "redistribute: out overlaps the input with other elements at the same addresses");
  return true;
}

// A buffer in scratch memory.
DBuffer in_scratch(std::optional<memory::Scratch::Use>& use, memory::Scratch& scratch, const DBuffer& like,
                   const layout::Placements& placements, std::int64_t numel, runtime::Stream& stream) {
  const auto& own = like.storage()->arena();
  use.emplace(scratch, own ? own : like.mesh()->arena(), numel * size_of(like.dtype()), stream);
  return DBuffer::from_storage(use->storage(), like.mesh(), placements, like.layout(), like.dtype());
}

void carry_out(const RedistributeSteps& steps, const DBuffer& from, const DBuffer& to, runtime::Stream& stream,
               const mesh::Communicators& communicators, memory::Scratch& scratch, const comm::Consumer& consumer) {
  const bool is_in_place = shares_memory_in_place(from, to);
  if (steps.empty())
    return queue_copy(from, to, stream);
  comm::require_running("redistribute");
  const Agreement common(from, to);
  std::optional<memory::Scratch::Use> use;
  const auto place = [&](const RedistributeStep& step, const DBuffer& current) {
    const layout::Range range = to.layout()->local_range(step.placements, to.mesh()->position());
    switch (intermediate_of(step, to.range(), range, is_in_place || !current.is_alias_of(from))) {
    case Intermediate::in_result:
      return to.view(step.placements);
    case Intermediate::in_scratch:
      return in_scratch(use, scratch, to, step.placements, range.size(), stream);
    default:
      return current.view(step.placements);
    }
  };
  const DBuffer* current = &from;
  DBuffer between;
  for (const RedistributeStep& step : steps) {
    if (&step == &steps.back())
      return run(step, *current, to, common, stream, communicators, consumer);
    DBuffer next = place(step, *current);
    run(step, *current, next, common, stream, communicators);
    between = std::move(next);
    current = &between;
  }
}

} // namespace

void redistribute(const DBuffer& from, const DBuffer& to, runtime::Stream& stream,
                  const mesh::Communicators& communicators) {
  redistribute(from, to, stream, communicators, *communicators.scratch);
}

void redistribute(const DBuffer& from, const DBuffer& to, runtime::Stream& stream,
                  const mesh::Communicators& communicators, memory::Scratch& scratch) {
  carry_out(plan_redistribute(from.placements(), to.placements()), from, to, stream, communicators, scratch, nullptr);
}

void redistribute(const DBuffer& from, const DBuffer& to, runtime::Stream& stream,
                  const mesh::Communicators& communicators, comm::Consumer consumer) {
  const auto steps = plan_redistribute(from.placements(), to.placements());
  const bool ends_with_reduction = !steps.empty() && steps.back().kind == RedistributeStep::Kind::reduce_scatter;
  carry_out(steps, from, to, stream, communicators, *communicators.scratch, ends_with_reduction ? consumer : nullptr);
  if (!ends_with_reduction)
    stream.launch("consume", [to, consumer = std::move(consumer)](const runtime::Execution& execution) {
      consumer(execution, 0, to.numel(), to.data());
    });
}

void transfer(const DBuffer& from, const DBuffer& to, runtime::Stream& stream, comm::Communicator& all) {
  expect(from.dtype() == to.dtype(), Status::TYPE_MISMATCH, "transfer: out holds ", name(to.dtype()), ", expected ",
         name(from.dtype()));
  expect(from.mesh()->is_congruent(*to.mesh()), Status::INVALID_ARGUMENT,
         "transfer: the two meshes do not have the same ranks in the same order");
  expect(!from.is_alias_of(to) && !distance(from, to), Status::INVALID_ARGUMENT,
         "transfer: the two buffers share memory"); // the first also where this rank holds nothing
  const Side source{*from.layout(), from.placements(), from.mesh()->position().sizes};
  const Side target{*to.layout(), to.placements(), to.mesh()->position().sizes};
  const Agreement common(from, to);
  TransferPlan plan = plan_transfers(source, target, all.rank());
  comm::require_running("transfer");
  all.exchange(stream, operand(from), std::move(plan.sends), operand(to), std::move(plan.receives), from.dtype(),
               common.value, common.name);
}

void cast(const DBuffer& from, const DBuffer& to, runtime::Stream& stream) {
  const auto bytes = distance(from, to);
  expect(!bytes || (*bytes == 0 && from.dtype() == to.dtype()), Status::INVALID_ARGUMENT,
         "cast: out overlaps the input with other elements at the same addresses");
  if (bytes)
    return;
  stream.launch("cast", [from, to](const runtime::Execution& execution) {
    kernels::cast(execution, from.data(), from.dtype(), to.data(), to.dtype(), to.numel());
  });
}

void cast_tensor(const DBuffer& from, const DBuffer& to, int index, runtime::Stream& stream) {
  stream.launch("cast_tensor", [=](const runtime::Execution& execution) {
    const TensorRange source = from.tensor_range(index), target = to.tensor_range(index);
    kernels::cast(execution, source.data, from.dtype(), target.data, to.dtype(), target.count);
  });
}

void accumulate(double factor, const DBuffer& from, const DBuffer& to, runtime::Stream& stream) {
  stream.launch("accumulate", [=](const runtime::Execution& execution) {
    kernels::accumulate(execution, factor, from.data(), from.dtype(), to.data(), to.dtype(), to.numel());
  });
}

void scale(double factor, const DBuffer& data, runtime::Stream& stream) {
  stream.launch("scale", [=](const runtime::Execution& execution) {
    kernels::scale(execution, factor, data.dtype(), data.data(), data.numel());
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
