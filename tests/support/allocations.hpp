// SPDX-License-Identifier: Apache-2.0
// How often this program asked the system for memory. A program that includes it is one source file away from that:
// support/allocations.cpp.
#pragma once

#include <cstdint>

namespace ostraka::test {

/// Calls of operator new since the start. Always 0 where a sanitizer has its own.
std::int64_t allocations();
/// Whether they are counted.
bool counts_allocations();

} // namespace ostraka::test
