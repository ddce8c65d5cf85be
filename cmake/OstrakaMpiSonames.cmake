# SPDX-License-Identifier: Apache-2.0
# Which MPI was found, by the names that the loader sees. Also installed, since consumers compare theirs with ours.

# ostraka_mpi_sonames(RESULT ${MPI_C_LIB_NAMES} ..): like libmpi.so.40; empty where the compiler links MPI by itself.
function(ostraka_mpi_sonames result)
  set(found "")
  foreach(name IN LISTS ARGN)
    if(name MATCHES "^mpi" AND EXISTS "${MPI_${name}_LIBRARY}")
      file(REAL_PATH "${MPI_${name}_LIBRARY}" path)
      get_filename_component(file "${path}" NAME)
      if(file MATCHES "^lib[^.]+\\.so\\.[0-9]+")
        list(APPEND found "${CMAKE_MATCH_0}")
      endif()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES found)
  set(${result} "${found}" PARENT_SCOPE)
endfunction()
