# NCCL's network and profiler plugin, libnccl-net-lockstep.so: NCCL finds it by NCCL_NET_PLUGIN=lockstep. It shows
# the tables of its versions and nothing else, and stays loaded when NCCL closes it, because
# libfabric does.
set(plugin_exports ${CMAKE_BINARY_DIR}/exports/nccl_plugin.map)
file(CONFIGURE OUTPUT ${plugin_exports}
     CONTENT "{\n  global: ncclNetPlugin_v*; ncclProfiler_v*;\n  local: *;\n};\n")
add_library(nccl-net-lockstep MODULE $<TARGET_OBJECTS:ls_comm_nccl_plugin>
                                     $<TARGET_OBJECTS:ls_comm_nccl_profiler>)
target_link_libraries(nccl-net-lockstep PRIVATE ls_comm_nccl_plugin ls_comm_nccl_profiler)
target_link_options(nccl-net-lockstep PRIVATE LINKER:--version-script=${plugin_exports}
                    LINKER:-z,nodelete LINKER:--as-needed LINKER:--gc-sections)
set_target_properties(nccl-net-lockstep PROPERTIES LINKER_LANGUAGE CXX
                      LINK_DEPENDS ${plugin_exports})
# Ranks find it at ../lib of the program's folder (platform/agent/ranks/nccl_network.h).
install(TARGETS nccl-net-lockstep LIBRARY DESTINATION lib COMPONENT program)

# Its test opens it as NCCL does.
add_dependencies(comm_nccl_plugin_test nccl-net-lockstep)
add_dependencies(comm_nccl_profiler_test nccl-net-lockstep)
