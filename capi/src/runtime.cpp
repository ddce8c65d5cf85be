// SPDX-License-Identifier: Apache-2.0
#include "wall.hpp"
#include <ostraka/base/version.hpp>
#include <ostraka/mesh/device_mesh.hpp>
#include <ostraka/runtime.h>
#include <ostraka/runtime/lifetime.hpp>

using ostraka::capi::wall;

extern "C" {

ostraka_status_t ostraka_initialize(void) {
  return wall(__func__, [] {
    ostraka::mesh::require_mpi("initialize");
    ostraka::runtime::initialize();
  });
}

ostraka_status_t ostraka_finalize(void) {
  return wall(__func__, [] { ostraka::runtime::finalize(); });
}

int32_t ostraka_is_initialized(void) { return ostraka::runtime::is_initialized() ? 1 : 0; }

const char* ostraka_version_string(void) { return OSTRAKA_VERSION_STRING; }
}
