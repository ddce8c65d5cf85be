// SPDX-License-Identifier: Apache-2.0
// Stands for format.cpp in a build without HDF5.
#include <ostraka/base/error.hpp>
#include <ostraka/checkpoint/impl/format.hpp>

namespace ostraka::checkpoint {

namespace {

[[noreturn]] void fail_absent(const std::string& path) {
  fail(Status::NOT_SUPPORTED, "checkpoint '", path,
       "': this build has no HDF5; configure Ostraka with OSTRAKA_ENABLE_HDF5=ON and HDF5");
}

} // namespace

Contents read_contents(const std::string& path) { fail_absent(path); }

void impl::write_frame(const std::string& path, Contents&) { fail_absent(path); }

} // namespace ostraka::checkpoint
