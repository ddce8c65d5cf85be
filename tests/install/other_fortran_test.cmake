# SPDX-License-Identifier: Apache-2.0
# Another Fortran compiler on the installed C library: builds the installed Fortran sources, the tests of the Fortran module
# and the examples, and runs them on two ranks. scripts/test --full only; without, the output says so and the test is skipped.
cmake_minimum_required(VERSION 3.25)
include("${SETTINGS}")
if(NOT "$ENV{OSTRAKA_TEST_FULL}" STREQUAL "1")
  message(STATUS "skipped: scripts/test --full runs it, with ${OTHER_FORTRAN}")
  return()
endif()

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status STREQUAL "0")
    string(LENGTH "${text}" length)
    if(length GREATER 6000)
      math(EXPR first "${length} - 6000")
      string(SUBSTRING "${text}" ${first} -1 text)
    endif()
    message(FATAL_ERROR "${what} failed (${status}):\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

set(work ${WORK_DIR}_other_fortran)
file(REMOVE_RECURSE ${work})
run("installing" ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work}/prefix)
string(REPLACE ";" "\\;" launch "${LAUNCH}")
run("configuring with ${OTHER_FORTRAN}" ${CMAKE_COMMAND} -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}
    -S ${CMAKE_CURRENT_LIST_DIR}/other_fortran -B ${work}/build -DCMAKE_PREFIX_PATH=${work}/prefix
    -DMPI_EXECUTABLE_SUFFIX=${MPI_SUFFIX} -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_Fortran_COMPILER=${OTHER_FORTRAN}
    -DOSTRAKA_SOURCE=${SOURCE_DIR} -DOSTRAKA_FORTRAN_SOURCES=${work}/prefix/${DATADIR}/ostraka/fortran
    -DWITH_HDF5=${WITH_HDF5} "-DLAUNCH=${launch}")
string(REGEX MATCH "The Fortran compiler identification is [^\n]*" compiler "${output}")
run("building" ${CMAKE_COMMAND} --build ${work}/build --parallel 2)
run("its tests" ${CMAKE_CTEST_COMMAND} --test-dir ${work}/build --output-on-failure)
string(REGEX MATCH "[^\n]*tests passed[^\n]*" result "${output}")
message(STATUS "${compiler}; ${result}")
file(REMOVE_RECURSE ${work})
