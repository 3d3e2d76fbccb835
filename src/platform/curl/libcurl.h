// libcurl, loaded when a call first needs it: of Kubernetes, of a webhook or of a mail server. The
// command, the agent and most daemons do not need it, and load none of the libraries that it needs.
#pragma once

#include <memory>

#include <curl/curl.h>

#include "base/result.h"

namespace lockstep::curl {

// The functions of libcurl that are called.
struct Libcurl {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_version_info) version_info = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_poll) multi_poll = nullptr;
  decltype(&::curl_multi_wakeup) multi_wakeup = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
};

// Code::unavailable when this host does not have it. Stays loaded; from any thread.
Result<void> load_libcurl();
// The same from a library of another name, which does not change libcurl().
Result<Libcurl> load_libcurl_from(const char* name);
// Call only after load_libcurl() succeeded.
const Libcurl& libcurl();

struct EasyDeleter {
  void operator()(CURL* easy) const { libcurl().easy_cleanup(easy); }
};
using Easy = std::unique_ptr<CURL, EasyDeleter>;
struct ListDeleter {
  void operator()(curl_slist* list) const { libcurl().slist_free_all(list); }
};
using List = std::unique_ptr<curl_slist, ListDeleter>;

}  // namespace lockstep::curl
