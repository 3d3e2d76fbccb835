// CurlApiServer: an API server of Kubernetes over HTTPS, by libcurl.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "platform/engine/k8s/api_server.h"
#include "platform/engine/k8s/client/cluster_access.h"
#include "platform/engine/k8s/client/credentials.h"

namespace lockstep::engine {

class CurlChannel;
struct CurlRequest;
struct CurlAnswer;

// A call takes 30 s at most, and one that the server refuses with 401 is made again, once, with
// credentials that were read again. No other failure is tried again: the engine knows when to.
class CurlApiServer : public ApiServer {
 public:
  // Code::unavailable if this host has no libcurl. Connects with the first call.
  static Result<std::unique_ptr<CurlApiServer>> open(ClusterAccess access, const Clock& clock);
  ~CurlApiServer() override;

  ApiReply get(const std::string& path) override;
  ApiReply create(const std::string& path, const Json& object) override;
  ApiReply remove(const std::string& path, const Json& options) override;
  ApiReply watch(const std::string& path, Duration idle,
                 const std::function<bool(const Json& event)>& on_event) override;
  void stop() override;

 private:
  CurlApiServer(ClusterAccess access, const Clock& clock);
  ApiReply call(const std::string& method, const std::string& path, const Json* body);
  CurlAnswer send(CurlChannel& channel, const CurlRequest& request);
  ApiReply reply_of(const CurlRequest& request, CurlAnswer answer) const;

  const ClusterAccess access_;
  Credentials credentials_;
  std::atomic<bool> is_stopped_{false};
  const std::unique_ptr<CurlChannel> calls_, watches_;
};

}  // namespace lockstep::engine
