# `cmake --install`: public headers, the package configuration that makes `find_package(forebay)` work, and the file
# that makes `pkg-config forebay` work.

include(CMakePackageConfigHelpers)

install(DIRECTORY include/forebay DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
configure_file(include/forebay/version.h.in ${PROJECT_BINARY_DIR}/include/forebay/version.h @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/include/forebay/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/forebay)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/forebay)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/forebayConfig.cmake.in
  ${PROJECT_BINARY_DIR}/forebayConfig.cmake
  INSTALL_DESTINATION ${FOREBAY_PACKAGE_INSTALL_DIR}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR FOREBAY_PLUGIN_INSTALL_DIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/forebayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/forebayConfig.cmake ${PROJECT_BINARY_DIR}/forebayConfigVersion.cmake
  DESTINATION ${FOREBAY_PACKAGE_INSTALL_DIR})

# The file finds the prefix from where it lies, so `cmake --install --prefix` may choose another one.
set(FOREBAY_PC_INSTALL_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH forebay_pc_up /prefix/${FOREBAY_PC_INSTALL_DIR} /prefix)
configure_file(${CMAKE_CURRENT_LIST_DIR}/forebay.pc.in ${PROJECT_BINARY_DIR}/forebay.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/forebay.pc DESTINATION ${FOREBAY_PC_INSTALL_DIR})
