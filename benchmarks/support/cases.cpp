// SPDX-License-Identifier: Apache-2.0
#include "cases.hpp"

#include <ostraka/base/float16.hpp>
#include <ostraka/layout/builders.hpp>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace ostraka::bench {

namespace {

using buffer::DBuffer;
using layout::partial;
using layout::replicate;
using layout::shard;

void wait(MPI_Request request) { MPI_Wait(&request, MPI_STATUS_IGNORE); }

template <class T>
void fill_as(const DBuffer& buffer) {
  auto* values = static_cast<T*>(buffer.data());
  for (std::int64_t i = 0; i < buffer.numel(); ++i)
    values[i] = static_cast<T>(static_cast<float>(i % 16 + buffer.mesh()->rank()));
}

// Small numbers that differ by rank and place: sums of them are exact, in bf16 on up to 10 ranks.
void fill(const DBuffer& buffer) {
  if (buffer.dtype() == DType::f64)
    fill_as<double>(buffer);
  else if (buffer.dtype() == DType::f32)
    fill_as<float>(buffer);
  else
    fill_as<bfloat16>(buffer);
}

DBuffer make(const Setting& s, layout::Placement placement, buffer::LayoutPtr layout = nullptr) {
  if (layout == nullptr)
    layout = std::make_shared<layout::GlobalLayout>(layout::build_flat({{s.count}}, s.ranks()));
  const DBuffer buffer(s.mesh, {placement}, std::move(layout), s.dtype);
  fill(buffer); // touches the memory
  return buffer;
}

Case make_case(std::vector<DBuffer> inputs, const DBuffer& result, const Work& work, Operation raw, Operation ours) {
  return {std::move(raw),
          std::move(ours),
          work,
          [inputs = std::move(inputs)] {
            for (const DBuffer& input : inputs)
              fill(input);
          },
          {static_cast<const std::byte*>(result.data()), static_cast<std::size_t>(result.bytes())}};
}

Case allgather(const Setting& s) {
  const DBuffer in = make(s, shard()), out = make(s, replicate());
  const auto raw = [=] {
    MPI_Request request;
    MPI_Iallgather(in.data(), s.part(), s.sum.type, out.data(), s.part(), s.sum.type, s.raw, &request);
    wait(request);
  };
  return make_case({in}, out, {1, 1, s.whole_bytes()}, raw, [=] { in.allgather(0, &out); });
}

Case allgather_in_place(const Setting& s) {
  const DBuffer out = make(s, replicate()), in = out.view({shard()});
  const auto raw = [=] {
    MPI_Request request;
    MPI_Iallgather(MPI_IN_PLACE, s.part(), s.sum.type, out.data(), s.part(), s.sum.type, s.raw, &request);
    wait(request);
  };
  return make_case({out}, out, {1, 1, s.whole_bytes() - s.part_bytes()}, raw, [=] { in.allgather(0, &out); });
}

Case reduce_scatter(const Setting& s) {
  const DBuffer in = make(s, partial()), out = make(s, shard());
  const auto raw = [=] {
    MPI_Request request;
    MPI_Ireduce_scatter_block(in.data(), out.data(), s.part(), s.sum.type, s.sum.op, s.raw, &request);
    wait(request);
  };
  return make_case({in}, out, {s.ranks(), 1, s.part_bytes()}, raw, [=] { in.reduce_scatter(0, &out); });
}

// MPI's own in-place form puts the result at the begin, so raw needs a scratch block, too.
Case reduce_scatter_in_place(const Setting& s) {
  const DBuffer in = make(s, partial()), out = in.view({shard()});
  const auto scratch = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(s.part_bytes()));
  const auto raw = [=] {
    MPI_Request request;
    MPI_Ireduce_scatter_block(in.data(), scratch->data(), s.part(), s.sum.type, s.sum.op, s.raw, &request);
    wait(request);
    std::memcpy(out.data(), scratch->data(), scratch->size());
  };
  return make_case({in}, out, {s.ranks(), 1, s.part_bytes(), true}, raw, [=] { in.reduce_scatter(0, &out); });
}

Case allreduce(const Setting& s) {
  const DBuffer in = make(s, partial()), out = make(s, replicate());
  const auto raw = [=] {
    MPI_Request request;
    MPI_Iallreduce(in.data(), out.data(), s.whole(), s.sum.type, s.sum.op, s.raw, &request);
    wait(request);
  };
  return make_case({in}, out, {s.ranks(), s.ranks(), s.part_bytes()}, raw, [=] { in.allreduce(0, &out); });
}

Case allreduce_in_place(const Setting& s) {
  const DBuffer in = make(s, partial()), out = in.view({replicate()});
  const auto raw = [=] {
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, out.data(), s.whole(), s.sum.type, s.sum.op, s.raw, &request);
    wait(request);
  };
  return make_case({in}, out, {s.ranks(), s.ranks(), s.part_bytes(), true}, raw, [=] { in.allreduce(0, &out); });
}

// Ranks x ranks tensors, held in blocks before and in turn afterwards: one run of elements for each pair of ranks.
Case shard_to_shard(const Setting& s) {
  const int ranks = s.ranks();
  const std::vector<layout::Shape> shapes(static_cast<std::size_t>(ranks * ranks), {s.count / ranks / ranks});
  std::vector<int> before, after;
  for (int tensor = 0; tensor < ranks * ranks; ++tensor) {
    before.push_back(tensor / ranks);
    after.push_back(tensor % ranks);
  }
  const auto layout_of = [&](const std::vector<int>& owners) {
    return std::make_shared<layout::GlobalLayout>(layout::build_tensor_atomic(shapes, ranks, owners));
  };
  const DBuffer in = make(s, shard(), layout_of(before)), out = make(s, shard(), layout_of(after));
  const std::vector<int> counts(static_cast<std::size_t>(ranks), s.part() / ranks);
  std::vector<int> offsets;
  for (int rank = 0; rank < ranks; ++rank)
    offsets.push_back(rank * counts[0]);
  const auto raw = [=] {
    MPI_Request request;
    MPI_Ialltoallv(in.data(), counts.data(), offsets.data(), s.sum.type, out.data(), counts.data(), offsets.data(),
                   s.sum.type, s.raw, &request);
    wait(request);
  };
  return make_case({in}, out, {1, 1, s.part_bytes()}, raw, [=] { in.redistribute_into(out); });
}

constexpr Collective collectives[] = {{"reduce-scatter", Kind::reduce_scatter, reduce_scatter},
                                      {"reduce-scatter in place", Kind::reduce_scatter, reduce_scatter_in_place},
                                      {"allreduce", Kind::allreduce, allreduce},
                                      {"allreduce in place", Kind::allreduce, allreduce_in_place},
                                      {"allgather", Kind::gather, allgather},
                                      {"allgather in place", Kind::gather, allgather_in_place},
                                      {"shard to shard", Kind::move, shard_to_shard}};
constexpr std::size_t num_reductions = 4;

} // namespace

std::span<const Collective> collectives_of(DType dtype) {
  return std::span(collectives).first(dtype == DType::bf16 ? num_reductions : std::size(collectives));
}

} // namespace ostraka::bench
