// SPDX-License-Identifier: Apache-2.0
// Carries out planned redistributions asynchronously on a stream.
#pragma once

#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/runtime/stream.hpp>

namespace ostraka::buffer {

/// Queues what turns `from` into `to` (same mesh, layout and type) as plan.hpp says. Intermediates lie inside `to`
/// where they fit; reductions of several axes take one scratch buffer from the arena of `to`, which `communicators`
/// keep for the next ones. `from` keeps its values unless `to` shares memory with it, which it may only with equal
/// elements at equal places (INVALID_ARGUMENT otherwise); then everything happens in place. Both storages must be
/// allocated when the work runs. Collective over the axes that are gathered or reduced.
OSTRAKA_API void redistribute(const DBuffer& from, const DBuffer& to, runtime::Stream& stream,
                              const mesh::Communicators& communicators);

/// The same where results go to a consumer, element k being element k of `to`: while they are in the cache where the
/// last step is a reduce-scatter within a node. `to` is undefined afterwards if it is, else the result.
OSTRAKA_API void redistribute(const DBuffer& from, const DBuffer& to, runtime::Stream& stream,
                              const mesh::Communicators& communicators, comm::Consumer consumer);

/// The same with scratch of the caller instead of that of the communicators.
OSTRAKA_API void redistribute(const DBuffer& from, const DBuffer& to, runtime::Stream& stream,
                              const mesh::Communicators& communicators, memory::Scratch& scratch);

/// Queues the copy of all tensors of `from` into `to`, which has the same tensors and type in any layout and placements
/// on a mesh of the same ranks; padding of `to` is left as it is. `all` is a communicator of all ranks of the mesh.
/// Collective over the mesh. Throws SHAPE_MISMATCH naming the tensor, TYPE_MISMATCH, NOT_SUPPORTED for Partial and
/// INVALID_ARGUMENT for other ranks or memory that overlaps.
OSTRAKA_API void transfer(const DBuffer& from, const DBuffer& to, runtime::Stream& stream, comm::Communicator& all);

/// Queues `to` = `from` in the type of `to` (same layout and range). They may be the same memory in the same type, else
/// they must not overlap (INVALID_ARGUMENT).
OSTRAKA_API void cast(const DBuffer& from, const DBuffer& to, runtime::Stream& stream);

/// The same for this rank's elements of tensor `index` only.
OSTRAKA_API void cast_tensor(const DBuffer& from, const DBuffer& to, int index, runtime::Stream& stream);

/// Queues `to` += factor * `from` (same layout and range; types may differ).
OSTRAKA_API void accumulate(double factor, const DBuffer& from, const DBuffer& to, runtime::Stream& stream);

/// Queues `data` = factor * `data`.
OSTRAKA_API void scale(double factor, const DBuffer& data, runtime::Stream& stream);

/// Queues zeros into the whole local range, or into its padding only.
OSTRAKA_API void fill_zero(const DBuffer& data, runtime::Stream& stream);
OSTRAKA_API void clear_padding(const DBuffer& data, runtime::Stream& stream);

/// Queues zeros into this rank's elements of tensor `index`.
OSTRAKA_API void clear_tensor(const DBuffer& data, int index, runtime::Stream& stream);

} // namespace ostraka::buffer
