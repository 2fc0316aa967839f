# Writes OUTPUT, a source that defines troupe::sim::commit_text for the commit of SOURCE; run at build
# time with `cmake -P`. The file is touched only when its text changes, so that nothing is compiled or
# linked again while the commit stays.
set(commit "unknown")
find_program(GIT_PROGRAM git)
if(GIT_PROGRAM)
  execute_process(COMMAND "${GIT_PROGRAM}" rev-parse --verify --short=12 HEAD WORKING_DIRECTORY "${SOURCE}"
                  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  execute_process(COMMAND "${GIT_PROGRAM}" rev-parse --show-toplevel WORKING_DIRECTORY "${SOURCE}"
                  OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE}" source)
  # a tree unpacked inside somebody else's repository has no commit of its own
  if(NOT failed AND top STREQUAL source)
    set(commit "${found}")
    execute_process(COMMAND "${GIT_PROGRAM}" status --porcelain --untracked-files=no
                    WORKING_DIRECTORY "${SOURCE}" OUTPUT_VARIABLE changed ERROR_QUIET)
    if(changed)
      string(APPEND commit "-dirty")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
"#include <troupe/sim/tools/failure_file.hpp>

namespace troupe::sim {

std::string commit_text() { return \"${commit}\"; }

} // namespace troupe::sim
")
