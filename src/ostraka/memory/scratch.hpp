// SPDX-License-Identifier: Apache-2.0
// Memory for intermediates of queued work, used by one operation after the other.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/memory/storage.hpp>
#include <ostraka/runtime/stream.hpp>

#include <cstdint>
#include <memory>

namespace ostraka::memory {

/// Taken when the first operation needs it and kept for the next ones, so that a steady step allocates nothing and no
/// completion decides where memory is placed: only a larger need, or another arena, replaces it.
class OSTRAKA_API Scratch {
public:
  /// While one exists, work that is queued on `stream` may use storage(), from which the work of later users is kept
  /// off.
  class OSTRAKA_API Use {
  public:
    Use(Scratch& scratch, const std::shared_ptr<Arena>& arena, std::int64_t bytes, runtime::Stream& stream);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    /// At least the bytes that were asked for.
    const std::shared_ptr<Storage>& storage() const { return scratch_.storage_; }

  private:
    Scratch& scratch_;
    runtime::Stream& stream_;
  };

  /// Gives the memory back once its last user is complete. Rethrows what that one failed with, keeping the memory.
  void release();

private:
  std::shared_ptr<Storage> storage_;
  runtime::Event last_use_;
};

} // namespace ostraka::memory
