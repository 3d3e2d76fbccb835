// ApiServer: the calls of the API server of Kubernetes that the engine makes. Tests have their own.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "text/json.h"

namespace lockstep::engine {

// The answer to one call. `error` is for people and has no secret.
struct ApiReply {
  int status = 0;          // of HTTP; 0: no answer came, and the call may have had its effect
  Json object{};           // null if there is none; a Status of Kubernetes if the call was refused
  std::string error{};     // empty if ok()
  Duration retry_after{};  // as the server asks by Retry-After; 0: it asks for none

  bool ok() const { return status >= 200 && status < 300; }
};

// The error of a reply that is not ok(). Code::unavailable: no answer, 429 or 5xx, so that a later
// call may succeed; else Code::denied.
Error error_of(const ApiReply& reply);

// Paths are absolute and have their query: "/api/v1/namespaces/ml/pods?labelSelector=a%3Db". Calls
// come from one thread at a time; `watch` may run on a second one; `stop` from any.
class ApiServer {
 public:
  virtual ~ApiServer() = default;

  virtual ApiReply get(const std::string& path) = 0;  // one object, or a list
  virtual ApiReply create(const std::string& path, const Json& object) = 0;   // POST
  virtual ApiReply remove(const std::string& path, const Json& options) = 0;  // DELETE

  // Gives each event of a watch to `on_event`, until the server ends the watch, `on_event` returns
  // false or stop() is called: then the answer is ok(). It has status 0 if the connection was cut,
  // or if no byte came for `idle`.
  virtual ApiReply watch(const std::string& path, Duration idle,
                         const std::function<bool(const Json& event)>& on_event) = 0;
  // For the end of the program: ends the call and the watch that run, and each later one at once.
  virtual void stop() = 0;
};

}  // namespace lockstep::engine
