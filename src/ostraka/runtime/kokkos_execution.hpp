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

/// Runs functor(i) for i in [0, count) on the stream of `execution`. Asynchronous on devices.
template <class Functor>
void parallel_for(const char* label, const Execution& execution, std::int64_t count, const Functor& functor) {
  using Index = Kokkos::IndexType<std::int64_t>;
  if (count == 0)
    return;
#ifdef KOKKOS_ENABLE_CUDA
  if (execution.device == Device::cuda) {
    const Kokkos::Cuda space(static_cast<cudaStream_t>(execution.native));
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

/// Joins what functor(i, value) adds for i in [0, count) into `result`, which is the functor's identity for count 0.
/// The order depends on nothing but count and the number of threads. `functor` has value_type, init and join.
/// Synchronous.
template <class Functor>
void parallel_reduce(const char* label, const Execution& execution, std::int64_t count, const Functor& functor,
                     typename Functor::value_type& result) {
  using Index = Kokkos::IndexType<std::int64_t>;
#ifdef KOKKOS_ENABLE_CUDA
  if (execution.device == Device::cuda) {
    const Kokkos::Cuda space(static_cast<cudaStream_t>(execution.native));
    Kokkos::parallel_reduce(label, Kokkos::RangePolicy<Kokkos::Cuda, Index>(space, 0, count), functor, result);
    space.fence(label);
    return;
  }
#endif
#ifdef OSTRAKA_CUDA_DOUBLE
  if (execution.device == Device::cuda) {
    functor.init(result);
    return cuda_double::run(label, execution.native, [&] {
      for (std::int64_t i = 0; i < count; ++i)
        functor(i, result);
    });
  }
#endif
  expect(execution.device == Device::host, Status::NOT_SUPPORTED, label, ": this build has no CUDA back end");
  using Host = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_reduce(label, Kokkos::RangePolicy<Host, Index>(0, count), functor, result);
  Host().fence(label);
}

} // namespace ostraka::runtime
