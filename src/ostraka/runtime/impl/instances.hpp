// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ostraka::runtime::impl {

/// Lets Kokkos's instance of a cudaStream_t go, which is made with its first kernel. Called before the stream ends.
void forget_instance(void* stream) noexcept;

} // namespace ostraka::runtime::impl
