# SPDX-License-Identifier: Apache-2.0
# What follows from the dependencies. ON means required: nothing is turned off because something was not found.
set(cuda_default OFF)
if(Kokkos_ENABLE_CUDA)
  set(cuda_default ON)
endif()
option(OSTRAKA_ENABLE_CUDA "Memory and kernels on NVIDIA GPUs; follows Kokkos" ${cuda_default})
option(OSTRAKA_ENABLE_NCCL "Collectives of GPU memory by NCCL; ON by default in builds with CUDA" OFF)

# ostraka_require(OPTION HAVE WHAT): an option that is ON without what it needs is an error.
function(ostraka_require option have what)
  if(${option} AND NOT ${have})
    message(FATAL_ERROR "Ostraka: ${option} is ON, but ${what}; turn it off with -D${option}=OFF")
  endif()
endfunction()
ostraka_require(OSTRAKA_ENABLE_CUDA Kokkos_ENABLE_CUDA "the Kokkos in ${Kokkos_DIR} was built without CUDA")
ostraka_require(OSTRAKA_ENABLE_NCCL OSTRAKA_HAS_NCCL "this version or build has no NCCL")
if(Kokkos_ENABLE_CUDA AND NOT OSTRAKA_ENABLE_CUDA)
  message(FATAL_ERROR "Ostraka: OSTRAKA_ENABLE_CUDA is OFF, but the Kokkos in ${Kokkos_DIR} was built with CUDA; turn it "
                      "on, or name a Kokkos without CUDA by -DKokkos_ROOT=FOLDER")
endif()

# Features that find_package(Ostraka COMPONENTS ...), pkg-config --variable=features and the summary name.
set(OSTRAKA_FEATURES MPI)
foreach(feature IN ITEMS CUDA NCCL HDF5)
  if(OSTRAKA_ENABLE_${feature})
    list(APPEND OSTRAKA_FEATURES ${feature})
  endif()
endforeach()

# ostraka_print_summary(): every option with its one sentence.
function(ostraka_print_summary)
  message(STATUS "Ostraka ${PROJECT_VERSION}: MPI ${MPI_C_VERSION} by ${MPI_C_COMPILER}; Kokkos ${Kokkos_VERSION} in "
                 "${Kokkos_DIR}, devices ${Kokkos_DEVICES}")
  get_cmake_property(names CACHE_VARIABLES)
  foreach(name IN LISTS names)
    get_property(type CACHE ${name} PROPERTY TYPE)
    get_property(meaning CACHE ${name} PROPERTY HELPSTRING)
    if(name MATCHES "^OSTRAKA_" AND type STREQUAL "BOOL")
      string(SUBSTRING "${name}                                " 0 32 column)
      string(SUBSTRING "${${name}}   " 0 4 value)
      message(STATUS "  ${column} ${value} ${meaning}")
    endif()
  endforeach()
endfunction()
