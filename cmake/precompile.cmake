# precompile(TARGET HEADERS...)
#
# Parses once what most sources of a target include and takes seconds to parse; the sources name it
# all the same. -fpch-preprocess lets ccache see through it.
function(precompile target)
  if(LOCKSTEP_BATCHES)
    return()  # a batch parses it once anyway
  endif()
  target_precompile_headers(${target} PRIVATE ${ARGN})
  let_ccache_see_headers(${target})
endfunction()

# What most sources include by way of base/ and text/.
set(common_headers <chrono> <filesystem> <functional> <map> <memory> <optional> <string> <thread>
                   <vector> <fmt/format.h> <nlohmann/json.hpp>)

# precompile_test(TARGET)
#
# Parsed once for all tests: googletest's headers take longer to parse than many a test to compile.
function(precompile_test target)
  if(NOT TARGET test_headers)
    holder_of_headers(test_headers <gmock/gmock.h> <gtest/gtest.h> ${common_headers})
    compile_as_test(test_headers)
    # As a program, which the tests are.
    set_target_properties(test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(test_headers PRIVATE -fPIE)
  endif()
  target_precompile_headers(${target} REUSE_FROM test_headers)
endfunction()

# precompile_library(TARGET)
#
# The same for libraries, in clang's builds: g++'s show that each source includes what it needs.
function(precompile_library target)
  if(NOT TARGET library_headers)
    holder_of_headers(library_headers ${common_headers})
    let_ccache_see_headers(library_headers)
  endif()
  target_precompile_headers(${target} REUSE_FROM library_headers)
  let_ccache_see_headers(${target})
endfunction()

# A target that is a precompiled header for others and nothing else.
function(holder_of_headers target)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${target}.cc CONTENT "")
  add_library(${target} OBJECT ${CMAKE_BINARY_DIR}/${target}.cc)
  target_link_libraries(${target} PRIVATE GTest::gmock dep::fmt dep::json)
  target_precompile_headers(${target} PRIVATE ${ARGN})
endfunction()

# Compiling tests costs far more than running them.
function(compile_as_test target)
  target_compile_options(${target} PRIVATE ${LOCKSTEP_WARNINGS} -O0)
  let_ccache_see_headers(${target})
endfunction()

# Through a precompiled header.
function(let_ccache_see_headers target)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
                         $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
endfunction()
