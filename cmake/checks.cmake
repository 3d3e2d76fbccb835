# The builds of ./dev check (docs/decisions/0017-checks.md): the same targets, compiled by clang for
# its checks. Each has a target `checked`, which builds all of it.
#   LOCKSTEP_CHECK=asan    address and undefined behaviour: what needs no libtorch; headers alone
#   LOCKSTEP_CHECK=tsan    data races: the layers with threads
#   LOCKSTEP_CHECK=clang  clang's warnings on what needs libtorch; nothing is linked
#   LOCKSTEP_CHECK=fuzz   each *_fuzz.cc as a program of libFuzzer's (base/fuzz_for_test.h)
set(LOCKSTEP_CHECK "" CACHE STRING "asan, tsan, clang, fuzz, or none for the product")

# Unoptimised: compiling takes far longer than these tests.
set(sanitizer_asan -fsanitize=address,undefined -fno-sanitize-recover=all)
set(sanitizer_tsan -fsanitize=thread)
set(sanitizer_clang)
set(sanitizer_fuzz ${sanitizer_asan} -fsanitize=fuzzer-no-link)
# Race detection is not useful for code and tests without threads, nor where the ranks of a test run
# one at a time (comm_algorithm).
set(tests_with_threads "^(base|net|comm|platform)_.*test$")
set(tests_without_threads
    "^(comm_(algorithm|choice|cost|reduction|simulated)|platform_(core_.*|api|controller|host|insight|spool|store))_")

if(LOCKSTEP_CHECK)
  if(NOT LOCKSTEP_CHECK MATCHES "^(asan|tsan|clang|fuzz)$" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    message(FATAL_ERROR "LOCKSTEP_CHECK is asan, tsan, clang or fuzz, with clang; run ./dev check")
  endif()
  set(CMAKE_CXX_FLAGS_RELEASE "-O0 -g1")
  # g++ 12's own headers call deprecated functions of each other; g++ reports ours.
  add_compile_options(-Wthread-safety -Wthread-safety-beta -Wno-deprecated-declarations
                      -fno-omit-frame-pointer ${sanitizer_${LOCKSTEP_CHECK}})
  # Takes a third of the time of GNU's linker.
  add_link_options(${sanitizer_${LOCKSTEP_CHECK}} -fuse-ld=lld)
endif()

# Call this last, when all targets are known.
function(check_targets)
  # The vptr check of its cast to a type of SOCI needs data that the library does not export.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/platform/store/database.cc
                              DIRECTORY ${CMAKE_SOURCE_DIR}/src
                              PROPERTIES COMPILE_OPTIONS "$<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=vptr>")
  targets_below(${CMAKE_SOURCE_DIR} targets)
  add_custom_target(checked)
  if(LOCKSTEP_CHECK STREQUAL fuzz)
    fuzz_programs()
    return()
  endif()
  set(libraries)
  foreach(target ${targets})
    needs_libtorch(${target} libtorch)
    if(LOCKSTEP_CHECK STREQUAL clang AND libtorch)
      compile_only(${target})
    elseif(LOCKSTEP_CHECK STREQUAL asan AND NOT libtorch)
      add_dependencies(checked ${target})
    elseif(LOCKSTEP_CHECK STREQUAL tsan AND NOT libtorch AND target MATCHES "${tests_with_threads}"
           AND NOT target MATCHES "${tests_without_threads}")
      add_dependencies(checked ${target})
    else()
      continue()
    endif()
    set_sanitizer_defaults(${target})
    if(target MATCHES "^ls_")
      list(APPEND libraries ${target})
    endif()
  endforeach()
  if(NOT LOCKSTEP_CHECK STREQUAL tsan)
    check_headers("${libraries}")
  endif()
endfunction()

# build/fuzz/fuzz/LAYER_NAME for each src/LAYER/NAME_fuzz.cc.
function(fuzz_programs)
  file(GLOB_RECURSE sources RELATIVE ${CMAKE_SOURCE_DIR}/src CONFIGURE_DEPENDS src/*_fuzz.cc)
  foreach(source ${sources})
    layer_of(${source} library)
    string(REGEX REPLACE "_fuzz.cc$" "" name "${source}")
    string(REPLACE "/" "_" program "${name}")
    add_executable(fuzz_${program} src/${source})
    set_target_properties(fuzz_${program} PROPERTIES OUTPUT_NAME ${program}
                          RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
    target_compile_definitions(fuzz_${program} PRIVATE LOCKSTEP_FUZZ)
    target_link_libraries(fuzz_${program} PRIVATE ${library})
    target_link_options(fuzz_${program} PRIVATE -fsanitize=fuzzer)
    add_dependencies(checked fuzz_${program})
  endforeach()
endfunction()

# So that a program started by hand behaves as under ./dev check.
function(set_sanitizer_defaults target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE AND NOT LOCKSTEP_CHECK STREQUAL clang)
    target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/sanitizer_defaults.cc)
  endif()
endfunction()

# All our libraries and programs in a folder and its subfolders.
function(targets_below folder result)
  get_property(found DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  set(all)
  foreach(target ${found})
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(STATIC_LIBRARY|INTERFACE_LIBRARY|MODULE_LIBRARY|EXECUTABLE)$")
      list(APPEND all ${target})
    endif()
  endforeach()
  foreach(subfolder ${subfolders})
    targets_below(${subfolder} below)
    list(APPEND all ${below})
  endforeach()
  set(${result} ${all} PARENT_SCOPE)
endfunction()

# Sets `result` to true if a target links libtorch, itself or through one of our libraries.
function(needs_libtorch target result)
  get_property(known GLOBAL PROPERTY needs_libtorch_${target})
  if(NOT DEFINED known)
    links_of(${target} links)
    set(known OFF)
    foreach(link ${links})
      if(link MATCHES "^ls_" AND NOT known)
        needs_libtorch(${link} known)
      elseif(link STREQUAL dep::torch)
        set(known ON)
      endif()
    endforeach()
    set_property(GLOBAL PROPERTY needs_libtorch_${target} ${known})
  endif()
  set(${result} ${known} PARENT_SCOPE)
endfunction()

function(links_of target result)
  get_target_property(type ${target} TYPE)
  set(property LINK_LIBRARIES)
  if(type STREQUAL INTERFACE_LIBRARY)
    set(property INTERFACE_LINK_LIBRARIES)
  endif()
  get_target_property(links ${target} ${property})
  if(NOT links)
    set(links)
  endif()
  set(${result} ${links} PARENT_SCOPE)
endfunction()

function(compile_only target)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL INTERFACE_LIBRARY)
    add_custom_target(${target}_compiled DEPENDS $<TARGET_OBJECTS:${target}>)
    add_dependencies(checked ${target}_compiled)
  endif()
endfunction()

# Each header must compile alone. A header that some source includes first is compiled so already.
# For each other header, a generated source includes nothing else. In batches these sources share
# their includes, as all sources do.
function(check_headers libraries)
  file(GLOB_RECURSE headers RELATIVE ${CMAKE_SOURCE_DIR}/src CONFIGURE_DEPENDS src/*.h)
  first_includes(proven)
  list(REMOVE_ITEM headers ${proven})
  set(alone)
  foreach(header ${headers})
    layer_of(${header} layer)
    if(layer IN_LIST libraries)
      set(source ${CMAKE_BINARY_DIR}/headers_alone/${header}.cc)
      file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
      list(APPEND alone ${source})
    endif()
  endforeach()
  if(alone)
    add_library(headers_alone OBJECT ${alone})
    target_link_libraries(headers_alone PRIVATE ${libraries} GTest::gmock)
    target_compile_options(headers_alone PRIVATE ${LOCKSTEP_WARNINGS})
    add_dependencies(checked headers_alone)
  endif()
endfunction()

# The first include of each source below src/; CMake runs again when one of them changes.
function(first_includes result)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/*.cc)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  set(all)
  foreach(source ${sources})
    file(STRINGS ${source} line REGEX "^#include " LIMIT_COUNT 1)
    string(REGEX REPLACE "^#include .(.*).$" "\\1" header "${line}")
    list(APPEND all ${header})
  endforeach()
  set(${result} ${all} PARENT_SCOPE)
endfunction()

# The library of the layer to which a source below src/ belongs; empty if there is none.
function(layer_of source result)
  get_filename_component(folder ${source} DIRECTORY)
  while(folder AND NOT folder IN_LIST LOCKSTEP_LAYERS)
    get_filename_component(folder ${folder} DIRECTORY)
  endwhile()
  set(${result})
  if(folder)
    string(REPLACE "/" "_" ${result} "ls_${folder}")
  endif()
  set(${result} ${${result}} PARENT_SCOPE)
endfunction()
