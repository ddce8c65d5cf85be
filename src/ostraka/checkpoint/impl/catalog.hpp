// SPDX-License-Identifier: Apache-2.0
// The tensors of a content and where this rank has its part of each.
#pragma once

#include <ostraka/checkpoint/checkpoint.hpp>
#include <ostraka/checkpoint/contents.hpp>
#include <ostraka/comm/communicator.hpp>
#include <ostraka/layout/range.hpp>
#include <ostraka/runtime/stream.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace ostraka::checkpoint::impl {

/// A tensor in memory. Ranges count elements from the tensor's first.
struct Source {
  Tensor tensor; ///< its type in memory; without offset
  runtime::Device device = runtime::Device::host;
  std::byte* data = nullptr; ///< the first element of `own`
  layout::Range own;         ///< what this rank holds
  layout::Range written;     ///< what it writes, and checks, for all
  int state = -1;            ///< index in Content::states; -1: none

  std::byte* at(std::int64_t element) const { return data + (element - own.begin) * size_of(tensor.dtype); }
};

struct Catalog {
  std::vector<Source> sources;
  std::string layout_report;

  /// Whether files cannot be read and written where all of them are.
  bool has_device_memory() const {
    return std::any_of(sources.begin(), sources.end(),
                       [](const Source& source) { return source.device != runtime::Device::host; });
  }
};

/// The communicator of all ranks of the content's mesh. INVALID_ARGUMENT for a content without tensors.
std::shared_ptr<comm::Communicator> group_of(const Content& content);

/// Main weights, then states by name, fields and, if wanted, user values. Local. `operation` is for messages. Throws
/// for what cannot be saved or loaded, as save() and load() say.
Catalog make_catalog(const Content& content, bool with_user, const std::string& operation);

/// Throws RANKS_DISAGREE on all ranks naming the first tensor that differs, or the path. Collective.
void agree_on_catalog(comm::Communicator& group, const Catalog& catalog, const std::string& path,
                      const std::string& operation);

} // namespace ostraka::checkpoint::impl
