#include "platform/engine/k8s/client/libcurl.h"

#include <optional>
#include <string>

#include <dlfcn.h>

#include "base/check.h"
#include "base/format.h"

namespace lockstep::engine {
namespace {

constexpr const char* kLibcurlName = "libcurl.so.4";
// The first with CURLOPT_CAINFO_BLOB.
constexpr unsigned kLibcurlVersionMin = 0x074d00;

struct LoadedLibcurl {
  Libcurl functions;
  std::optional<std::string> failure;
};

template <class Function>
void find_function(void* library, const char* name, Function& function, LoadedLibcurl& loaded) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) loaded.failure = format("it has no {}", name);
}

void start_library(LoadedLibcurl& loaded) {
  const Libcurl& curl = loaded.functions;
  const auto* version = curl.version_info(CURLVERSION_NOW);
  if (version->version_num < kLibcurlVersionMin)
    loaded.failure = format("it is {}, and 7.77 or later is needed", version->version);
  else if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    loaded.failure = "it does not start";
}

LoadedLibcurl load_once() {
  LoadedLibcurl loaded;
  void* const library = ::dlopen(kLibcurlName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.failure = ::dlerror();
    return loaded;
  }
  auto& functions = loaded.functions;
  find_function(library, "curl_global_init", functions.global_init, loaded);
  find_function(library, "curl_version_info", functions.version_info, loaded);
  find_function(library, "curl_easy_init", functions.easy_init, loaded);
  find_function(library, "curl_easy_setopt", functions.easy_setopt, loaded);
  find_function(library, "curl_easy_getinfo", functions.easy_getinfo, loaded);
  find_function(library, "curl_easy_cleanup", functions.easy_cleanup, loaded);
  find_function(library, "curl_easy_strerror", functions.easy_strerror, loaded);
  find_function(library, "curl_slist_append", functions.slist_append, loaded);
  find_function(library, "curl_slist_free_all", functions.slist_free_all, loaded);
  find_function(library, "curl_multi_init", functions.multi_init, loaded);
  find_function(library, "curl_multi_add_handle", functions.multi_add_handle, loaded);
  find_function(library, "curl_multi_remove_handle", functions.multi_remove_handle, loaded);
  find_function(library, "curl_multi_perform", functions.multi_perform, loaded);
  find_function(library, "curl_multi_poll", functions.multi_poll, loaded);
  find_function(library, "curl_multi_wakeup", functions.multi_wakeup, loaded);
  find_function(library, "curl_multi_info_read", functions.multi_info_read, loaded);
  find_function(library, "curl_multi_cleanup", functions.multi_cleanup, loaded);
  if (!loaded.failure) start_library(loaded);
  return loaded;
}

const LoadedLibcurl& loaded_libcurl() {
  static const LoadedLibcurl once = load_once();
  return once;
}

}  // namespace

Result<void> load_libcurl() {
  if (!loaded_libcurl().failure) return {};
  return Error{Code::unavailable,
               format("{} cannot be used ({}): install it (Debian and Ubuntu: libcurl4)",
                      kLibcurlName, *loaded_libcurl().failure)};
}

const Libcurl& libcurl() {
  LS_CHECK(!loaded_libcurl().failure);
  return loaded_libcurl().functions;
}

}  // namespace lockstep::engine
