# SPDX-License-Identifier: Apache-2.0
# Properties that several targets share.

add_library(ostraka_warnings INTERFACE)
target_compile_options(
  ostraka_warnings INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra>
                             $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<BOOL:${OSTRAKA_WARNINGS_AS_ERRORS}>>:-Werror>)
# GCC 12 sees overlapping copies in "text" + std::string at -O3 where there are none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(ostraka_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()

# Linking Kokkos without its compile flags, which name nvcc's architecture in a CUDA build.
add_library(ostraka_kokkos_link INTERFACE)
target_link_libraries(ostraka_kokkos_link INTERFACE $<TARGET_FILE:Kokkos::kokkoscore>)
if(Kokkos_ENABLE_CUDA)
  target_link_libraries(ostraka_kokkos_link INTERFACE CUDA::cudart)
endif()
if(Kokkos_ENABLE_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  target_link_libraries(ostraka_kokkos_link INTERFACE OpenMP::OpenMP_CXX)
endif()

# What the CUDA and NCCL sources are compiled with, and what programs with them link.
add_library(ostraka_gpu INTERFACE)
if(OSTRAKA_HAS_CUDA)
  target_include_directories(ostraka_gpu SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${OSTRAKA_NCCL_INCLUDE_DIR})
endif()
add_library(ostraka_gpu_link INTERFACE)
if(OSTRAKA_CUDA_DOUBLE)
  target_link_libraries(ostraka_gpu_link INTERFACE $<TARGET_FILE:ostraka_cuda_double>)
elseif(OSTRAKA_HAS_CUDA)
  target_link_libraries(ostraka_gpu_link INTERFACE CUDA::cudart CUDA::cuda_driver)
  if(OSTRAKA_HAS_NCCL)
    target_link_libraries(ostraka_gpu_link INTERFACE ${OSTRAKA_NCCL_LIBRARY})
  endif()
endif()

# MPI's C interface, also for C++ sources.
add_library(ostraka_mpi_interface INTERFACE)
target_link_libraries(ostraka_mpi_interface INTERFACE MPI::MPI_C)
target_compile_definitions(ostraka_mpi_interface INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)

# HDF5's C interface, where there is one.
add_library(ostraka_hdf5 INTERFACE)
if(OSTRAKA_ENABLE_HDF5)
  target_link_libraries(ostraka_hdf5 INTERFACE hdf5::hdf5)
endif()

# A CUDA Kokkos needs libcuda.so.1, which only a driver brings: let programs link where there is none.
set(OSTRAKA_CONSUMER_LINK_OPTIONS "")
if(Kokkos_ENABLE_CUDA)
  set(OSTRAKA_CONSUMER_LINK_OPTIONS "LINKER:--allow-shlib-undefined")
endif()
