// SPDX-License-Identifier: Apache-2.0
// What the library asks of MPI: mpi_calls.cpp stands between them and forwards everything but collectives whose buffers
// overlap.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ostraka::test {

struct MpiCalls {
  std::map<std::string, int> number; ///< by name
  std::vector<std::int64_t> counts;  ///< of every call, in order
  std::int64_t largest = 0;          ///< of all counts, displacements and elements of a message
  std::int64_t largest_receive = 0;  ///< bytes
  std::int64_t received = 0;         ///< bytes of all messages
  /// [communicator, as MPI_Comm_c2f numbers it]: its collectives and their counts, in the order of their starts.
  std::map<int, std::vector<std::string>> collectives;
  std::string failing; ///< this one returns an error
  int after = 0;       ///< and before that, so many succeed

  int of(const std::string& name) const {
    const auto found = number.find(name);
    return found == number.end() ? 0 : found->second;
  }
};

/// Since the last assignment of MpiCalls{}.
inline MpiCalls mpi_calls;

} // namespace ostraka::test
