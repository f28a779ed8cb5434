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

# A model, where there is one beside the source tree.
set(story "${SOURCE}/../shared/models/stories260K.gguf")
if(EXISTS "${story}")
  execute_process(COMMAND ${CMAKE_COMMAND} -E env "HONE_DB=${SCRATCH}/hone.db" HONE_CACHE=off HONE_WEIGHTS=off
    "${SCRATCH}/build/generate_c" "${story}" "Once upon a time" 12 OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  if(NOT text STREQUAL ", there was a little girl named Lily. She\n")
    message(FATAL_ERROR "generate_c went on with: ${text}")
  endif()
endif()

# The same without code generators, on a package where this build can compile one.
set(problem "matmul:f32:m=4,n=256,k=128,b=packed:+bias")
execute_process(COMMAND ${CMAKE_COMMAND} -E env "HONE_DB=${SCRATCH}/hone.db" "${BUILD}/tools/hone/hone" compile ${problem}
  -o "${SCRATCH}/linear.hone" RESULT_VARIABLE code ERROR_VARIABLE why)
if(code EQUAL 0)
  run(${CMAKE_COMMAND} -E env "HONE_DB=${SCRATCH}/hone.db" "${SCRATCH}/build/package_cpp" "${SCRATCH}/linear.hone" ${problem})
elseif(why MATCHES "HONE_WITH_LLVM|no instruction set|does not have")
  message(STATUS "no package was run: ${why}")
else()
  message(FATAL_ERROR "hone compile failed (${code}):\n${why}")
endif()

# Nothing but the two APIs may be visible.
find_program(NM nm)
foreach(name hone_engine hone_runtime)
  if(NOT NM)
    break()
  endif()
  file(GLOB library "${SCRATCH}/prefix/lib*/lib${name}.so" "${SCRATCH}/prefix/lib*/*/lib${name}.so")
  execute_process(COMMAND ${NM} -D --defined-only -C "${library}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "\n$" "" symbols "${symbols}")
  string(REPLACE ";" " " symbols "${symbols}")
  string(REPLACE "\n" ";" symbols "${symbols}")
  # A lower-case type letter is a local symbol.
  list(FILTER symbols INCLUDE REGEX "^[0-9a-f]* [A-Z] ")
  foreach(symbol IN LISTS symbols)
    if(NOT symbol MATCHES " (hone_[a-z_]+|hone::(Engine|Matmul|MatmulSpec|Attention|AttentionSpec|KvCache|Status|Model|Sequence|Sampler|TextStream)::[a-z_]+(\\[abi:cxx11\\])?\\(.*|hone::(Sequence|Sampler|TextStream)::(~?(Sequence|Sampler|TextStream)|operator=)\\(.*|hone::code_name\\(.*)$")
      message(FATAL_ERROR "lib${name} exports ${symbol}")
    endif()
  endforeach()
  list(LENGTH symbols count)
  message(STATUS "lib${name}: ${count} symbols exported")
endforeach()
