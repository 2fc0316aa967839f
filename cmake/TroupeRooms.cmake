# Rooms: the sources of one room are compiled as one unit (TROUPE_UNITY), so that CAF, Asio and the
# standard library are parsed once a room and not once a file. Names in anonymous namespaces must
# differ within a room; `-DTROUPE_UNITY=OFF` compiles every file alone, as ./dev lint does with clang.
#
#   troupe_rooms(TARGET FOLDER ROOM: NAME... [ROOM: NAME...]...)
#
# FOLDER is relative to the root; NAME is a source without its ending, relative to FOLDER, or a pattern.
# Call it where the target is made. A source that no room names is compiled alone.
#
#   troupe_folder_rooms(TARGET FOLDER [ALONE NAME...])
#
# Each folder below FOLDER is a room: its sources and those of its detail/ become the unit FOLDER_ROOM, but for
# those named here, which are compiled alone.

option(TROUPE_UNITY "Compile the sources of a room as one unit" ON)

function(troupe_rooms target folder)
  if(NOT TROUPE_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set(room "")
  foreach(word IN LISTS ARGN)
    if(word MATCHES "^(.+):$")
      set(room "${CMAKE_MATCH_1}")
      continue()
    endif()
    file(GLOB sources "${PROJECT_SOURCE_DIR}/${folder}/${word}.cpp")
    if(NOT sources)
      message(FATAL_ERROR "${folder}: the room ${room} names ${word}.cpp, which is not there")
    endif()
    set_source_files_properties(${sources} PROPERTIES UNITY_GROUP "${room}")
  endforeach()
endfunction()

function(troupe_folder_rooms target folder)
  if(NOT TROUPE_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  file(GLOB sources RELATIVE "${PROJECT_SOURCE_DIR}/${folder}" "${PROJECT_SOURCE_DIR}/${folder}/*/*.cpp"
       "${PROJECT_SOURCE_DIR}/${folder}/*/detail/*.cpp")
  cmake_parse_arguments(PARSE_ARGV 2 but "" "" ALONE)
  foreach(source IN LISTS sources)
    string(REGEX REPLACE "[.]cpp$" "" name "${source}")
    if(name IN_LIST but_ALONE)
      continue()
    endif()
    string(REGEX REPLACE "/.*" "" room "${source}")
    set_source_files_properties("${PROJECT_SOURCE_DIR}/${folder}/${source}" PROPERTIES UNITY_GROUP
                                "${folder}_${room}")
  endforeach()
endfunction()
