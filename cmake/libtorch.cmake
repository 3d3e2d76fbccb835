# libtorch, as dep::torch and dep::torch_python: the one in the Python package torch of
# LOCKSTEP_PYTHON's environment. Sets torch_version ("2.13.0") and torch_folder.
#
# Not by find_package(Torch): of a CUDA build it asks for CUDA's toolkit. Our sources include no
# header of CUDA's, and link only libraries that each build of torch has. So no toolkit is needed,
# and what is compiled with one build of a version runs with the others.

# Older ones lack what src/train/torch_versions.h does not replace. docs/guide/install.md has the
# newest that was tried.
set(torch_version_min 2.11)

# A wheel is built for the Python that builds it.
if(SKBUILD)
  set(LOCKSTEP_PYTHON ${Python_EXECUTABLE})
endif()
set(LOCKSTEP_PYTHON ${CMAKE_SOURCE_DIR}/build/venv/bin/python CACHE FILEPATH
    "the Python that has torch installed")
execute_process(
  COMMAND ${LOCKSTEP_PYTHON} -c
          "import importlib.metadata as m, importlib.util as u; print(m.version('torch').partition('+')[0], u.find_spec('torch').submodule_search_locations[0], sep=';')"
  OUTPUT_VARIABLE torch OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_missing ERROR_QUIET)
if(torch_missing)
  message(FATAL_ERROR "no torch in ${LOCKSTEP_PYTHON}: run ./dev build, which installs it")
endif()
list(POP_FRONT torch torch_version torch_folder)
if(torch_version VERSION_LESS torch_version_min)
  message(FATAL_ERROR "torch ${torch_version} of ${LOCKSTEP_PYTHON} is too old: Lockstep needs "
                      "torch ${torch_version_min} or newer; install one")
endif()
# Another torch may come to the same place. It is another interface, and its version is written into
# the Python package.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${torch_folder}/version.py)

# libtorch has copies of functions of the standard library, and shows them. Those of std::filesystem
# in a CUDA build of torch 2.11 crash, so the standard library must be found first.
add_library(dep_torch INTERFACE)
target_link_libraries(dep_torch INTERFACE stdc++ ${torch_folder}/lib/libtorch.so
                      ${torch_folder}/lib/libtorch_cpu.so ${torch_folder}/lib/libc10.so)
# Programs name no symbol of libtorch.so, but need it: it brings the kernels of CUDA.
target_link_options(dep_torch INTERFACE LINKER:--no-as-needed)
# Two include folders of ours come before the wheel's headers: the wheel contains another {fmt}, of
# which a program cannot link two, and lacks the Gloo headers that its own ProcessGroupGloo.hpp
# includes.
get_target_property(fmt_headers fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/headers)
file(CREATE_LINK ${fmt_headers}/fmt ${CMAKE_BINARY_DIR}/headers/fmt SYMBOLIC)
target_include_directories(dep_torch SYSTEM INTERFACE
                           ${CMAKE_BINARY_DIR}/headers ${CMAKE_SOURCE_DIR}/cmake/torch
                           ${torch_folder}/include ${torch_folder}/include/torch/csrc/api/include)
# As in the wheel's own build.
target_compile_definitions(dep_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
add_library(dep::torch ALIAS dep_torch)

add_library(dep_torch_python INTERFACE)
target_link_libraries(dep_torch_python INTERFACE dep_torch ${torch_folder}/lib/libtorch_python.so)
add_library(dep::torch_python ALIAS dep_torch_python)
