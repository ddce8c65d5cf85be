// SPDX-License-Identifier: Apache-2.0
// Regions of Kokkos Tools, by which profilers show what runs.
#pragma once

#include <ostraka/base/export.hpp>

#include <string>

namespace ostraka::runtime {

/// The region "ostraka::OPERATION SUBJECT" of the caller's thread while it lives; costs nothing unless a tool is
/// loaded.
class OSTRAKA_API Region {
public:
  Region(const char* operation, const std::string& subject);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

private:
  bool is_open_;
};

} // namespace ostraka::runtime
