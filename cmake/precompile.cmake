# precompile(TARGET HEADERS...)
#
# Precompiles headers that most sources of a target include and that take seconds to parse; the
# sources include them all the same. -fpch-preprocess lets ccache look through it.
function(precompile target)
  if(LOCKSTEP_BATCHES)
    return()  # a batch parses it once anyway
  endif()
  target_precompile_headers(${target} PRIVATE ${ARGN})
  let_ccache_see_headers(${target})
endfunction()

# The headers that most sources include through base/ and text/.
set(common_headers <chrono> <filesystem> <functional> <map> <memory> <optional> <string> <thread>
                   <vector> <fmt/format.h> <nlohmann/json.hpp>)

# precompile_test(TARGET)
#
# Parsed once for all tests: googletest's headers take longer to parse than many tests to compile.
function(precompile_test target)
  if(NOT TARGET test_headers)
    holder_of_headers(test_headers <gmock/gmock.h> <gtest/gtest.h> ${common_headers})
    compile_as_test(test_headers)
    # Compiled as for a program, because tests are programs.
    set_target_properties(test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(test_headers PRIVATE -fPIE)
  endif()
  target_precompile_headers(${target} REUSE_FROM test_headers)
endfunction()

# precompile_library(TARGET)
#
# The same for libraries, in clang's builds only: g++'s builds check that each source includes what
# it needs.
function(precompile_library target)
  if(NOT TARGET library_headers)
    holder_of_headers(library_headers ${common_headers})
    let_ccache_see_headers(library_headers)
  endif()
  target_precompile_headers(${target} REUSE_FROM library_headers)
  let_ccache_see_headers(${target})
endfunction()

# A target that only provides a precompiled header for others.
function(holder_of_headers target)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${target}.cc CONTENT "")
  add_library(${target} OBJECT ${CMAKE_BINARY_DIR}/${target}.cc)
  target_link_libraries(${target} PRIVATE GTest::gmock dep::fmt dep::json)
  target_precompile_headers(${target} PRIVATE ${ARGN})
endfunction()

# Compiling tests takes far longer than running them.
function(compile_as_test target)
  target_compile_options(${target} PRIVATE ${LOCKSTEP_WARNINGS} -O0)
  # Their headers are precompiled, so smaller batches cost little, and they share the cores better.
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 16)
  let_ccache_see_headers(${target})
endfunction()

# Uses a precompiled header.
function(let_ccache_see_headers target)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
                         $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
endfunction()
