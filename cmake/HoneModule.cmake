# How modules, tests and benchmarks of hone are declared: one function each, so that flags live in one place.
#
#   hone_module(base SOURCES status.cpp ... DEPS fmt::fmt)      static library hone_base
#   hone_test(kernels_ir SOURCES text_test.cpp DEPS hone_kernels [LABELS unit])   gtest binary, each test a ctest test;
#                                                              OWN_FLAGS: links nothing of ours but a shared library
#   hone_test_library(run_hone SOURCES run_hone.cpp DEPS hone_base)   what several test binaries share: hone_test_run_hone

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

# Precompiled headers (HONE_PCH): a third of the time of a small source is parsing fmt, the standard library, GoogleTest and
# JSON. One for modules, one for the command line and one for tests, shared by all their targets. A source still includes
# what it uses: presets without HONE_PCH show it.
set(hone_pch_headers <fmt/format.h> <algorithm> <array> <atomic> <charconv> <cmath> <cstdint> <cstring> <functional> <map>
  <memory> <mutex> <optional> <set> <span> <string> <string_view> <utility> <variant> <vector>)
function(hone_pch_library name)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS" ${ARGN})
  add_library(${name} OBJECT "${PROJECT_SOURCE_DIR}/cmake/pch.cpp")
  target_link_libraries(${name} PRIVATE hone_flags fmt::fmt ${ARG_DEPS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS} ${hone_pch_headers})
endfunction()
# The command line parses and prints; what it measures is in libraries, or generated. So it is compiled for the time that it takes
# to compile, a quarter less than at -O2.
set(hone_tools_options $<$<CONFIG:Release>:-O1>)
if(HONE_PCH)
  find_package(fmt REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(CLI11 REQUIRED)
  hone_pch_library(hone_pch)
  hone_pch_library(hone_tools_pch HEADERS <CLI/CLI.hpp> <nlohmann/json.hpp> DEPS CLI11::CLI11 nlohmann_json::nlohmann_json)
  set_target_properties(hone_pch hone_tools_pch PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(hone_tools_pch PRIVATE ${hone_tools_options})
endif()

# Targets of tools/hone: -fPIC, as the one precompiled header of theirs is. CMake's property would say -fPIE for programs, and
# the compiler then parses every header again.
function(hone_tools_target target)
  target_compile_options(${target} PRIVATE -fPIC ${hone_tools_options})
  if(HONE_PCH)
    target_precompile_headers(${target} REUSE_FROM hone_tools_pch)
  endif()
endfunction()

function(hone_module name)
  cmake_parse_arguments(ARG "TOOLS" "" "SOURCES;DEPS" ${ARGN})
  add_library(hone_${name} STATIC ${ARG_SOURCES})
  set_target_properties(hone_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(hone_${name} PUBLIC hone_flags ${ARG_DEPS})
  if(ARG_TOOLS)
    hone_tools_target(hone_${name})
  elseif(HONE_PCH)
    target_precompile_headers(hone_${name} REUSE_FROM hone_pch)
  endif()
endfunction()

# Tests are compiled for the time that they take to compile: they call what is measured, and are not.
set(hone_test_options $<$<CONFIG:Release>:-O1>)

function(hone_use_tests_pch target)
  if(NOT HONE_PCH)
    return()
  endif()
  if(NOT TARGET hone_tests_pch)
    hone_pch_library(hone_tests_pch HEADERS <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>
      DEPS GTest::gmock nlohmann_json::nlohmann_json)
    target_compile_options(hone_tests_pch PRIVATE ${hone_test_options})
  endif()
  target_precompile_headers(${target} REUSE_FROM hone_tests_pch)
  target_link_libraries(${target} PRIVATE fmt::fmt)  # with its definitions, which the header was made with
endfunction()

function(hone_test_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(hone_test_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(hone_test_${name} PUBLIC hone_flags ${ARG_DEPS} GTest::gmock GTest::gtest)
  hone_use_tests_pch(hone_test_${name})
  target_compile_options(hone_test_${name} PRIVATE ${hone_test_options})
endfunction()

function(hone_test name)
  cmake_parse_arguments(ARG "OWN_FLAGS" "" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT TARGET hone_test_environment)
    add_library(hone_test_environment OBJECT "${PROJECT_SOURCE_DIR}/tests/environment.cpp")
    target_link_libraries(hone_test_environment PRIVATE hone_flags)
  endif()
  add_executable(${name}_test ${ARG_SOURCES} $<TARGET_OBJECTS:hone_test_environment>)
  target_link_libraries(${name}_test PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  if(NOT ARG_OWN_FLAGS)
    hone_use_tests_pch(${name}_test)
    set(in_c ${ARG_SOURCES})
    list(FILTER in_c INCLUDE REGEX "\\.c$")
    set_source_files_properties(${in_c} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endif()
  target_compile_options(${name}_test PRIVATE ${hone_test_options})
  gtest_discover_tests(${name}_test DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
endfunction()
