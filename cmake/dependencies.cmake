# Every third-party library, as a target `dep::NAME`. src/CMakeLists.txt says which layer may use which.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS context)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(FABRIC REQUIRED libfabric)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

# Headers only: the library is loaded at run time when needed (comm/fabric/ofi/libfabric.h).
add_library(dep_fabric INTERFACE)
target_include_directories(dep_fabric SYSTEM INTERFACE ${FABRIC_INCLUDE_DIRS})
target_link_libraries(dep_fabric INTERFACE ${CMAKE_DL_LIBS})

add_library(dep::threads ALIAS Threads::Threads)
add_library(dep::openssl ALIAS OpenSSL::Crypto)
add_library(dep::boost ALIAS Boost::headers)
add_library(dep::boost_context ALIAS Boost::context)
add_library(dep::fmt ALIAS fmt::fmt)
add_library(dep::json ALIAS nlohmann_json::nlohmann_json)
add_library(dep::yaml ALIAS yaml-cpp)
add_library(dep::cli11 ALIAS CLI11::CLI11)
add_library(dep::hwloc ALIAS PkgConfig::HWLOC)
add_library(dep::fabric ALIAS dep_fabric)
add_library(dep::xxhash ALIAS PkgConfig::XXHASH)
add_library(dep::sqlite ALIAS PkgConfig::SQLITE)

# libtorch is part of the pinned Python package; LOCKSTEP_PYTHON is that environment's interpreter.
# A wheel is built for the Python that builds it.
if(SKBUILD)
  set(LOCKSTEP_PYTHON ${Python_EXECUTABLE})
endif()
set(LOCKSTEP_PYTHON ${CMAKE_SOURCE_DIR}/build/venv/bin/python CACHE FILEPATH
    "the Python that has torch installed")
execute_process(
  COMMAND ${LOCKSTEP_PYTHON} -c
          "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
  OUTPUT_VARIABLE torch_folder OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_missing
  ERROR_QUIET)
if(torch_missing)
  message(FATAL_ERROR "no torch in ${LOCKSTEP_PYTHON}: run ./dev build, which installs it")
endif()
find_package(Torch REQUIRED PATHS ${torch_folder}/share/cmake/Torch NO_DEFAULT_PATH)
add_library(dep_torch INTERFACE)
target_link_libraries(dep_torch INTERFACE ${TORCH_LIBRARIES})
# Two include folders of ours come before the wheel's headers: the wheel contains another {fmt}, of
# which a program cannot link two, and lacks the Gloo headers that its own ProcessGroupGloo.hpp
# includes.
get_target_property(fmt_headers fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/headers)
file(CREATE_LINK ${fmt_headers}/fmt ${CMAKE_BINARY_DIR}/headers/fmt SYMBOLIC)
target_include_directories(dep_torch SYSTEM INTERFACE
                           ${CMAKE_BINARY_DIR}/headers ${CMAKE_SOURCE_DIR}/cmake/torch
                           ${TORCH_INCLUDE_DIRS})
# The wheel's c10d headers need this macro for Gloo, as in the wheel's own build.
target_compile_definitions(dep_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
add_library(dep::torch ALIAS dep_torch)
