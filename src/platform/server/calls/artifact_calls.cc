#include "platform/server/calls/artifact_calls.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include <unistd.h>

#include "base/format.h"
#include "net/base64.h"

namespace lockstep::server {
namespace {

constexpr std::size_t kUploadsMax = 64;
constexpr Duration kNextPartLimit = std::chrono::minutes(5);

api::ArtifactView artifact_view(artifacts::Artifact artifact) {
  return {.path = std::move(artifact.path),
          .is_folder = artifact.is_folder,
          .size = artifact.size,
          .sha256 = std::move(artifact.sha256)};
}

Result<void> check_upload_id(const std::string& id) {
  if (id.size() >= 16 && id.size() <= 64 &&
      id.find_first_not_of("0123456789abcdef") == std::string::npos)
    return {};
  return Error{Code::invalid, "upload: is 16 to 64 hex digits"};
}

Result<std::string> part_bytes(const std::string& text) {
  const auto bytes = net::from_base64(text);
  if (!bytes) return Error{Code::invalid, "bytes: is no base64"};
  if (std::ssize(*bytes) > api::kArtifactPartMax)
    return Error{Code::invalid, format("bytes: are at most {}", api::kArtifactPartMax)};
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

}  // namespace

Result<api::ArtifactList> ArtifactCalls::list(const RouteCall<api::kArtifacts>& call) {
  const model::RunId run = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(run));
  std::string folder;
  if (!call.query.path.empty()) folder = TRY(artifacts::checked_path(call.query.path));
  std::vector<artifacts::Artifact> found;
  if (auto one = context_.artifacts().find(run, folder); !folder.empty() && one)
    found.push_back(*std::move(one));
  else
    found = TRY(context_.artifacts().list(run, folder));
  if (found.empty() && !folder.empty())
    return Error{Code::not_found, format("{} has no artifact {}", text(run), folder)};
  const auto limit = static_cast<std::size_t>(call.query.limit);
  api::ArtifactList list{.artifacts = {}, .more = found.size() > limit};
  found.resize(std::min(found.size(), limit));
  for (artifacts::Artifact& one : found) list.artifacts.push_back(artifact_view(std::move(one)));
  return list;
}

Result<api::ArtifactPart> ArtifactCalls::part(const RouteCall<api::kArtifactPart>& call) {
  const model::RunId run = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(run));
  if (call.query.offset < 0) return Error{Code::invalid, "offset: is at least 0"};
  const auto artifact =
      TRY(context_.artifacts().find(run, TRY(artifacts::checked_path(call.query.path))));
  const Fd file = TRY(context_.artifacts().open(artifact));
  std::vector<std::byte> bytes(static_cast<std::size_t>(api::kArtifactPartMax));
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t read = ::pread(file.get(), bytes.data() + filled, bytes.size() - filled,
                                 call.query.offset + static_cast<std::int64_t>(filled));
    if (read < 0 && errno != EINTR) return os_error("reading an artifact", errno);
    if (read == 0) break;
    if (read > 0) filled += static_cast<std::size_t>(read);
  }
  return api::ArtifactPart{.bytes = net::to_base64(std::span(bytes).first(filled)),
                           .size = artifact.size,
                           .sha256 = artifact.sha256};
}

Result<ArtifactCalls::Upload*> ArtifactCalls::upload_of(
    const RouteCall<api::kAddArtifactPart>& call, const model::RunId& run) {
  const api::AddArtifactPart& request = call.request;
  TRY(check_upload_id(request.upload));
  const std::string path = TRY(artifacts::checked_path(request.path));
  const std::string key = format("{}/{}", call.caller.name, request.upload);
  auto found = uploads_.find(key);
  if (found == uploads_.end()) {
    if (request.offset != 0)
      return Error{Code::not_found, "upload: the daemon has no part of it any more: begin again"};
    if (uploads_.size() >= kUploadsMax)
      return Error{Code::unavailable, "too many files are being sent now; try again later"};
    Upload upload{.user = call.caller.name,
                  .run = run,
                  .path = path,
                  .content = TRY(context_.artifacts().begin())};
    found = uploads_.emplace(key, std::move(upload)).first;
  }
  if (found->second.run != run || found->second.path != path)
    return Error{Code::invalid, "upload: this id is that of another artifact"};
  found->second.end = loop_.after(kNextPartLimit, [this, key] { uploads_.erase(key); });
  return &found->second;
}

// A part that was stored already is ignored, because a client repeats a call without an answer.
Result<api::ArtifactPartStored> ArtifactCalls::add_part(
    const RouteCall<api::kAddArtifactPart>& call) {
  const model::RunId run = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(run));
  const std::string bytes = TRY(part_bytes(call.request.bytes));
  Upload& upload = *TRY(upload_of(call, run));
  if (upload.content->size() != call.request.offset)
    return api::ArtifactPartStored{.next = upload.content->size()};
  const Bytes most = context_.state().settings.artifact_max;
  if (upload.content->size() + std::ssize(bytes) > most.count())
    return Error{Code::invalid, format("an artifact has at most {} (the daemon's setting "
                                       "artifact_max)",
                                       lockstep::text(most))};
  TRY(upload.content->add(bytes));
  api::ArtifactPartStored stored{.next = upload.content->size()};
  if (!call.request.last) return stored;
  auto added = context_.artifacts().add(run, upload.path, *upload.content);
  uploads_.erase(format("{}/{}", call.caller.name, call.request.upload));
  if (!added) return std::move(added).error();
  TRY(context_.accounts().record(
      context_.record(call, {.target = format("{}/{}", text(run), added->path),
                             .project = run.project,
                             .after = format("{} bytes", added->size)})));
  stored.artifact = artifact_view(*std::move(added));
  return stored;
}

}  // namespace lockstep::server
