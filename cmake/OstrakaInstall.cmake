# SPDX-License-Identifier: Apache-2.0
# Installation and the package configuration. One export set per language, so that C and Fortran consumers need neither
# Kokkos nor a C++ compiler.
include(CMakePackageConfigHelpers)
include(OstrakaMpiSonames)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Ostraka")
ostraka_mpi_sonames(OSTRAKA_MPI_SONAMES ${MPI_C_LIB_NAMES})

get_target_property(kokkos_location Kokkos::kokkoscore LOCATION)
get_filename_component(kokkos_lib_dir "${kokkos_location}" DIRECTORY)
set_target_properties(ostraka ostraka_c PROPERTIES INSTALL_RPATH "$ORIGIN;${kokkos_lib_dir}"
                                                   INSTALL_RPATH_USE_LINK_PATH ON)

install(TARGETS ostraka EXPORT OstrakaCXX LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ostraka_kokkos EXPORT OstrakaKokkos)
install(TARGETS ostraka_c EXPORT OstrakaC LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY src/ostraka DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp" PATTERN impl EXCLUDE)
install(DIRECTORY capi/include/ostraka DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(components C CXX Kokkos)

if(OSTRAKA_ENABLE_FORTRAN)
  set_target_properties(ostraka_fortran PROPERTIES INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS ostraka_fortran EXPORT OstrakaFortran LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY "${CMAKE_BINARY_DIR}/fortran/modules/" DESTINATION ${OSTRAKA_INSTALL_MODULEDIR}
          FILES_MATCHING PATTERN "*.mod")
  list(APPEND components Fortran)
endif()
# For other Fortran compilers, also where this build has none: a project of its own on the C library.
install(DIRECTORY fortran/ DESTINATION ${CMAKE_INSTALL_DATADIR}/ostraka/fortran)

# The same files serve consumers of the prefix and of the build tree (-DOstraka_DIR=BUILD).
foreach(component IN LISTS components)
  install(EXPORT Ostraka${component} NAMESPACE Ostraka:: DESTINATION ${package_dir})
  export(EXPORT Ostraka${component} NAMESPACE Ostraka:: FILE "${CMAKE_BINARY_DIR}/Ostraka${component}.cmake")
endforeach()
configure_package_config_file(cmake/OstrakaConfig.cmake.in "${CMAKE_BINARY_DIR}/OstrakaConfig.cmake"
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file("${CMAKE_BINARY_DIR}/OstrakaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
configure_file(cmake/OstrakaMpiSonames.cmake "${CMAKE_BINARY_DIR}/OstrakaMpiSonames.cmake" COPYONLY)
install(FILES "${CMAKE_BINARY_DIR}/OstrakaConfig.cmake" "${CMAKE_BINARY_DIR}/OstrakaConfigVersion.cmake"
              "${CMAKE_BINARY_DIR}/OstrakaMpiSonames.cmake" DESTINATION ${package_dir})
include(OstrakaPkgConfig)
