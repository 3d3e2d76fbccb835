// CurlChannel: HTTP requests to one server, one after the other, over a connection that is kept.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "platform/engine/k8s/client/cluster_access.h"
#include "platform/engine/k8s/client/credentials.h"

namespace lockstep::engine {

struct CurlRequest {
  std::string method;
  std::string path;
  std::optional<std::string> body{};  // JSON
  Duration total{};                   // the bound of the whole request; 0: none
  Duration idle{};                    // the bound of a time without a byte; 0: none
  // Gets the bytes of an answer with a status of 2xx as they come; false ends the request. Without
  // it they are collected.
  std::function<bool(std::string_view bytes)> on_bytes{};
};

struct CurlAnswer {
  int status = 0;         // 0: none came
  std::string body{};     // what on_bytes has not got
  std::string failure{};  // why the answer is not whole; empty: it is, or its reader ended it
  Duration retry_after{};
};

// One thread at a time, but for wake(). load_libcurl() has succeeded.
class CurlChannel {
 public:
  // Both outlive the channel. A request ends soon after `is_stopped` was set and wake() was called.
  CurlChannel(const ClusterAccess& access, const std::atomic<bool>& is_stopped);
  ~CurlChannel();

  CurlAnswer send(const CurlRequest& request, const Secrets& secrets);
  void wake();  // from any thread

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::engine
