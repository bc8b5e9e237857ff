# Ensures that the process has only one C++ standard library. A compiler that has only a static one would add a second
# copy to the shared one that LibTorch and others use. Objects created by one would be destroyed by the other, which
# crashes in streams and at exit. For such a compiler, the system's shared library is linked before its own.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so
                OUTPUT_VARIABLE dpo_compilers_own OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT IS_ABSOLUTE "${dpo_compilers_own}")
  find_library(DPO_SHARED_STDCXX NAMES libstdc++.so.6 PATHS /lib /usr/lib /lib64 /usr/lib64
               PATH_SUFFIXES ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu)
  if(NOT DPO_SHARED_STDCXX)
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} has no shared libstdc++, and the system has none either: "
                        "choose another compiler with CXX=...")
  endif()
  link_libraries(${DPO_SHARED_STDCXX})
endif()
