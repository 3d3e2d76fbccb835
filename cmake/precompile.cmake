# precompile(TARGET HEADERS...)
#
# Parses once what most sources of a target include and takes seconds to parse; the sources name it
# all the same. -fpch-preprocess lets ccache see through it.
function(precompile target)
  if(LOCKSTEP_BATCHES)
    return()  # a batch parses it once anyway
  endif()
  target_precompile_headers(${target} PRIVATE ${ARGN})
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()

# precompile_test(TARGET)
#
# What every test includes, parsed once for all of them: googletest's headers take longer to parse
# than many a test takes to compile.
function(precompile_test target)
  if(NOT TARGET test_headers)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cc CONTENT "")
    add_library(test_headers OBJECT ${CMAKE_BINARY_DIR}/test_headers.cc)
    target_link_libraries(test_headers PRIVATE GTest::gmock)
    target_precompile_headers(test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
    compile_as_test(test_headers)
    # As a program, which the tests are.
    set_target_properties(test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(test_headers PRIVATE -fPIE)
  endif()
  target_precompile_headers(${target} REUSE_FROM test_headers)
endfunction()

# Compiling tests costs far more than running them. The last options let ccache see through the
# precompiled header.
function(compile_as_test target)
  target_compile_options(${target} PRIVATE ${LOCKSTEP_WARNINGS} -O0
                         $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
                         $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
endfunction()
