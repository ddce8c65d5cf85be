# SPDX-License-Identifier: Apache-2.0
# Options are never turned off silently: configures with options that cannot be had and expects an error that names them.
cmake_minimum_required(VERSION 3.25)

# configure(ARGUMENTS ...): sets status and output.
function(configure)
  file(REMOVE_RECURSE ${BINARY_DIR})
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${BINARY_DIR} -DKokkos_DIR=${Kokkos_DIR}
                          -DOSTRAKA_BUILD_TESTS=OFF -DOSTRAKA_BUILD_EXAMPLES=OFF
                          -DOSTRAKA_BUILD_TOOLS=OFF ${ARGN}
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  set(status "${status}" PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect words)
  string(FIND "${output}" "${words}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "expected '${words}' in:\n${output}")
  endif()
endfunction()

function(expect_refused option words)
  configure(${ARGN})
  if(status STREQUAL "0")
    message(FATAL_ERROR "${ARGN}: expected a refusal")
  endif()
  expect("${option}")
  expect("${words}")
endfunction()

configure(-DOSTRAKA_ENABLE_FORTRAN=OFF)
if(NOT status STREQUAL "0")
  message(FATAL_ERROR "without Fortran it does not configure:\n${output}")
endif()
expect("OSTRAKA_ENABLE_FORTRAN OFF Build the Fortran module") # the summary
if(CUDA)
  expect_refused(OSTRAKA_ENABLE_CUDA "built with CUDA" -DOSTRAKA_ENABLE_CUDA=OFF)
else()
  expect("OSTRAKA_ENABLE_NCCL OFF Collectives of GPU memory by NCCL; ON by default in builds with CUDA")
  expect_refused(OSTRAKA_ENABLE_CUDA "built without CUDA" -DOSTRAKA_ENABLE_CUDA=ON)
  expect_refused(OSTRAKA_ENABLE_NCCL "has no NCCL" -DOSTRAKA_ENABLE_NCCL=ON)
  find_program(nvcc nvcc)
  if(nvcc) # with CUDA it is not left out because it was not found
    expect_refused(OSTRAKA_ENABLE_NCCL "no nccl.h and libnccl were found" -DOSTRAKA_CUDA_DOUBLE=ON -DOSTRAKA_NCCL_INCLUDE_DIR=)
    configure(-DOSTRAKA_CUDA_DOUBLE=ON -DOSTRAKA_NCCL_INCLUDE_DIR= -DOSTRAKA_ENABLE_NCCL=OFF)
    if(NOT status STREQUAL "0")
      message(FATAL_ERROR "with CUDA and without NCCL it does not configure:\n${output}")
    endif()
  endif()
endif()
expect_refused(Fortran "no_such_compiler" -DCMAKE_Fortran_COMPILER=no_such_compiler)
expect_refused(Kokkos "scripts/setup builds one" -DKokkos_DIR= -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=ON)
file(REMOVE_RECURSE ${BINARY_DIR})
