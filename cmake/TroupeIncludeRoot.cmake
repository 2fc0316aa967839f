# Makes the include root: ${TROUPE_INCLUDE_ROOT}/troupe/<folder> is a link to <source>/<folder>, so
# that #include <troupe/core/tensor.hpp> has one spelling here and in an installed tree. Where links
# are impossible, each header gets a one-line header that forwards to it.

function(troupe_forward_headers folder)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
       "${PROJECT_SOURCE_DIR}/${folder}/*.hpp")
  foreach(header IN LISTS headers)
    file(CONFIGURE OUTPUT "${TROUPE_INCLUDE_ROOT}/troupe/${header}"
         CONTENT "#pragma once\n#include \"${PROJECT_SOURCE_DIR}/${header}\"\n")
  endforeach()
endfunction()

function(troupe_make_include_root)
  set(root "${TROUPE_INCLUDE_ROOT}/troupe")
  file(MAKE_DIRECTORY "${root}")
  foreach(folder IN LISTS TROUPE_FOLDERS ITEMS sim)
    set(source "${PROJECT_SOURCE_DIR}/${folder}")
    if(NOT IS_DIRECTORY "${source}")
      continue()
    endif()
    file(REAL_PATH "${root}/${folder}" present)
    file(REAL_PATH "${source}" wanted)
    if(IS_SYMLINK "${root}/${folder}" AND present STREQUAL wanted)
      continue()
    endif()
    if(IS_SYMLINK "${root}/${folder}")
      file(REMOVE "${root}/${folder}")
    endif()
    file(RELATIVE_PATH target "${root}" "${source}")
    file(CREATE_LINK "${target}" "${root}/${folder}" RESULT failed SYMBOLIC)
    if(failed)
      troupe_forward_headers(${folder})
    endif()
  endforeach()
  # The one header that stands above the folders; its text lives with the public API.
  set(umbrella "#pragma once\n\n/// The whole public API.\n#include <troupe/strategies/troupe.hpp>\n")
  file(CONFIGURE OUTPUT "${root}/troupe.hpp" CONTENT "${umbrella}")
endfunction()
