// DaemonFiles: files from the daemon, over HTTP. While it does not answer, calls are repeated: it
// may be restarted, at another address.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "platform/agent/fetch/checkpoint_source.h"
#include "platform/agent/fetch/upload_source.h"
#include "platform/client/client.h"
#include "platform/host/launch_spec.h"

namespace lockstep::agent {

class DaemonFiles : public UploadSource, public CheckpointSource {
 public:
  // `pause` waits for so long; false: give up.
  DaemonFiles(const host::LaunchSpec& launch, model::NodeId node,
              std::function<bool(Duration)> pause)
      : daemon_file_(launch.daemon_file),
        token_(launch.token),
        generation_(launch.generation),
        node_(std::move(node)),
        pause_(std::move(pause)) {}

  Result<model::UploadManifest> manifest() override;
  Result<api::UploadParts> parts(const api::UploadPartsRequest& request) override;
  Result<api::NodeCheckpoint> choice() override;
  Result<api::CheckpointPart> part(const api::CheckpointPartRequest& request) override;

 private:
  template <class Route>
  Result<typename Route::Answer> call(const Route& route, const typename Route::Request& request);
  Result<void> find_daemon();

  const std::filesystem::path daemon_file_;
  const std::string token_;
  const std::string generation_;
  const model::NodeId node_;
  const std::function<bool(Duration)> pause_;
  std::optional<client::Client> client_;
};

}  // namespace lockstep::agent
