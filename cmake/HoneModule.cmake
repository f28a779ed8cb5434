# How modules, tests and benchmarks of hone are declared: one function each, so that flags live in one place.
#
#   hone_module(base SOURCES status.cpp ... DEPS fmt::fmt)      static library hone_base
#   hone_test(kernels_ir SOURCES text_test.cpp DEPS hone_kernels [LABELS unit])   gtest binary, each test a ctest test

include(GNUInstallDirs)

# -ffp-contract=off: no compiler may fuse a multiply and an add that the source did not (numerics are part of the problem).
add_library(hone_flags INTERFACE)
target_compile_features(hone_flags INTERFACE cxx_std_20)
target_compile_options(hone_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Werror=return-type -Werror=switch
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> -Wno-missing-field-initializers -ffp-contract=off -fno-math-errno -fvisibility=hidden)
target_include_directories(hone_flags INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/engine/include>")
target_compile_definitions(hone_flags INTERFACE HONE_VERSION="${PROJECT_VERSION}")
if(HONE_SANITIZE)
  target_compile_options(hone_flags INTERFACE -fsanitize=${HONE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(hone_flags INTERFACE -fsanitize=${HONE_SANITIZE})
endif()

if(HONE_FUZZ)
  target_compile_options(hone_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Precompiled headers: half of the time of a small source is parsing fmt, the standard library and GoogleTest. One for the
# position independent code of modules and one for tests, shared by all targets; a target with other flags just parses.
function(hone_pch_library name header)
  add_library(${name} OBJECT "${PROJECT_SOURCE_DIR}/cmake/pch.cpp")
  target_link_libraries(${name} PRIVATE hone_flags ${ARGN})
  target_precompile_headers(${name} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/${header}")
endfunction()
if(HONE_PCH)
  find_package(fmt REQUIRED)
  hone_pch_library(hone_pch modules_pch.h fmt::fmt)
  set_target_properties(hone_pch PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()

function(hone_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(hone_${name} STATIC ${ARG_SOURCES})
  set_target_properties(hone_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(hone_${name} PUBLIC hone_flags ${ARG_DEPS})
  if(HONE_PCH)
    target_precompile_headers(hone_${name} REUSE_FROM hone_pch)
  endif()
endfunction()

function(hone_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT TARGET hone_test_environment)
    add_library(hone_test_environment OBJECT "${PROJECT_SOURCE_DIR}/tests/environment.cpp")
    target_link_libraries(hone_test_environment PRIVATE hone_flags)
  endif()
  add_executable(${name}_test ${ARG_SOURCES} $<TARGET_OBJECTS:hone_test_environment>)
  target_link_libraries(${name}_test PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  if(HONE_PCH)
    if(NOT TARGET hone_tests_pch)
      hone_pch_library(hone_tests_pch tests_pch.h fmt::fmt GTest::gmock)
    endif()
    target_precompile_headers(${name}_test REUSE_FROM hone_tests_pch)
    set(in_c ${ARG_SOURCES})
    list(FILTER in_c INCLUDE REGEX "\\.c$")
    set_source_files_properties(${in_c} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endif()
  gtest_discover_tests(${name}_test DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
endfunction()
