# `cmake --install`: public headers, whatever targets were exported under the name forebayTargets, and the package
# configuration that makes `find_package(forebay)` work. A target joins with
#   install(TARGETS name EXPORT forebayTargets …)
# and then says so with set_property(GLOBAL PROPERTY FOREBAY_HAS_TARGETS ON).

include(CMakePackageConfigHelpers)

if(EXISTS ${PROJECT_SOURCE_DIR}/include/forebay)
  install(DIRECTORY include/forebay DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/forebay)

get_property(has_targets GLOBAL PROPERTY FOREBAY_HAS_TARGETS)
if(has_targets)
  install(EXPORT forebayTargets NAMESPACE forebay:: DESTINATION ${FOREBAY_PACKAGE_INSTALL_DIR})
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/forebayConfig.cmake.in
  ${PROJECT_BINARY_DIR}/forebayConfig.cmake
  INSTALL_DESTINATION ${FOREBAY_PACKAGE_INSTALL_DIR}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR FOREBAY_PLUGIN_INSTALL_DIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/forebayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/forebayConfig.cmake ${PROJECT_BINARY_DIR}/forebayConfigVersion.cmake
  DESTINATION ${FOREBAY_PACKAGE_INSTALL_DIR})
