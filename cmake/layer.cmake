# layer(NAME [DEPS layers...] [USES dependencies...])
#
# A folder of src/ is a layer and a static library: its *.cc and those of its subfolders, without the
# subfolders that are layers themselves. DEPS are the layers it may include, USES the third-party
# libraries; tools/check_layers holds the sources to both. The *_test.cc and *_fuzz.cc
# (base/fuzz_for_test.h) beside them become one test program, build/tests/NAME_test, with '/' as '_'.
function(layer name)
  cmake_parse_arguments(LAYER "" "" "DEPS;USES" ${ARGN})
  string(REPLACE "/" "_" target "ls_${name}")
  set(folder ${CMAKE_SOURCE_DIR}/src/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cc)
  foreach(inner ${LOCKSTEP_LAYERS})
    if(inner MATCHES "^${name}/")
      list(FILTER sources EXCLUDE REGEX "^${CMAKE_SOURCE_DIR}/src/${inner}/")
    endif()
  endforeach()
  if(LOCKSTEP_CHECK)
    # In a batch a source may rely on the includes of other sources. This build reverses the order,
    # because a missing include is rarely hidden in both orders.
    list(REVERSE sources)
  endif()
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_(test|fuzz)\\.cc$")

  set(links)
  foreach(dep ${LAYER_DEPS})
    string(REPLACE "/" "_" dep_target "ls_${dep}")
    list(APPEND links ${dep_target})
  endforeach()
  foreach(use ${LAYER_USES})
    list(APPEND links dep::${use})
  endforeach()

  if(sources)
    add_library(${target} STATIC ${sources})
    target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(${target} PUBLIC ${links})
    target_compile_options(${target} PRIVATE ${LOCKSTEP_WARNINGS})
    if(LOCKSTEP_CHECK AND NOT "torch" IN_LIST LAYER_USES)
      precompile_library(${target})
    endif()
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(${target} INTERFACE ${links})
  endif()

  if(tests)
    string(REPLACE "/" "_" test_target "${name}_test")
    add_executable(${test_target} ${tests})
    target_link_libraries(${test_target} PRIVATE ${target} GTest::gmock GTest::gtest_main)
    compile_as_test(${test_target})
    precompile_test(${test_target})
    set_target_properties(${test_target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  endif()
endfunction()

set(LOCKSTEP_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Werror)
if(LOCKSTEP_BATCHES)
  # A source of a batch may shadow a private name of another source.
  list(REMOVE_ITEM LOCKSTEP_WARNINGS -Wshadow)
endif()

# The names of all layers.
file(STRINGS ${CMAKE_SOURCE_DIR}/src/CMakeLists.txt LOCKSTEP_LAYERS REGEX "^layer\\(")
list(TRANSFORM LOCKSTEP_LAYERS REPLACE "^layer\\(([^ )]+).*$" "\\1")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/CMakeLists.txt)
