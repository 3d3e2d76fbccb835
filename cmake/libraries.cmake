# The shared libraries for programs outside of this repository, and their CMake package:
#   find_package(Lockstep REQUIRED COMPONENTS comm)    target_link_libraries(mine Lockstep::comm)
# A library contains the layers that it needs and shows only the classes and functions of its
# headers in include/lockstep.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)
set(common_headers data_type.h export.h result.h)

# shared_library(NAME LAYERS layers... HEADERS names... CLASSES names... [FUNCTIONS signatures...]
#                [USES dependencies...] [PACKAGE component])
#
# liblockstep-NAME of src/library/LAYERS, for include/lockstep/HEADERS. It exports these CLASSES and
# FUNCTIONS of namespace lockstep. USES are dependencies of the headers. PACKAGE is the component of
# `cmake --install`, by default libraries.
function(shared_library name)
  cmake_parse_arguments(LIBRARY "" "PACKAGE" "LAYERS;HEADERS;CLASSES;FUNCTIONS;USES" ${ARGN})
  set(target lockstep-${name})
  if(NOT LIBRARY_PACKAGE)
    set(LIBRARY_PACKAGE libraries)
  endif()
  set(layers ${LIBRARY_LAYERS})
  list(TRANSFORM layers PREPEND ls_library_)
  set(objects ${layers})
  list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  set(script ${CMAKE_BINARY_DIR}/exports/${name}.map)
  set(shown "")
  foreach(class ${LIBRARY_CLASSES})
    string(APPEND shown "lockstep::${class}::*; ")
  endforeach()
  foreach(function ${LIBRARY_FUNCTIONS})
    string(APPEND shown "\"lockstep::${function}\"; ")
  endforeach()
  file(CONFIGURE OUTPUT ${script} CONTENT
       "LOCKSTEP_@PROJECT_VERSION_MAJOR@.@PROJECT_VERSION_MINOR@ {\n  global: extern \"C++\" { @shown@};\n  local: *;\n};\n" @ONLY)

  add_library(${target} SHARED ${objects})
  add_library(Lockstep::${name} ALIAS ${target})
  target_link_libraries(${target} PRIVATE ${layers} PUBLIC ${LIBRARY_USES})
  target_link_options(${target} PRIVATE LINKER:--version-script=${script})
  if(NOT LOCKSTEP_CHECK)  # the program has the sanitizers' functions
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name} LINKER_LANGUAGE CXX LINK_DEPENDS ${script} VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

  set(headers ${LIBRARY_HEADERS} ${common_headers})
  list(TRANSFORM headers PREPEND ${CMAKE_SOURCE_DIR}/include/lockstep/)
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep
          COMPONENT ${LIBRARY_PACKAGE})
  install(TARGETS ${target} EXPORT Lockstep-${name} COMPONENT ${LIBRARY_PACKAGE})
  install(EXPORT Lockstep-${name} NAMESPACE Lockstep:: DESTINATION ${package_folder}
          COMPONENT ${LIBRARY_PACKAGE})
endfunction()

shared_library(comm LAYERS comm report HEADERS comm.h report.h
               CLASSES Communicator Buffer Work Reporter
               FUNCTIONS "join(lockstep::JoinOptions const&)")
shared_library(train LAYERS train
               HEADERS block_call.h checkpoint.h recovery.h train.h train_types.h
               CLASSES Checkpointer Group Optimizer Recovery Sampler SavedModel ShardedModel Transfer
               FUNCTIONS "shard(torch::nn::Module&, lockstep::Group const&, lockstep::ShardOptions const&)"
                         "micro_batches_of(lockstep::BatchShape const&, int, int)"
               USES $<BUILD_INTERFACE:dep::torch> PACKAGE training)
shared_library(client LAYERS client HEADERS client.h CLASSES Client)

configure_package_config_file(cmake/LockstepConfig.cmake.in ${CMAKE_BINARY_DIR}/LockstepConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/LockstepConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/LockstepConfig.cmake
              ${CMAKE_BINARY_DIR}/LockstepConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT libraries)
