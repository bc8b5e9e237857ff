# One target per folder of src/. A folder names what it may use; its unit test links the whole of the
# folder with only that, so a dependency that the design does not allow fails to link.

function(dpo_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror)
  if(DPO_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${DPO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${DPO_SANITIZE})
  endif()
endfunction()

# dpo_library(NAME SOURCES a.cpp ... USES dpo_base ...)
function(dpo_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${ARG_USES})
  dpo_compile_options(${name})
endfunction()

# dpo_test(FOLDER SOURCES a_test.cpp ...): the unit tests of src/FOLDER, one executable.
function(dpo_test folder)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  string(REPLACE "/" "_" suffix ${folder})
  set(name dpo_${suffix}_test)
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,dpo_${suffix}> dpo_${suffix} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE DPO_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  dpo_compile_options(${name})
  add_test(NAME unit.${suffix} COMMAND ${name})
  set_tests_properties(unit.${suffix} PROPERTIES LABELS unit)
endfunction()
