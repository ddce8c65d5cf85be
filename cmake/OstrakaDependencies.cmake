# SPDX-License-Identifier: Apache-2.0
# What the library needs: MPI's C interface (the C++ one is obsolete), one shared Kokkos, and JSON headers (private).
find_package(MPI REQUIRED COMPONENTS C)
find_package(nlohmann_json 3.10 REQUIRED)

# separable_compilation keeps Kokkos from putting its compiler launcher before every command of the project.
find_package(Kokkos 4.5 REQUIRED COMPONENTS separable_compilation)
if(Kokkos_ENABLE_CUDA)
  find_package(CUDAToolkit REQUIRED)
endif()
