# Defines one target per folder of src/. A folder names the folders that it may use. Its unit test links the whole
# folder with only those, so a dependency that the design does not allow fails to link.

function(dpo_compile_options target)
  # -Wno-restrict: g++ 12 reports an overlap in every "literal" + std::string (its bug 105651). -Wno-subobject-linkage:
  # g++ mistakes a source file in a unity build for a header. -Wno-psabi: on ARM it reports a change of the ABI in GCC
  # 10.
  # -Werror=switch: a switch over an enumeration must have a case for each enumerator, or a default.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror=switch $<$<BOOL:${DPO_WERROR}>:-Werror>>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict -Wno-subobject-linkage -Wno-psabi>)
  if(DPO_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${DPO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${DPO_SANITIZE})
  endif()
endfunction()

# Adds the sanitizers' options to a test program.
function(dpo_sanitizer_options target)
  if(DPO_SANITIZE)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/sanitizers.cpp)
  endif()
endfunction()

# dpo_library(NAME SOURCES a.cpp ... USES dpo_base ...)
# Precompiles the headers of a folder that uses dpo::torch.
function(dpo_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${ARG_USES})
  dpo_compile_options(${name})
  if(dpo::torch IN_LIST ARG_USES)
    target_precompile_headers(${name} REUSE_FROM dpo_torch_headers)
  endif()
endfunction()

if(TARGET dpo::torch)
  # Precompiles the headers that most users of LibTorch include, once for all folders.
  add_library(dpo_torch_headers STATIC ${PROJECT_SOURCE_DIR}/cmake/torch_headers.cpp)
  target_link_libraries(dpo_torch_headers PUBLIC dpo::torch)
  dpo_compile_options(dpo_torch_headers)
  target_precompile_headers(dpo_torch_headers PRIVATE ${PROJECT_SOURCE_DIR}/cmake/torch_headers.h)
endif()

# dpo_embed(VARIABLE FOLDER folder NAMESPACE dpo::x HEADER x/y.h) sets VARIABLE to a source file that embeds every file
# of a folder into the program. Adding, editing or removing one rebuilds it.
function(dpo_embed variable)
  cmake_parse_arguments(ARG "" "FOLDER;NAMESPACE;HEADER" "" ${ARGN})
  file(GLOB_RECURSE names RELATIVE ${ARG_FOLDER} CONFIGURE_DEPENDS ${ARG_FOLDER}/*)
  list(SORT names)
  list(TRANSFORM names PREPEND ${ARG_FOLDER}/ OUTPUT_VARIABLE files)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded_files.cpp)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} "-DFOLDER=${ARG_FOLDER}" "-DFILES=${names}" -DNAMESPACE=${ARG_NAMESPACE} -DHEADER=${ARG_HEADER}
            -DOUTPUT=${source} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    COMMENT "Embedding ${ARG_FOLDER}"
    VERBATIM)
  set(${variable} ${source} PARENT_SCOPE)
endfunction()

# dpo_program(NAME SOURCES main.cpp USES ...) adds an executable in the build folder itself. In a package it is in bin/
# next to lib/, which has its libraries. LibTorch and CUDA are next to the package, where pip installs them.
function(dpo_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  set(folders $ORIGIN/../lib $ORIGIN/../../torch/lib)
  if(dpo_cuda_of_build GREATER 0)
    list(APPEND folders $ORIGIN/../../nvidia/cu${dpo_cuda_of_build}/lib)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_USES})
  dpo_compile_options(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
    INSTALL_RPATH "${folders}")
  install(TARGETS ${name} RUNTIME DESTINATION bin)
  add_dependencies(dpo_programs ${name})
endfunction()

add_custom_target(dpo_unit_tests)

# dpo_test(FOLDER SOURCES a_test.cpp ...) adds the unit tests of src/FOLDER as one executable.
function(dpo_test folder)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  string(REPLACE "/" "_" suffix ${folder})
  set(name dpo_${suffix}_test)
  add_executable(${name} ${ARG_SOURCES} $<TARGET_OBJECTS:dpo_test_folder>)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,dpo_${suffix}> GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE DPO_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  dpo_compile_options(${name})
  # The code of a test runs once, so optimizing it takes longer than running it. The tested code is in the library, as
  # it is shipped.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  dpo_sanitizer_options(${name})
  get_target_property(used dpo_${suffix} LINK_LIBRARIES)
  if(dpo::torch IN_LIST used)
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit/seed.cpp)
    target_precompile_headers(${name} REUSE_FROM dpo_torch_headers)
  endif()
  add_test(NAME unit.${suffix} COMMAND ${name})
  dpo_test_properties(unit.${suffix} LABEL unit)
  add_dependencies(dpo_unit_tests ${name})
endfunction()

# Sets the properties of every test. The models of tests are tiny, so each process computes with one thread: more
# threads would only wait for each other. A test does not see the user's device files and trackers, and downloads
# nothing. PROCESSORS is the number of processes that it runs at once. LONG excludes it from the short list (./run
# test). The time-out ends only tests that hang, since a busy machine must not fail a test.
function(dpo_test_properties name)
  cmake_parse_arguments(ARG "LONG" "LABEL;TIMEOUT;PROCESSORS" "COMMAND" ${ARGN})
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 3600)
  endif()
  if(ARG_LONG)
    list(APPEND ARG_LABEL long)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" PROCESSORS ${ARG_PROCESSORS} TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "OMP_NUM_THREADS=1;DPO_PROGRAM=${PROJECT_BINARY_DIR}/dpo;DPO_SOURCE_DIR=${PROJECT_SOURCE_DIR};XDG_CONFIG_HOME=${PROJECT_BINARY_DIR}/no_config;HF_HUB_OFFLINE=1;MLFLOW_TRACKING_URI=;WANDB_MODE=disabled;$<$<TARGET_EXISTS:dpo_faults>:DPO_FAULTS=$<TARGET_FILE:dpo_faults>>")
endfunction()

# dpo_tests_first(NAME...) starts tests that take a minute or more first, so that none runs alone at the end.
function(dpo_tests_first)
  set_tests_properties(${ARGN} PROPERTIES COST 100)
endfunction()

# dpo_test_of_ranks(NAME) runs one such test at a time, since the processes of two would compete for the cores. They are
# started first, so that they do not run alone at the end.
function(dpo_test_of_ranks name)
  set_tests_properties(${name} PROPERTIES RESOURCE_LOCK ranks)
  dpo_tests_first(${name})
endfunction()

# dpo_script_test(NAME LABEL label [LONG] [PROCESSORS n] [TIMEOUT s] COMMAND ...) adds a test that is a script. The
# script finds the program in the variable DPO_PROGRAM. If it cannot run here, it exits with status 77, and ctest lists
# it as skipped. It runs all its cases if DPO_TEST_ALL is set in the environment, otherwise only some of each kind.
function(dpo_script_test name)
  cmake_parse_arguments(ARG "LONG" "LABEL;TIMEOUT;PROCESSORS" "COMMAND" ${ARGN})
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  dpo_test_properties(${name} ${ARGN})
endfunction()

# dpo_python_test(NAME script.py ARGUMENT... [LONG] [PROCESSORS n] [TIMEOUT s]) adds a script test that runs with the
# Python of the test environment.
function(dpo_python_test name script)
  cmake_parse_arguments(ARG "LONG" "PROCESSORS;TIMEOUT" "" ${ARGN})
  set(properties "")
  foreach(property PROCESSORS TIMEOUT)
    if(ARG_${property})
      list(APPEND properties ${property} ${ARG_${property}})
    endif()
  endforeach()
  if(ARG_LONG)
    list(APPEND properties LONG)
  endif()
  dpo_script_test(${name} LABEL parity ${properties}
    COMMAND ${PROJECT_SOURCE_DIR}/tests/python ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARG_UNPARSED_ARGUMENTS})
endfunction()
