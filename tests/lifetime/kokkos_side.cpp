// SPDX-License-Identifier: Apache-2.0
// A program that has Kokkos for itself.
#include "start_stop.h"

#include <Kokkos_Core.hpp>

void start_stop_kokkos_initialize() { Kokkos::initialize(Kokkos::InitializationSettings().set_disable_warnings(true)); }

void start_stop_kokkos_finalize() { Kokkos::finalize(); }
