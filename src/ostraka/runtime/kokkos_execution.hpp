// SPDX-License-Identifier: Apache-2.0
// Turns an Execution into a Kokkos execution space. Included by kernel files only: it needs Kokkos (and nvcc in a CUDA
// build).
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/runtime/execution.hpp>

#include <Kokkos_Core.hpp>

#ifdef OSTRAKA_CUDA_DOUBLE
#include <ostraka/runtime/cuda_double.hpp>
#endif

#include <cstdint>

namespace ostraka::runtime {

#ifdef KOKKOS_ENABLE_CUDA
/// Kokkos's instance of a cudaStream_t; one as long as the stream is used here.
const Kokkos::Cuda& instance_of(void* stream);
#endif

/// Runs functor(i) for i in [0, count) on the stream of `execution`. Asynchronous on devices.
template <class Functor>
void parallel_for(const char* label, const Execution& execution, std::int64_t count, const Functor& functor) {
  using Index = Kokkos::IndexType<std::int64_t>;
  if (count == 0)
    return;
#ifdef KOKKOS_ENABLE_CUDA
  if (execution.device == Device::cuda) {
    const Kokkos::Cuda& space = instance_of(execution.native);
    Kokkos::parallel_for(label, Kokkos::RangePolicy<Kokkos::Cuda, Index>(space, 0, count), functor);
    return;
  }
#endif
#ifdef OSTRAKA_CUDA_DOUBLE
  if (execution.device == Device::cuda)
    return cuda_double::launch(label, execution.native, [=] {
      for (std::int64_t i = 0; i < count; ++i)
        functor(i);
    });
#endif
  expect(execution.device == Device::host, Status::NOT_SUPPORTED, label, ": this build has no CUDA back end");
  using Host = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Host, Index>(0, count), functor);
  Host().fence(label);
}

/// *result = what functor(i, value) adds for i in [0, count), joined, which is the functor's identity for count 0. The
/// order depends on nothing but count and the number of threads. `functor` has value_type, init and join. Asynchronous
/// on devices, where `result` is pinned memory of the host.
template <class Functor>
void parallel_reduce(const char* label, const Execution& execution, std::int64_t count, const Functor& functor,
                     typename Functor::value_type* result) {
  using Index = Kokkos::IndexType<std::int64_t>;
#ifdef KOKKOS_ENABLE_CUDA
  if (execution.device == Device::cuda) {
    using Place = Kokkos::View<typename Functor::value_type, Kokkos::CudaHostPinnedSpace,
                               Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    const Kokkos::RangePolicy<Kokkos::Cuda, Index> range(instance_of(execution.native), 0, count);
    Kokkos::parallel_reduce(label, range, functor, Place(result));
    return;
  }
#endif
#ifdef OSTRAKA_CUDA_DOUBLE
  if (execution.device == Device::cuda)
    return cuda_double::launch(label, execution.native, [=] {
      functor.init(*result);
      for (std::int64_t i = 0; i < count; ++i)
        functor(i, *result);
    });
#endif
  expect(execution.device == Device::host, Status::NOT_SUPPORTED, label, ": this build has no CUDA back end");
  using Host = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_reduce(label, Kokkos::RangePolicy<Host, Index>(0, count), functor, *result);
  Host().fence(label);
}

} // namespace ostraka::runtime
