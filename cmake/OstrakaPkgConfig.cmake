# SPDX-License-Identifier: Apache-2.0
# ostraka.pc, ostraka-cxx.pc and ostraka-fortran.pc, which find their prefix from where they are.
set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  message(FATAL_ERROR "Ostraka: CMAKE_INSTALL_LIBDIR and CMAKE_INSTALL_INCLUDEDIR have to be relative to the prefix; found "
                      "${CMAKE_INSTALL_LIBDIR} and ${CMAKE_INSTALL_INCLUDEDIR}")
endif()
file(RELATIVE_PATH pc_up "/${pkgconfig_dir}" "/")
string(REGEX REPLACE "/$" "" pc_up "${pc_up}")
set(pc_prefix "\${pcfiledir}/${pc_up}")
set(pc_link_options "")
if(OSTRAKA_CONSUMER_LINK_OPTIONS)
  string(REPLACE "LINKER:" " -Wl," pc_link_options "${OSTRAKA_CONSUMER_LINK_OPTIONS}")
endif()
list(JOIN OSTRAKA_FEATURES " " pc_features)

set(pc_files ostraka ostraka-cxx)
if(OSTRAKA_ENABLE_FORTRAN)
  list(APPEND pc_files ostraka-fortran)
endif()
foreach(name IN LISTS pc_files)
  configure_file(cmake/${name}.pc.in "${CMAKE_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${CMAKE_BINARY_DIR}/${name}.pc" DESTINATION ${pkgconfig_dir})
endforeach()
