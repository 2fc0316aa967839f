# What `cmake --install` puts down: the headers from the source folders (without detail/), the
# library, the program, and the package that find_package(troupe) reads.

include(CMakePackageConfigHelpers)

foreach(folder IN LISTS TROUPE_FOLDERS)
  install(
    DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}/"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/troupe/${folder}"
    FILES_MATCHING
    PATTERN "*.hpp"
    PATTERN "detail" EXCLUDE)
endforeach()
install(FILES "${TROUPE_INCLUDE_ROOT}/troupe/troupe.hpp"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/troupe")

if(TARGET troupe_sim)
  install(
    DIRECTORY "${PROJECT_SOURCE_DIR}/sim/"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/troupe/sim"
    FILES_MATCHING
    PATTERN "*.hpp"
    PATTERN "detail" EXCLUDE
    PATTERN "caf017" EXCLUDE
    PATTERN "scenarios" EXCLUDE # of troupe-sim alone; users write theirs with sim/scenario.hpp
    PATTERN "tools" EXCLUDE)
  # A set of its own: who only links troupe::troupe needs no Boost.Context.
  install(TARGETS troupe_sim EXPORT troupe-sim-targets
          ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT troupe-sim-targets NAMESPACE troupe:: FILE troupeSimTargets.cmake
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/troupe")
  install(TARGETS troupe-sim RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

install(TARGETS troupe_library EXPORT troupe-targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET troupe)
  install(TARGETS troupe RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/troupe")
install(EXPORT troupe-targets NAMESPACE troupe:: FILE troupeTargets.cmake DESTINATION "${package_dir}")
configure_package_config_file(cmake/troupeConfig.cmake.in troupeConfig.cmake
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(troupeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/troupeConfig.cmake"
              "${PROJECT_BINARY_DIR}/troupeConfigVersion.cmake" cmake/FindCAF.cmake
        DESTINATION "${package_dir}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
