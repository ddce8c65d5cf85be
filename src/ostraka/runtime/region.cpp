// SPDX-License-Identifier: Apache-2.0
#include <ostraka/runtime/region.hpp>

#include <Kokkos_Core.hpp>

namespace ostraka::runtime {

Region::Region(const char* operation, const std::string& subject)
    : is_open_(Kokkos::Profiling::profileLibraryLoaded()) {
  if (is_open_)
    Kokkos::Profiling::pushRegion(std::string("ostraka::") + operation + " " + subject);
}

Region::~Region() {
  if (is_open_)
    Kokkos::Profiling::popRegion();
}

} // namespace ostraka::runtime
