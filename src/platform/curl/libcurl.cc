#include "platform/curl/libcurl.h"

#include <string>

#include <dlfcn.h>

#include "base/check.h"
#include "base/format.h"

namespace lockstep::curl {
namespace {

constexpr const char* kLibcurlName = "libcurl.so.4";
// The first with CURLOPT_CAINFO_BLOB.
constexpr unsigned kLibcurlVersionMin = 0x074d00;

// The first function that is missing is named.
template <class Function>
void find_function(void* library, const char* name, Function& function, std::string& failure) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr && failure.empty()) failure = format("it has no {}", name);
}

std::string find_functions(void* library, Libcurl& functions) {
  std::string failure;
  find_function(library, "curl_global_init", functions.global_init, failure);
  find_function(library, "curl_version_info", functions.version_info, failure);
  find_function(library, "curl_easy_init", functions.easy_init, failure);
  find_function(library, "curl_easy_setopt", functions.easy_setopt, failure);
  find_function(library, "curl_easy_perform", functions.easy_perform, failure);
  find_function(library, "curl_easy_getinfo", functions.easy_getinfo, failure);
  find_function(library, "curl_easy_cleanup", functions.easy_cleanup, failure);
  find_function(library, "curl_easy_strerror", functions.easy_strerror, failure);
  find_function(library, "curl_slist_append", functions.slist_append, failure);
  find_function(library, "curl_slist_free_all", functions.slist_free_all, failure);
  find_function(library, "curl_multi_init", functions.multi_init, failure);
  find_function(library, "curl_multi_add_handle", functions.multi_add_handle, failure);
  find_function(library, "curl_multi_remove_handle", functions.multi_remove_handle, failure);
  find_function(library, "curl_multi_perform", functions.multi_perform, failure);
  find_function(library, "curl_multi_poll", functions.multi_poll, failure);
  find_function(library, "curl_multi_wakeup", functions.multi_wakeup, failure);
  find_function(library, "curl_multi_info_read", functions.multi_info_read, failure);
  find_function(library, "curl_multi_cleanup", functions.multi_cleanup, failure);
  return failure;
}

std::string start_library(const Libcurl& curl) {
  const auto* version = curl.version_info(CURLVERSION_NOW);
  if (version->version_num < kLibcurlVersionMin)
    return format("it is {}, and 7.77 or later is needed", version->version);
  return curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? "" : "it does not start";
}

Error cannot_use(const char* name, const std::string& why) {
  return {Code::unavailable,
          format("{} cannot be used ({}): install it by `apt-get install libcurl4` (Debian, "
                 "Ubuntu) or `dnf install libcurl` (Fedora, RHEL)",
                 name, why)};
}

const Result<Libcurl>& loaded_libcurl() {
  static const Result<Libcurl> once = load_libcurl_from(kLibcurlName);
  return once;
}

}  // namespace

Result<Libcurl> load_libcurl_from(const char* name) {
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return cannot_use(name, ::dlerror());
  Libcurl functions;
  std::string failure = find_functions(library, functions);
  if (failure.empty()) failure = start_library(functions);
  if (!failure.empty()) return cannot_use(name, failure);
  return functions;
}

Result<void> load_libcurl() {
  TRY(loaded_libcurl());
  return {};
}

const Libcurl& libcurl() {
  LS_CHECK(loaded_libcurl());
  return *loaded_libcurl();
}

}  // namespace lockstep::curl
