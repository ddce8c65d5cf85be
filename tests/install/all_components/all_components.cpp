// SPDX-License-Identifier: Apache-2.0
// The C and the C++ interface in one process share one library.
#include <ostraka/ostraka.h>
#include <ostraka/runtime/lifetime.hpp>

#include <mpi.h>

#include <cstdio>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const bool started = ostraka_initialize() == OSTRAKA_OK && ostraka::runtime::is_initialized();
  const bool stopped = ostraka_finalize() == OSTRAKA_OK && !ostraka::runtime::is_initialized();
  if (started && stopped)
    std::printf("Ostraka %s\n", ostraka_version_string());
  MPI_Finalize();
  return started && stopped ? 0 : 1;
}
