// SPDX-License-Identifier: Apache-2.0
// Kokkos's instances of CUDA streams: each takes memory and waits for the device when it is made, so they are kept.
#include <ostraka/runtime/impl/instances.hpp>
#include <ostraka/runtime/kokkos_execution.hpp>

#ifdef KOKKOS_ENABLE_CUDA

#include <map>

namespace ostraka::runtime {

namespace {

std::map<void*, Kokkos::Cuda>& instances() {
  static auto& all = *[] {
    Kokkos::push_finalize_hook([] { instances().clear(); }); // none may outlive Kokkos
    return new std::map<void*, Kokkos::Cuda>;
  }();
  return all;
}

} // namespace

const Kokkos::Cuda& instance_of(void* stream) {
  const auto found = instances().find(stream);
  return found != instances().end()
             ? found->second
             : instances().emplace(stream, Kokkos::Cuda(static_cast<cudaStream_t>(stream))).first->second;
}

void impl::forget_instance(void* stream) noexcept {
  if (Kokkos::is_initialized())
    instances().erase(stream);
}

} // namespace ostraka::runtime

#else

void ostraka::runtime::impl::forget_instance(void*) noexcept {}

#endif
