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
pkg_check_modules(CURL REQUIRED libcurl>=7.77)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(CJOSE REQUIRED IMPORTED_TARGET cjose)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)

# Headers only: the library is loaded at run time when needed (comm/fabric/ofi/libfabric.h).
add_library(dep_fabric INTERFACE)
target_include_directories(dep_fabric SYSTEM INTERFACE ${FABRIC_INCLUDE_DIRS})
target_link_libraries(dep_fabric INTERFACE ${CMAKE_DL_LIBS})

# Headers only, too (platform/curl/libcurl.h).
add_library(dep_curl INTERFACE)
target_include_directories(dep_curl SYSTEM INTERFACE ${CURL_INCLUDE_DIRS})
target_link_libraries(dep_curl INTERFACE ${CMAKE_DL_LIBS})

# For libraries of which a layer's users seldom need a function: a program that needs none does not
# load the library.
set(CMAKE_CXX_LINK_LIBRARY_USING_as_needed_SUPPORTED TRUE)
set(CMAKE_CXX_LINK_LIBRARY_USING_as_needed
    "LINKER:--push-state,--as-needed" "<LINK_ITEM>" "LINKER:--pop-state")

add_library(dep::threads ALIAS Threads::Threads)
add_library(dep_openssl INTERFACE)
target_link_libraries(dep_openssl INTERFACE "$<LINK_LIBRARY:as_needed,OpenSSL::SSL>" OpenSSL::Crypto)
add_library(dep::openssl ALIAS dep_openssl)
add_library(dep::boost ALIAS Boost::headers)
add_library(dep::boost_context ALIAS Boost::context)
add_library(dep::fmt ALIAS fmt::fmt)
add_library(dep::json ALIAS nlohmann_json::nlohmann_json)
add_library(dep_yaml INTERFACE)
target_link_libraries(dep_yaml INTERFACE "$<LINK_LIBRARY:as_needed,yaml-cpp>")
add_library(dep::yaml ALIAS dep_yaml)
add_library(dep::cli11 ALIAS CLI11::CLI11)
add_library(dep::hwloc ALIAS PkgConfig::HWLOC)
add_library(dep::fabric ALIAS dep_fabric)
add_library(dep::curl ALIAS dep_curl)
add_library(dep::xxhash ALIAS PkgConfig::XXHASH)
add_library(dep::zstd ALIAS PkgConfig::ZSTD)
add_library(dep::re2 ALIAS PkgConfig::RE2)
# Its -pthread defines _REENTRANT, with which tests cannot use their precompiled header.
set_property(TARGET PkgConfig::RE2 PROPERTY INTERFACE_COMPILE_OPTIONS "")
add_library(dep::sodium ALIAS PkgConfig::SODIUM)
add_library(dep::cjose ALIAS PkgConfig::CJOSE)
add_library(dep::sqlite ALIAS PkgConfig::SQLITE)

include(cmake/libtorch.cmake)
