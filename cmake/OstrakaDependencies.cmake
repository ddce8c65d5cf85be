# SPDX-License-Identifier: Apache-2.0
# What the library needs: MPI's C interface (the C++ one is obsolete), one shared Kokkos, JSON headers, for
# checkpoints any HDF5, and for the tools CLI11 (all private).
find_package(MPI REQUIRED COMPONENTS C)
find_package(nlohmann_json 3.10 REQUIRED)

# separable_compilation keeps Kokkos from putting its compiler launcher before every command of the project.
find_package(Kokkos 4.5 QUIET COMPONENTS separable_compilation)
if(NOT Kokkos_FOUND)
  message(FATAL_ERROR "Ostraka: no Kokkos >= 4.5 was found. scripts/setup builds one and says where; then pass "
                      "-DKokkos_ROOT=FOLDER (or that of your own, built shared).")
endif()
if(OSTRAKA_ENABLE_HDF5)
  find_package(HDF5 1.10.2 QUIET COMPONENTS C)
  if(NOT HDF5_FOUND)
    message(FATAL_ERROR "Ostraka: no HDF5 >= 1.10.2 was found, which checkpoints need. scripts/setup installs Debian's; "
                        "name your own with -DHDF5_ROOT=FOLDER, or build without checkpoints: -DOSTRAKA_ENABLE_HDF5=OFF.")
  endif()
endif()
if(OSTRAKA_BUILD_TOOLS)
  find_package(CLI11 2.1 QUIET)
  if(NOT CLI11_FOUND)
    message(FATAL_ERROR "Ostraka: no CLI11 >= 2.1 was found, which the tools need. scripts/setup installs Debian's; name "
                        "your own with -DCLI11_ROOT=FOLDER, or build without tools: -DOSTRAKA_BUILD_TOOLS=OFF.")
  endif()
endif()

# A double of CUDA and NCCL for tests on machines without GPUs: their headers, our own symbols behind them, kernels on
# the host.
option(OSTRAKA_CUDA_DOUBLE "Build the CUDA and NCCL sources against a double of both (tests only)" OFF)
if(OSTRAKA_CUDA_DOUBLE AND Kokkos_ENABLE_CUDA)
  message(FATAL_ERROR "Ostraka: OSTRAKA_CUDA_DOUBLE needs a Kokkos without CUDA")
endif()
set(OSTRAKA_HAS_CUDA OFF)
set(OSTRAKA_HAS_NCCL OFF)
if(Kokkos_ENABLE_CUDA OR OSTRAKA_CUDA_DOUBLE)
  set(OSTRAKA_HAS_CUDA ON)
  find_package(CUDAToolkit REQUIRED)
  find_path(OSTRAKA_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV NCCL_HOME PATH_SUFFIXES include)
  find_library(OSTRAKA_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ENV NCCL_HOME PATH_SUFFIXES lib lib64)
  set(found_nccl OFF)
  if(OSTRAKA_NCCL_INCLUDE_DIR AND (OSTRAKA_NCCL_LIBRARY OR OSTRAKA_CUDA_DOUBLE))
    set(found_nccl ON)
  endif()
  option(OSTRAKA_ENABLE_NCCL "Collectives of GPU memory by NCCL; without it they go through hosts" ON)
  if(OSTRAKA_ENABLE_NCCL AND NOT found_nccl)
    message(FATAL_ERROR "Ostraka: no nccl.h and libnccl were found, which collectives of GPU memory need. Name yours by the "
                        "environment variable NCCL_HOME, or let them go through hosts: -DOSTRAKA_ENABLE_NCCL=OFF.")
  endif()
  set(OSTRAKA_HAS_NCCL ${OSTRAKA_ENABLE_NCCL})
endif()
