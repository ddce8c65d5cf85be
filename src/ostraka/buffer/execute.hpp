// SPDX-License-Identifier: Apache-2.0
// Carries out planned redistributions asynchronously on a stream.
#pragma once

#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/runtime/stream.hpp>

namespace ostraka::buffer {

/// Queues what turns `from` into `to` (same mesh, layout and type; `to` may share storage with `from`). Both storages
/// must be allocated when the work runs. Collective over the axes that are gathered or reduced.
OSTRAKA_API void redistribute(const DBuffer& from, const DBuffer& to, runtime::Stream& stream,
                              const mesh::Communicators& communicators);

/// Queues `to` = `from` in the type of `to` (same layout and range).
OSTRAKA_API void cast(const DBuffer& from, const DBuffer& to, runtime::Stream& stream);

/// Queues `to` += factor * `from` (same layout and range; types may differ).
OSTRAKA_API void accumulate(double factor, const DBuffer& from, const DBuffer& to, runtime::Stream& stream);

/// Queues zeros into the whole local range, or into its padding only.
OSTRAKA_API void fill_zero(const DBuffer& data, runtime::Stream& stream);
OSTRAKA_API void clear_padding(const DBuffer& data, runtime::Stream& stream);

/// Queues zeros into this rank's elements of tensor `index`.
OSTRAKA_API void clear_tensor(const DBuffer& data, int index, runtime::Stream& stream);

} // namespace ostraka::buffer
