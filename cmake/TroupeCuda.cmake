# CUDA, where nvcc is found. Sets TROUPE_HAS_CUDA and TROUPE_HAS_NCCL and defines
#   troupe_add_cuda(TARGET)             the CUDA half of the library
#   troupe_cuda_sources(TARGET FILE...) .cu files of any target, for the same architectures
#
# Without nvcc nothing is missing but GPUs. The runtime is linked in; the driver, cuBLAS and NCCL are
# loaded when a GPU is first used, so that the same program starts where they are not. nvcc is called
# by rules of our own: CMake's CUDA language links a test program, which a partial toolkit (nvcc
# without cuobjdump, say) cannot always do, and its architectures would be a second list.

set(TROUPE_CUDA AUTO CACHE STRING "Build for GPUs where nvcc is found: ON, OFF, or AUTO (where a GPU is, too)")
set(TROUPE_CUDA_ARCHITECTURES "80;90" CACHE STRING "Compute capabilities, each as machine code; the last also as PTX")

set(TROUPE_HAS_CUDA OFF)
set(TROUPE_HAS_NCCL OFF)
set(troupe_wants_cuda ${TROUPE_CUDA})
if(TROUPE_CUDA STREQUAL "AUTO")
  # Kernels for a card that is not there cost a newcomer half a minute; ./dev test asks for them.
  set(troupe_wants_cuda OFF)
  if(EXISTS /dev/nvidiactl)
    set(troupe_wants_cuda ON)
  endif()
endif()
if(troupe_wants_cuda)
  find_program(TROUPE_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin)
  mark_as_advanced(TROUPE_NVCC)
endif()
if(troupe_wants_cuda AND TROUPE_NVCC)
  get_filename_component(cuda_root "${TROUPE_NVCC}" REALPATH)
  get_filename_component(cuda_root "${cuda_root}/../.." REALPATH)
  find_path(TROUPE_CUDA_INCLUDE_DIR cuda_runtime.h
            HINTS "${cuda_root}/include" "${cuda_root}/targets/x86_64-linux/include")
  find_library(TROUPE_CUDART_STATIC cudart_static
               HINTS "${cuda_root}/lib64" "${cuda_root}/lib" "${cuda_root}/targets/x86_64-linux/lib")
  find_path(TROUPE_NCCL_INCLUDE_DIR nccl.h HINTS "${TROUPE_CUDA_INCLUDE_DIR}")
  find_path(TROUPE_CUBLAS_INCLUDE_DIR cublas_v2.h HINTS "${TROUPE_CUDA_INCLUDE_DIR}")
  mark_as_advanced(TROUPE_CUDA_INCLUDE_DIR TROUPE_CUDART_STATIC TROUPE_NCCL_INCLUDE_DIR
                   TROUPE_CUBLAS_INCLUDE_DIR)
  if(TROUPE_CUDA_INCLUDE_DIR AND TROUPE_CUDART_STATIC AND TROUPE_CUBLAS_INCLUDE_DIR)
    set(TROUPE_HAS_CUDA ON)
  else()
    message(STATUS "nvcc is there, but not all of cuda_runtime.h, cublas_v2.h and cudart_static: no GPUs")
  endif()
  if(TROUPE_HAS_CUDA AND TROUPE_NCCL_INCLUDE_DIR)
    set(TROUPE_HAS_NCCL ON)
  endif()
endif()

# One more architecture than the card's own costs build time and size alone.
set(TROUPE_NVCC_FLAGS -std=c++20 -O3 --extended-lambda --fmad=false -Xcompiler=-Wall,-Wextra,-fPIC)
foreach(arch IN LISTS TROUPE_CUDA_ARCHITECTURES)
  list(APPEND TROUPE_NVCC_FLAGS "--generate-code=arch=compute_${arch},code=sm_${arch}")
  set(troupe_last_arch "${arch}")
endforeach()
list(APPEND TROUPE_NVCC_FLAGS "--generate-code=arch=compute_${troupe_last_arch},code=compute_${troupe_last_arch}")
if(TROUPE_WERROR)
  list(APPEND TROUPE_NVCC_FLAGS -Werror=all-warnings)
endif()

# Compiles .cu files into `target`. Products are exact sums of rounded products (--fmad=false): the
# same bits as on the CPU.
function(troupe_cuda_sources target)
  foreach(source IN LISTS ARGN)
    get_filename_component(path "${source}" ABSOLUTE)
    file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}" "${path}")
    set(object "${PROJECT_BINARY_DIR}/cuda/${name}.o")
    get_filename_component(folder "${object}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    add_custom_command(
      OUTPUT "${object}"
      COMMAND ${TROUPE_CCACHE} "${TROUPE_NVCC}" ${TROUPE_NVCC_FLAGS} "-I${TROUPE_INCLUDE_ROOT}" -MD -MF "${object}.d" -MT
              "${object}" -c "${path}" -o "${object}"
      DEPENDS "${path}"
      DEPFILE "${object}.d"
      COMMENT "Building CUDA object ${name}.o"
      VERBATIM)
    target_sources(${target} PRIVATE "${object}")
    set_property(GLOBAL APPEND PROPERTY TROUPE_CUDA_OBJECTS "${object}")
    set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  endforeach()
endfunction()

function(troupe_add_cuda target)
  if(NOT TROUPE_HAS_CUDA)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernels/*.cu")
  troupe_cuda_sources(${target} ${sources})
  # Only these know of CUDA: the rest is compiled alike with and without it.
  set(cuda_definitions TROUPE_HAS_CUDA)
  if(TROUPE_HAS_NCCL)
    list(APPEND cuda_definitions TROUPE_HAS_NCCL)
  endif()
  set(users cuda_backend.cpp ops.cpp ops_nn.cpp ops_updates.cpp detail/matrix_products.cpp detail/nccl.cpp
      detail/ops_support.cpp)
  list(TRANSFORM users PREPEND "${PROJECT_SOURCE_DIR}/device/")
  set_source_files_properties(${users} PROPERTIES COMPILE_DEFINITIONS "${cuda_definitions}" COMPILE_OPTIONS
                                                  "-isystem;${TROUPE_CUDA_INCLUDE_DIR}")
  # Where cuBLAS and NCCL lie, should the loader not know; never a part of the installed package.
  get_filename_component(lib "${TROUPE_CUDART_STATIC}" DIRECTORY)
  set_property(
    SOURCE "${PROJECT_SOURCE_DIR}/device/detail/shared_library.cpp"
    APPEND
    PROPERTY COMPILE_DEFINITIONS "TROUPE_CUDA_LIBRARY_DIR=\"${lib}\"")
  # Users of the installed library link the runtime too.
  target_link_libraries(${target} PUBLIC "${TROUPE_CUDART_STATIC}" ${CMAKE_DL_LIBS} rt)
endfunction()
