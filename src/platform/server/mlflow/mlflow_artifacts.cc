// Artifacts by proxy: /api/2.0/mlflow-artifacts/artifacts/EXPERIMENT/RUN/artifacts/PATH. Contents
// pass in parts.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include <unistd.h>

#include "base/format.h"
#include "platform/server/mlflow/mlflow_server.h"
#include "platform/server/mlflow/run_name.h"

namespace lockstep::mlflow {
namespace {

using artifacts::Artifact;

const std::vector<std::string> kArtifactPrefix = {"api", "2.0", "mlflow-artifacts", "artifacts"};
constexpr std::int64_t kPartBytes = 256 << 10;
constexpr Duration kUploadTimeMax = std::chrono::hours(24);

// The words of "0/demo-7/artifacts/a/b".
struct Place {
  std::string experiment, run, path;  // path: empty for the run's folder
};

Result<Place> place_of(const std::vector<std::string>& parts) {
  if (parts.size() < 3 || parts[2] != "artifacts")
    return Error{Code::not_found, "artifacts are at EXPERIMENT/RUN/artifacts/PATH"};
  Place place{.experiment = parts[0], .run = parts[1], .path = {}};
  if (parts.size() > 3)
    place.path = TRY(artifacts::checked_path(std::vector(parts.begin() + 3, parts.end())));
  return place;
}

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Sends a content, part by part.
class Download : public net::HttpStream {
 public:
  Download(Fd file, std::int64_t size) : file_(std::move(file)), size_(size) {}
  Bytes body_max() const override { return Bytes(0); }
  Result<void> take(std::string_view) override { return {}; }
  net::HttpResponse answer() override {
    return {.content_type = "application/octet-stream",
            .headers = {{"Cache-Control", "no-store"},
                        {"Content-Disposition", "attachment"},
                        {"X-Content-Type-Options", "nosniff"}}};
  }
  std::optional<std::int64_t> size() const override { return size_; }
  Result<std::string> next() override {
    std::string part(static_cast<std::size_t>(kPartBytes), '\0');
    const ssize_t read = ::read(file_.get(), part.data(), part.size());
    if (read < 0) return os_error("reading an artifact", errno);
    part.resize(static_cast<std::size_t>(read));
    return part;
  }

 private:
  const Fd file_;
  const std::int64_t size_;
};

class Upload : public net::HttpStream {
 public:
  using Finish = std::function<net::HttpResponse(Result<void>, artifacts::IncomingArtifact&)>;
  Upload(std::unique_ptr<artifacts::IncomingArtifact> incoming, Bytes most,
         const SteadyClock& steady, Finish finish)
      : incoming_(std::move(incoming)),
        most_(most),
        steady_(steady),
        end_(steady.since_boot() + kUploadTimeMax),
        finish_(std::move(finish)) {}
  Bytes body_max() const override { return most_; }
  Result<void> take(std::string_view part) override {
    if (steady_.since_boot() < end_) return stored_ = incoming_->add(part);
    return stored_ = Error{Code::timeout, "the content did not come within a day"};
  }
  net::HttpResponse answer() override { return finish_(std::move(stored_), *incoming_); }

 private:
  const std::unique_ptr<artifacts::IncomingArtifact> incoming_;
  const Bytes most_;
  const SteadyClock& steady_;
  const Duration end_;  // by the steady clock
  const Finish finish_;
  Result<void> stored_{};
};

// An answer that is short.
class Ready : public net::HttpStream {
 public:
  explicit Ready(net::HttpResponse response) : response_(std::move(response)) {}
  Bytes body_max() const override { return Bytes(0); }
  Result<void> take(std::string_view) override { return {}; }
  net::HttpResponse answer() override { return std::move(response_); }

 private:
  net::HttpResponse response_;
};

}  // namespace

bool MlflowServer::is_for_artifacts(const net::HttpRequest& request) {
  return request.path.size() >= kArtifactPrefix.size() &&
         std::equal(kArtifactPrefix.begin(), kArtifactPrefix.end(), request.path.begin());
}

MlflowServer::Opened MlflowServer::open_artifacts(const net::HttpRequest& request,
                                                  const Caller& caller) {
  auto opened = artifact_call(request, caller);
  if (opened) return *std::move(opened);
  return response_of(opened.error());
}

Result<std::unique_ptr<net::HttpStream>> MlflowServer::artifact_call(
    const net::HttpRequest& request, const Caller& caller) {
  std::vector<std::string> parts(
      request.path.begin() + static_cast<std::ptrdiff_t>(kArtifactPrefix.size()),
      request.path.end());
  if (parts.empty() && request.method == "GET") return list_artifacts(request, caller);
  const Place place = TRY(place_of(parts));
  const Json body = {{"run_id", place.run}};
  const Call call{request, caller, body};
  if (request.method == "GET" || request.method == "HEAD") {
    const RunRow run = TRY(readable_run(call));
    const Artifact artifact = TRY(artifacts_.find(run.id, place.path));
    return Stream(std::make_unique<Download>(TRY(artifacts_.open(artifact)), artifact.size));
  }
  if (request.method == "PUT") return put_artifact(call, place.path);
  if (request.method != "DELETE")
    return Error{Code::not_found, format("no call {} of artifacts", request.method)};
  const RunRow run = TRY(changeable_run(call));
  if (!TRY(artifacts_.remove(run.id, place.path)))
    return Error{Code::not_found, format("{} has no artifact {}", text(run.id), place.path)};
  return Stream(std::make_unique<Ready>(response_of(Json::object())));
}

// The rights, and that the run is still there, are checked again at the end: it may come later.
Result<std::unique_ptr<net::HttpStream>> MlflowServer::put_artifact(const Call& call,
                                                                    const std::string& path) {
  const RunRow run = TRY(changeable_run(call));
  if (path.empty()) return Error{Code::invalid, "the path of an artifact is missing"};
  return Stream(std::make_unique<Upload>(
      TRY(artifacts_.begin()), setup_.controller.state().settings.artifact_max, setup_.steady,
      [this, path, caller = call.caller, name = run_name(run.id)](
          Result<void> stored, artifacts::IncomingArtifact& incoming) -> net::HttpResponse {
        const auto finish = [&]() -> Result<void> {
          TRY(std::move(stored));
          const Json body = {{"run_id", name}};
          const RunRow now = TRY(changeable_run({net::HttpRequest(), caller, body}));
          TRY(artifacts_.add(now.id, path, incoming));
          return {};
        };
        const auto done = finish();
        return done ? response_of(Json::object()) : response_of(done.error());
      }));
}

Result<std::unique_ptr<net::HttpStream>> MlflowServer::list_artifacts(
    const net::HttpRequest& request, const Caller& caller) {
  const auto path = request.query.find("path");
  const Place place =
      TRY(place_of(split_path(path == request.query.end() ? std::string() : path->second)));
  const Json body = {{"run_id", place.run}};
  const RunRow run = TRY(readable_run({request, caller, body}));
  Json files = Json::array();
  for (const Artifact& artifact : TRY(artifacts_.list(run.id, place.path))) {
    // Clients join the names with the folder.
    Json file = {{"path", artifact.path.substr(artifact.path.rfind('/') + 1)},
                 {"is_dir", artifact.is_folder}};
    if (!artifact.is_folder) file["file_size"] = artifact.size;
    files.push_back(std::move(file));
  }
  return Stream(std::make_unique<Ready>(response_of(Json{{"files", std::move(files)}})));
}

}  // namespace lockstep::mlflow
