# The third-party libraries, as imported targets. They are defined here, by a header and library names, instead of
# by find_package: these libraries' package files differ between distributions (names of targets), and CMake 4
# rejects some. The folder that `./run deps` creates is searched first, then the system.

set(DPO_DEPS "$ENV{DPO_DEPS}" CACHE PATH "A folder made by ./run deps; empty: the system's libraries")
if(DPO_DEPS)
  list(PREPEND CMAKE_PREFIX_PATH ${DPO_DEPS})
endif()

# dpo_dependency(TARGET HEADER some/header.h [LIBRARIES name ...] NAME name PACKAGE debian-package)
# Everything that is not found is reported in one message.
set(dpo_missing "")
function(dpo_dependency target)
  cmake_parse_arguments(ARG "" "HEADER;NAME;PACKAGE" "LIBRARIES" ${ARGN})
  string(MAKE_C_IDENTIFIER ${target} id)
  add_library(${target} INTERFACE IMPORTED GLOBAL)

  set(missing "")
  find_path(${id}_INCLUDE ${ARG_HEADER})
  mark_as_advanced(${id}_INCLUDE)
  if(${id}_INCLUDE)
    target_include_directories(${target} INTERFACE ${${id}_INCLUDE})
  else()
    list(APPEND missing "header ${ARG_HEADER}")
  endif()
  foreach(name ${ARG_LIBRARIES})
    find_library(${id}_${name} ${name})
    mark_as_advanced(${id}_${name})
    if(${id}_${name})
      target_link_libraries(${target} INTERFACE ${${id}_${name}})
    else()
      list(APPEND missing "library ${name}")
    endif()
  endforeach()
  if(missing)
    list(JOIN missing ", " missing)
    string(APPEND dpo_missing "  ${ARG_NAME} (${missing}; on Debian and Ubuntu: ${ARG_PACKAGE})\n")
    set(dpo_missing "${dpo_missing}" PARENT_SCOPE)
  endif()
endfunction()

find_package(Threads REQUIRED)
dpo_dependency(fmt::fmt HEADER fmt/format.h LIBRARIES fmt NAME fmt PACKAGE libfmt-dev)
dpo_dependency(yaml-cpp HEADER yaml-cpp/yaml.h LIBRARIES yaml-cpp NAME yaml-cpp PACKAGE libyaml-cpp-dev)
dpo_dependency(nlohmann_json::nlohmann_json HEADER nlohmann/json.hpp NAME "JSON for Modern C++" PACKAGE nlohmann-json3-dev)
dpo_dependency(CLI11::CLI11 HEADER CLI/CLI.hpp NAME CLI11 PACKAGE libcli11-dev)
dpo_dependency(dpo::zlib HEADER zlib.h LIBRARIES z NAME zlib PACKAGE zlib1g-dev)
dpo_dependency(dpo::zstd HEADER zstd.h LIBRARIES zstd NAME Zstandard PACKAGE libzstd-dev)
dpo_dependency(dpo::pcre2 HEADER pcre2.h LIBRARIES pcre2-8 NAME PCRE2 PACKAGE libpcre2-dev)
dpo_dependency(dpo::utf8proc HEADER utf8proc.h LIBRARIES utf8proc NAME utf8proc PACKAGE libutf8proc-dev)
dpo_dependency(dpo::sentencepiece HEADER sentencepiece_processor.h LIBRARIES sentencepiece NAME SentencePiece PACKAGE libsentencepiece-dev)
dpo_dependency(dpo::crypto HEADER openssl/evp.h LIBRARIES crypto NAME OpenSSL PACKAGE libssl-dev)

# Open MPI, if it is installed; mpicc knows its folders. Without it, ranks on CPUs cannot communicate.
find_program(DPO_MPICC mpicc)
mark_as_advanced(DPO_MPICC)
if(DPO_MPICC)
  foreach(kind incdirs libdirs)
    execute_process(COMMAND ${DPO_MPICC} --showme:${kind} OUTPUT_VARIABLE dpo_mpi_${kind} OUTPUT_STRIP_TRAILING_WHITESPACE
                    ERROR_QUIET)
    separate_arguments(dpo_mpi_${kind})
  endforeach()
  find_path(DPO_MPI_INCLUDE mpi.h HINTS ${dpo_mpi_incdirs} NO_DEFAULT_PATH)
  find_library(DPO_MPI_LIBRARY mpi HINTS ${dpo_mpi_libdirs} NO_DEFAULT_PATH)
  mark_as_advanced(DPO_MPI_INCLUDE DPO_MPI_LIBRARY)
  if(DPO_MPI_INCLUDE AND DPO_MPI_LIBRARY)
    add_library(dpo::mpi INTERFACE IMPORTED GLOBAL)
    target_include_directories(dpo::mpi INTERFACE ${DPO_MPI_INCLUDE})
    target_compile_definitions(dpo::mpi INTERFACE OMPI_SKIP_MPICXX)
    target_link_libraries(dpo::mpi INTERFACE ${DPO_MPI_LIBRARY})
  endif()
endif()

# libcurl, if it is installed: without it nothing is downloaded from the Hugging Face hub. Never with DPO_DEPS: a libcurl of
# the system brings its own OpenSSL, and the folder is for machines without network.
if(NOT DPO_DEPS)
  find_path(DPO_CURL_INCLUDE curl/curl.h)
  find_library(DPO_CURL_LIBRARY curl)
  mark_as_advanced(DPO_CURL_INCLUDE DPO_CURL_LIBRARY)
  if(DPO_CURL_INCLUDE AND DPO_CURL_LIBRARY)
    add_library(dpo::curl INTERFACE IMPORTED GLOBAL)
    target_include_directories(dpo::curl INTERFACE ${DPO_CURL_INCLUDE})
    target_link_libraries(dpo::curl INTERFACE ${DPO_CURL_LIBRARY})
  else()
    message(WARNING "libcurl was not found (on Debian and Ubuntu: libcurl4-openssl-dev): this build downloads nothing from the "
                    "Hugging Face hub.")
  endif()
endif()

if(DPO_TESTS)
  dpo_dependency(GTest::gtest_main HEADER gtest/gtest.h LIBRARIES gtest_main gtest NAME GoogleTest PACKAGE libgtest-dev)
  target_link_libraries(GTest::gtest_main INTERFACE Threads::Threads)
endif()

if(dpo_missing)
  message(FATAL_ERROR "Libraries that dpo is built with were not found:\n\n${dpo_missing}\n"
                      "Install their development files with this system's package manager (./run build does it where "
                      "there is apt-get), or set DPO_DEPS=DIR to a folder that ./run deps made.")
endif()
