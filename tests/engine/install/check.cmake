# Installs the engine into a scratch prefix, builds examples/ against it as a user would, and runs them:
#   cmake -DBUILD=<build folder> -DSOURCE=<source folder> -DSCRATCH=<folder to fill> -DGENERATOR=.. -P check.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    string(JOIN " " line ${ARGN})
    message(FATAL_ERROR "${line}\nfailed (${code}):\n${out}")
  endif()
  message(STATUS "${out}")
endfunction()

# The README shows the example as it is.
file(READ "${SOURCE}/examples/matmul.cpp" example)
file(READ "${SOURCE}/README.md" readme)
string(FIND "${readme}" "${example}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "README.md does not contain examples/matmul.cpp as it is; copy it into its code block")
endif()

file(REMOVE_RECURSE "${SCRATCH}")
run(${CMAKE_COMMAND} --install "${BUILD}" --component engine --prefix "${SCRATCH}/prefix")
run(${CMAKE_COMMAND} -S "${SOURCE}/examples" -B "${SCRATCH}/build" -G "${GENERATOR}" "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix"
  "-DCMAKE_C_FLAGS=${FLAGS} -Wall -Wextra -pedantic" "-DCMAKE_CXX_FLAGS=${FLAGS} -Wall -Wextra -pedantic")
run(${CMAKE_COMMAND} --build "${SCRATCH}/build")
foreach(example matmul_cpp matmul_c attention_cpp)
  run(${CMAKE_COMMAND} -E env "HONE_DB=${SCRATCH}/hone.db" HONE_CACHE=off "${SCRATCH}/build/${example}")
endforeach()

# Nothing but the two APIs may be visible.
find_program(NM nm)
if(NM)
  file(GLOB library "${SCRATCH}/prefix/lib*/libhone_engine.so" "${SCRATCH}/prefix/lib*/*/libhone_engine.so")
  execute_process(COMMAND ${NM} -D --defined-only -C "${library}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "\n$" "" symbols "${symbols}")
  string(REPLACE ";" " " symbols "${symbols}")
  string(REPLACE "\n" ";" symbols "${symbols}")
  # A lower-case type letter is a local symbol.
  list(FILTER symbols INCLUDE REGEX "^[0-9a-f]* [A-Z] ")
  foreach(symbol IN LISTS symbols)
    if(NOT symbol MATCHES " (hone_[a-z_]+|hone::(Engine|Matmul|MatmulSpec|Attention|AttentionSpec|KvCache|Status)::[a-z_]+(\\[abi:cxx11\\])?\\(.*|hone::code_name\\(.*)$")
      message(FATAL_ERROR "libhone_engine exports ${symbol}")
    endif()
  endforeach()
  list(LENGTH symbols count)
  message(STATUS "${count} symbols exported")
endif()
