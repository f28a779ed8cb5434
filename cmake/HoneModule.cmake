# How modules, tests and benchmarks of hone are declared: one function each, so that flags live in one place.
#
#   hone_module(base SOURCES status.cpp ... DEPS fmt::fmt)      static library hone_base
#   hone_test(kernels_ir SOURCES text_test.cpp DEPS hone_kernels [LABELS unit])   gtest binary, each test a ctest test
#   hone_package(hone_engine)                                   libhone.so, its headers and find_package(hone), installed

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# -ffp-contract=off: no compiler may fuse a multiply and an add that the source did not (numerics are part of the problem).
add_library(hone_flags INTERFACE)
target_compile_features(hone_flags INTERFACE cxx_std_20)
target_compile_options(hone_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Werror=return-type -Werror=switch
  -Wno-restrict -Wno-missing-field-initializers -ffp-contract=off -fno-math-errno -fvisibility=hidden)
target_include_directories(hone_flags INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/engine/include>")
target_compile_definitions(hone_flags INTERFACE HONE_VERSION="${PROJECT_VERSION}"
  $<$<BOOL:${HONE_WITH_ASMJIT}>:HONE_WITH_ASMJIT=1> $<$<BOOL:${HONE_WITH_LLVM}>:HONE_WITH_LLVM=1>)
if(HONE_SANITIZE)
  target_compile_options(hone_flags INTERFACE -fsanitize=${HONE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(hone_flags INTERFACE -fsanitize=${HONE_SANITIZE})
endif()

function(hone_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  foreach(source IN LISTS ARG_SOURCES)  # temporary while the first modules are being written
    if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
      message(WARNING "not there yet: ${source}")
      list(REMOVE_ITEM ARG_SOURCES ${source})
    endif()
  endforeach()
  if(NOT ARG_SOURCES)
    file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp" "")
    set(ARG_SOURCES "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp")
  endif()
  add_library(hone_${name} STATIC ${ARG_SOURCES})
  set_target_properties(hone_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(hone_${name} PUBLIC hone_flags ${ARG_DEPS})
endfunction()

function(hone_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  foreach(source IN LISTS ARG_SOURCES)  # temporary, as above
    if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
      message(WARNING "not there yet: ${source}")
      return()
    endif()
  endforeach()
  add_executable(${name}_test ${ARG_SOURCES})
  target_link_libraries(${name}_test PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name}_test DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
endfunction()

# What is installed is one shared library with everything inside: a consumer needs no header and no library of ours but
# this one, and sees only symbols marked HONE_API, since all else is compiled with hidden visibility. In the tree the
# library is the target hone_shared (alias hone::engine, the name consumers use); tools and tests link the static modules.
function(hone_package engine)
  file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/hone_shared.cpp" CONTENT "")
  add_library(hone_shared SHARED "${CMAKE_CURRENT_BINARY_DIR}/hone_shared.cpp")
  add_library(hone::engine ALIAS hone_shared)
  set_target_properties(hone_shared PROPERTIES OUTPUT_NAME hone EXPORT_NAME engine
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_link_libraries(hone_shared PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${engine}>" $<BUILD_INTERFACE:hone_flags>)
  target_compile_features(hone_shared INTERFACE cxx_std_20)
  target_include_directories(hone_shared INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/engine/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

  set(destination "${CMAKE_INSTALL_LIBDIR}/cmake/hone")
  install(TARGETS hone_shared EXPORT honeTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/engine/include/hone" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    FILES_MATCHING PATTERN "*.h")
  install(EXPORT honeTargets NAMESPACE hone:: DESTINATION "${destination}")
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/honeConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/honeConfig.cmake" INSTALL_DESTINATION "${destination}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/honeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/honeConfig.cmake" "${PROJECT_BINARY_DIR}/honeConfigVersion.cmake"
    DESTINATION "${destination}")
endfunction()
