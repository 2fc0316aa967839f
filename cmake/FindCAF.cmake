# Finds CAF, the C++ Actor Framework, where it brings no CMake package (Debian's libcaf-dev).
#
# Components: core, io, openssl (core is always looked for).
# Targets:    CAF::core, CAF::io, CAF::openssl
# Variables:  CAF_FOUND, CAF_VERSION, CAF_INCLUDE_DIR, CAF_<component>_LIBRARY
# Hint:       CAF_ROOT, the prefix of an installation.

find_path(CAF_INCLUDE_DIR caf/config.hpp)
mark_as_advanced(CAF_INCLUDE_DIR)

set(CAF_VERSION "")
if(CAF_INCLUDE_DIR)
  # CAF_VERSION is one number, MMmmpp: 1706 is 0.17.6. Later versions keep it in build_config.hpp.
  foreach(header IN ITEMS caf/config.hpp caf/detail/build_config.hpp)
    if(EXISTS "${CAF_INCLUDE_DIR}/${header}" AND CAF_VERSION STREQUAL "")
      file(STRINGS "${CAF_INCLUDE_DIR}/${header}" caf_line REGEX "^#define CAF_VERSION [0-9]+")
      if(caf_line MATCHES "CAF_VERSION ([0-9]+)")
        math(EXPR caf_major "${CMAKE_MATCH_1} / 10000")
        math(EXPR caf_minor "${CMAKE_MATCH_1} / 100 % 100")
        math(EXPR caf_patch "${CMAKE_MATCH_1} % 100")
        set(CAF_VERSION "${caf_major}.${caf_minor}.${caf_patch}")
      endif()
    endif()
  endforeach()
endif()

set(caf_components core ${CAF_FIND_COMPONENTS})
list(REMOVE_DUPLICATES caf_components)
foreach(component IN LISTS caf_components)
  find_library(CAF_${component}_LIBRARY NAMES caf_${component} caf_${component}_static)
  mark_as_advanced(CAF_${component}_LIBRARY)
  if(CAF_INCLUDE_DIR AND CAF_${component}_LIBRARY)
    set(CAF_${component}_FOUND TRUE)
  else()
    set(CAF_${component}_FOUND FALSE)
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  CAF
  REQUIRED_VARS CAF_core_LIBRARY CAF_INCLUDE_DIR
  VERSION_VAR CAF_VERSION
  HANDLE_COMPONENTS)

if(CAF_FOUND)
  find_package(Threads QUIET)
  foreach(component IN LISTS caf_components)
    if(CAF_${component}_FOUND AND NOT TARGET CAF::${component})
      add_library(CAF::${component} UNKNOWN IMPORTED)
      set_target_properties(
        CAF::${component} PROPERTIES IMPORTED_LOCATION "${CAF_${component}_LIBRARY}"
                                     INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}")
      if(component STREQUAL "core")
        set_target_properties(CAF::core PROPERTIES INTERFACE_LINK_LIBRARIES Threads::Threads)
      else()
        set_target_properties(CAF::${component} PROPERTIES INTERFACE_LINK_LIBRARIES CAF::core)
      endif()
    endif()
  endforeach()
  if(TARGET CAF::openssl)
    set_property(TARGET CAF::openssl APPEND PROPERTY INTERFACE_LINK_LIBRARIES CAF::io)
  endif()
endif()
