#include "platform/agent/fetch/daemon_files.h"

#include <chrono>

#include "base/log.h"
#include "platform/host/home.h"

namespace lockstep::agent {
namespace {

constexpr Duration kFileCallLimit = std::chrono::seconds(20);
constexpr Duration kFileRetry = std::chrono::seconds(1);

// The daemon is away or refuses for now, as for a heartbeat.
bool is_passing(const Error& error) {
  return error.code == Code::unavailable || error.code == Code::timeout ||
         error.code == Code::denied;
}

}  // namespace

Result<void> DaemonFiles::find_daemon() {
  auto file = host::read_daemon_file(daemon_file_);
  if (!file) return Error{Code::unavailable, file.error().message};
  client_.emplace(file->url, token_,
                  client::TokenOwner{.attempt = model::AttemptName{generation_, node_.attempt}});
  return {};
}

template <class Route>
Result<typename Route::Answer> DaemonFiles::call(const Route& route,
                                                 const typename Route::Request& request) {
  client::Arguments<Route> arguments{.path = node_, .query = {}, .request = request};
  if (!generation_.empty()) arguments.query.generation = generation_;
  const auto once = [&]() -> Result<typename Route::Answer> {
    if (!client_) TRY(find_daemon());
    return client_->call(route, arguments, Deadline::after(kFileCallLimit));
  };
  for (;;) {
    auto answer = once();
    if (answer || !is_passing(answer.error())) return answer;
    client_.reset();
    LS_LOG(warning, "{}; it is tried again", answer.error().message);
    if (!pause_(kFileRetry)) return Error{Code::cancelled, answer.error().message};
  }
}

Result<model::UploadManifest> DaemonFiles::manifest() { return call(api::kNodeUpload, {}); }

Result<api::UploadParts> DaemonFiles::parts(const api::UploadPartsRequest& request) {
  return call(api::kNodeFiles, request);
}

Result<api::NodeCheckpoint> DaemonFiles::choice() { return call(api::kNodeCheckpoint, {}); }

Result<api::CheckpointPart> DaemonFiles::part(const api::CheckpointPartRequest& request) {
  return call(api::kNodeCheckpointPart, request);
}

}  // namespace lockstep::agent
