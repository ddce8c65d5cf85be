# SPDX-License-Identifier: Apache-2.0
# Registers tests with a label (the room), a number of ranks and a time budget.

set(OSTRAKA_TEST_MPI_FLAGS "" CACHE STRING "Flags for mpiexec beside the number of ranks")
set(MPI_DETERMINE_LIBRARY_VERSION TRUE)
find_package(MPI REQUIRED COMPONENTS C)
# Ranks share cores with other tests, so blocking MPI calls must not spin.
set(ostraka_test_environment "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_mpi_yield_when_idle=1"
                             "OSTRAKA_TIMEOUT_S=60")
set(ostraka_launch_flags ${OSTRAKA_TEST_MPI_FLAGS})
if(MPI_C_LIBRARY_VERSION_STRING MATCHES "Open MPI")
  list(APPEND ostraka_launch_flags --oversubscribe --bind-to none)
endif()
set(OSTRAKA_TEST_MAX_RANKS "" CACHE STRING "Tests on more ranks are left out; empty: the cores with MPICH, else no limit")
set(ostraka_max_ranks "${OSTRAKA_TEST_MAX_RANKS}")
set(ostraka_bound_ranks 0)
if(MPI_C_LIBRARY_VERSION_STRING MATCHES "MPICH")
  # Its ranks poll and never make way for each other: two on one core need 8 ms for a barrier, not 2 us. So there are at
  # most as many as cores, and those that need all cores are bound to one each, or Linux puts them together under load.
  include(ProcessorCount)
  ProcessorCount(ostraka_bound_ranks)
  if(ostraka_max_ranks STREQUAL "")
    set(ostraka_max_ranks ${ostraka_bound_ranks})
  endif()
endif()
if(OSTRAKA_SANITIZED)
  # Open MPI leaks from plug-ins that are unloaded; our own leaks are still found.
  list(APPEND ostraka_test_environment
       "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0"
       "ASAN_OPTIONS=fast_unwind_on_malloc=0" "UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1")
endif()

# ostraka_launch(RESULT RANKS): the command that starts a program on that many ranks.
function(ostraka_launch result ranks)
  set(command ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${ostraka_launch_flags})
  if(ranks EQUAL ostraka_bound_ranks)
    list(APPEND command -bind-to hwthread)
  endif()
  set(${result} ${command} PARENT_SCOPE)
endfunction()

# ostraka_may_run(RESULT NAME RANKS): whether a test on that many ranks is registered; counts those that are not.
function(ostraka_may_run result name ranks)
  set(${result} ON PARENT_SCOPE)
  if(NOT ostraka_max_ranks STREQUAL "" AND ranks GREATER ostraka_max_ranks)
    set(${result} OFF PARENT_SCOPE)
    set_property(GLOBAL APPEND PROPERTY ostraka_tests_left_out ${name})
  endif()
endfunction()

# Never silent: scripts/test repeats this line.
function(ostraka_report_tests_left_out)
  get_property(names GLOBAL PROPERTY ostraka_tests_left_out)
  list(LENGTH names number)
  if(number GREATER 0)
    list(JOIN names " " names)
    message(STATUS "Tests left out: ${number} with more than ${ostraka_max_ranks} ranks (${names})")
  endif()
endfunction()

# ostraka_set_test(NAME ROOM RANKS SECONDS): properties of a registered test.
function(ostraka_set_test name room ranks seconds)
  if(OSTRAKA_SANITIZED)
    math(EXPR seconds "${seconds} * 10") # about eight times slower
  endif()
  set_tests_properties(
    ${name} PROPERTIES LABELS ${room} PROCESSORS ${ranks} TIMEOUT ${seconds}
                       ENVIRONMENT "${ostraka_test_environment};OSTRAKA_TEST_RANKS=${ranks}")
endfunction()

# ostraka_run_ranks(NAME ROOM room RANKS 1 2 .. SECONDS s [ENVIRONMENT A=b ..] COMMAND ...): one ctest entry per number of
# ranks.
function(ostraka_run_ranks name)
  cmake_parse_arguments(arg "" "ROOM;SECONDS" "RANKS;ENVIRONMENT;COMMAND" ${ARGN})
  foreach(ranks IN LISTS arg_RANKS)
    ostraka_may_run(may_run ${name}_np${ranks} ${ranks})
    if(may_run)
      ostraka_launch(launch ${ranks})
      add_test(NAME ${name}_np${ranks} COMMAND ${launch} ${arg_COMMAND})
      ostraka_set_test(${name}_np${ranks} ${arg_ROOM} ${ranks} ${arg_SECONDS})
      set_property(TEST ${name}_np${ranks} APPEND PROPERTY ENVIRONMENT ${arg_ENVIRONMENT})
    endif()
  endforeach()
endfunction()

# ostraka_add_pure_test(room SOURCES ...): GoogleTest on the tier without MPI and Kokkos.
function(ostraka_add_pure_test room)
  cmake_parse_arguments(arg "" "SECONDS" "SOURCES" ${ARGN})
  set(name test_${room})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ostraka_pure ostraka_warnings GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  add_test(NAME ${room} COMMAND ${name})
  ostraka_set_test(${room} ${room} 1 ${arg_SECONDS})
endfunction()

# ostraka_add_mpi_test(name [ROOM room] RANKS 1 2 .. SECONDS s [ENVIRONMENT A=b ..] SOURCES ...): GoogleTest on the whole
# core, once per number of ranks. ROOM only where it is not the name.
function(ostraka_add_mpi_test room)
  cmake_parse_arguments(arg "" "ROOM;SECONDS" "RANKS;ENVIRONMENT;SOURCES" ${ARGN})
  if(NOT arg_ROOM)
    set(arg_ROOM ${room})
  endif()
  set(name test_${room})
  add_executable(${name} ${arg_SOURCES} $<TARGET_OBJECTS:ostraka_test_main>)
  target_link_libraries(${name} PRIVATE ostraka_core ostraka_warnings GTest::gtest)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  ostraka_run_ranks(${room} ROOM ${arg_ROOM} RANKS ${arg_RANKS} SECONDS ${arg_SECONDS} ENVIRONMENT ${arg_ENVIRONMENT}
                    COMMAND $<TARGET_FILE:${name}>)
endfunction()
