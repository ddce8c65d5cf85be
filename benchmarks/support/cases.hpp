// SPDX-License-Identifier: Apache-2.0
// What `collectives` compares: an operation of DBuffer with `out` given, the same nonblocking MPI call on the same
// buffers, and the work of a rank in it.
#pragma once

#include "limit.hpp"
#include "sums.hpp"
#include <ostraka/buffer/dbuffer.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ostraka::bench {

/// One operation both ways on the same buffers.
struct Case {
  Operation raw, ours;
  Work work;
  std::function<void()> fill;        ///< inputs again, as in-place operations overwrite them
  std::span<const std::byte> result; ///< on this rank
};

struct Setting {
  MPI_Comm raw; ///< of its own, as every communicator of the library
  buffer::MeshPtr mesh;
  DType dtype;
  MpiSum sum;
  std::int64_t count; ///< elements of the whole, a multiple of ranks x ranks

  int ranks() const { return mesh->size(); }
  int part() const { return static_cast<int>(count / ranks()); }
  int whole() const { return static_cast<int>(count); }
  std::int64_t part_bytes() const { return part() * size_of(dtype); }
  std::int64_t whole_bytes() const { return count * size_of(dtype); }
};

enum class Kind { gather, reduce_scatter, allreduce, move };

struct Collective {
  const char* name;
  Kind kind;
  Case (*make)(const Setting&);
};
/// All that `dtype` has: bf16, which MPI does not know, has reductions only.
std::span<const Collective> collectives_of(DType dtype);

} // namespace ostraka::bench
