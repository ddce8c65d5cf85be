// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/memory/arena.hpp>
#include <ostraka/runtime/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ostraka::memory {

/// An arena in the memory of this process's GPU. Memory changes hands in the order of the compute stream: before it is
/// released, that stream waits for whoever uses it on another one; whoever takes it uses it on the compute stream, or
/// behind what that has queued. What trim() gives back must not be in use on another stream. Throws NOT_SUPPORTED where
/// there is no GPU or the build has no CUDA.
OSTRAKA_API std::shared_ptr<Arena> make_device_arena();

/// make_host_arena() or that.
OSTRAKA_API std::shared_ptr<Arena> make_arena(runtime::Device device);

/// For arenas of GPUs: fills `bytes` with NaN of every floating type, in the order of the compute stream, and waits
/// until nothing that is queued there uses memory that goes. What fails is a warning: memory is released while objects
/// end.
OSTRAKA_API void poison_on_device(std::byte* data, std::int64_t bytes) noexcept;
OSTRAKA_API void wait_for_device() noexcept;

} // namespace ostraka::memory
