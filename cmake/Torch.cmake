# Defines LibTorch as the target dpo::torch, and Arrow as dpo::arrow, straight from their folders. LibTorch's own
# package file is not used: if LibTorch was built with CUDA, it requires a whole CUDA toolkit, even on a machine without
# a GPU that links only the CPU part.

set(LIBTORCH "$ENV{LIBTORCH}" CACHE PATH "A libtorch folder or a Python's torch folder; empty: built without")
file(STRINGS ${PROJECT_SOURCE_DIR}/versions.env dpo_tested_torch REGEX "^TORCH_VERSION=")
string(REPLACE "TORCH_VERSION=" "" dpo_tested_torch ${dpo_tested_torch})
option(DPO_CUDA "Build the CUDA part (needs a LibTorch with CUDA; with nvcc also our own kernels, and NCCL)" OFF)
set(PYARROW "$ENV{PYARROW}" CACHE PATH "A Python's pyarrow folder; empty: built without Parquet")

if(LIBTORCH)
  foreach(file lib/libtorch_cpu.so lib/libc10.so include/ATen/core/Tensor.h)
    if(NOT EXISTS ${LIBTORCH}/${file})
      message(FATAL_ERROR "LIBTORCH=${LIBTORCH} is not a LibTorch: ${file} is not in it. "
                          "Expected: an unpacked libtorch archive, or the folder of a Python's torch.")
    endif()
  endforeach()
  add_library(dpo::torch INTERFACE IMPORTED GLOBAL)
  # LibTorch's folder also contains headers of other projects (such as another version of fmt than the one we link).
  # With -idirafter, all other headers are found first.
  target_compile_options(dpo::torch INTERFACE
    "SHELL:-idirafter \"${LIBTORCH}/include\"" "SHELL:-idirafter \"${LIBTORCH}/include/torch/csrc/api/include\"")
  # g++ 13 reports an out-of-bounds copy where LibTorch's autograd functions list their inputs.
  target_compile_options(dpo::torch INTERFACE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-stringop-overflow>")
  target_link_libraries(dpo::torch INTERFACE ${LIBTORCH}/lib/libtorch_cpu.so ${LIBTORCH}/lib/libc10.so)
  # at::parallel_for is a template in LibTorch's headers, and runs on one thread if compiled without OpenMP. It must use
  # the OpenMP library that comes with LibTorch, if there is one, and not a second one.
  file(GLOB dpo_openmp ${LIBTORCH}/lib/libgomp*.so*)
  if(NOT dpo_openmp)
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    set(dpo_openmp ${OpenMP_CXX_LIBRARIES})
  endif()
  target_compile_options(dpo::torch INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fopenmp>")
  target_link_libraries(dpo::torch INTERFACE ${dpo_openmp})
  # LibTorch's libraries find each other, so the linker need not search for them.
  target_link_options(dpo::torch INTERFACE -Wl,--allow-shlib-undefined)
endif()

# CUDA version of this build: 13 for 13.0; 0: none; -1: unknown.
set(dpo_cuda_of_build 0)
set(dpo_own_kernels OFF)
if(DPO_CUDA)
  if(NOT EXISTS "${LIBTORCH}/lib/libtorch_cuda.so")
    message(FATAL_ERROR "DPO_CUDA=ON needs a LibTorch with CUDA; LIBTORCH=${LIBTORCH} has no libtorch_cuda.so.")
  endif()
  file(STRINGS ${LIBTORCH}/include/c10/core/CachingDeviceAllocator.h dpo_device_allocator REGEX "struct C10_API DeviceAllocator")
  if(NOT dpo_device_allocator)
    message(FATAL_ERROR "DPO_CUDA=ON needs LibTorch 2.9 or newer; LIBTORCH=${LIBTORCH} is older.")
  endif()
  # No symbol refers to libtorch_cuda, but the library registers its kernels when it is loaded, so it must stay linked.
  target_link_libraries(dpo::torch INTERFACE
    -Wl,--no-as-needed ${LIBTORCH}/lib/libtorch_cuda.so ${LIBTORCH}/lib/libc10_cuda.so -Wl,--as-needed)
  set(dpo_cuda_of_build -1)
  execute_process(COMMAND ${CMAKE_READELF} -d ${LIBTORCH}/lib/libc10_cuda.so OUTPUT_VARIABLE dpo_needed ERROR_QUIET)
  if(dpo_needed MATCHES "libcudart\\.so\\.([0-9]+)")
    set(dpo_cuda_of_build ${CMAKE_MATCH_1})
  endif()

  # Without nvcc, LibTorch's operators replace our kernels, and several GPUs communicate over MPI, because LibTorch's
  # NCCL headers need those of a CUDA toolkit.
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(dpo_own_kernels ON)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES native)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    target_link_libraries(dpo::torch INTERFACE CUDA::cudart)
    find_path(DPO_NCCL_INCLUDE nccl.h HINTS ${LIBTORCH}/../nvidia/nccl/include ${CUDAToolkit_INCLUDE_DIRS})
    mark_as_advanced(DPO_NCCL_INCLUDE)
    if(DPO_NCCL_INCLUDE)
      add_library(dpo::nccl INTERFACE IMPORTED GLOBAL)
      target_compile_definitions(dpo::nccl INTERFACE USE_C10D_NCCL)
      target_compile_options(dpo::nccl INTERFACE "SHELL:-idirafter \"${DPO_NCCL_INCLUDE}\"")
    endif()
  else()
    message(WARNING "No nvcc: GPUs are used through LibTorch's operators, a little slower than with our kernels.")
  endif()
endif()

file(GLOB dpo_arrow_libraries ${PYARROW}/libarrow.so.* ${PYARROW}/libparquet.so.*)
if(PYARROW AND dpo_arrow_libraries)
  file(STRINGS ${PYARROW}/include/arrow/util/config.h dpo_arrow_version REGEX "ARROW_VERSION_STRING")
  string(REGEX MATCH "[0-9.]+" dpo_arrow_version "${dpo_arrow_version}")
  add_library(dpo::arrow INTERFACE IMPORTED GLOBAL)
  target_include_directories(dpo::arrow INTERFACE ${PYARROW}/include)
  target_link_libraries(dpo::arrow INTERFACE ${dpo_arrow_libraries})
endif()
