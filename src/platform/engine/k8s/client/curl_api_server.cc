#include "platform/engine/k8s/client/curl_api_server.h"

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "platform/curl/libcurl.h"
#include "platform/engine/k8s/client/curl_channel.h"
#include "platform/engine/k8s/json_fields.h"

namespace lockstep::engine {
namespace {

constexpr Duration kCallLimit = std::chrono::seconds(30);
constexpr int kUnauthorized = 401;
constexpr JsonLimits kObjectLimits = {.size = 256_MiB};

std::string without_query(const std::string& path) { return path.substr(0, path.find('?')); }

// "403 Forbidden: pods is forbidden: User ..." of a Status object.
std::string refusal_of(const ApiReply& reply) {
  std::string words = format("{}", reply.status);
  if (const std::string reason = text_of(reply.object, {"reason"}); !reason.empty())
    words += " " + reason;
  if (const std::string message = text_of(reply.object, {"message"}); !message.empty())
    words += ": " + message;
  return words;
}

// Splits the bytes of a watch into events.
class EventLines {
 public:
  explicit EventLines(const std::function<bool(const Json&)>& on_event) : on_event_(on_event) {}

  // False once the reader has enough, or a line is no event.
  bool add(std::string_view bytes) {
    begun_.append(bytes);
    std::size_t begin = 0;
    for (std::size_t end; (end = begun_.find('\n', begin)) != std::string::npos; begin = end + 1)
      if (!take(std::string_view(begun_).substr(begin, end - begin))) return false;
    begun_.erase(0, begin);
    return true;
  }
  bool is_damaged() const { return is_damaged_; }

 private:
  bool take(std::string_view line) {
    if (line.empty()) return true;
    const auto event = parse_json(line);
    is_damaged_ = !event;
    return event && on_event_(*event);
  }

  const std::function<bool(const Json&)>& on_event_;
  std::string begun_;
  bool is_damaged_ = false;
};

}  // namespace

CurlApiServer::CurlApiServer(ClusterAccess access, const Clock& clock)
    : access_(std::move(access)),
      credentials_(access_, clock),
      calls_(std::make_unique<CurlChannel>(access_, is_stopped_)),
      watches_(std::make_unique<CurlChannel>(access_, is_stopped_)) {}

CurlApiServer::~CurlApiServer() = default;

Result<std::unique_ptr<CurlApiServer>> CurlApiServer::open(ClusterAccess access,
                                                           const Clock& clock) {
  if (auto loaded = curl::load_libcurl(); !loaded)
    return std::move(loaded).error().with_context("calls of Kubernetes");
  return std::unique_ptr<CurlApiServer>(new CurlApiServer(std::move(access), clock));
}

CurlAnswer CurlApiServer::send(CurlChannel& channel, const CurlRequest& request) {
  for (bool is_second = false;; is_second = true) {
    const auto secrets = credentials_.current();
    if (!secrets) return {.failure = secrets.error().message};
    CurlAnswer answer = channel.send(request, *secrets);
    if (answer.status != kUnauthorized) return answer;
    credentials_.forget();
    if (is_second) return answer;
  }
}

ApiReply CurlApiServer::reply_of(const CurlRequest& request, CurlAnswer answer) const {
  const std::string what = format("{} {}", request.method, without_query(request.path));
  ApiReply reply{.retry_after = answer.retry_after};
  if (!answer.failure.empty()) {
    reply.error = format("{} at {} has failed: {}", what, access_.server, answer.failure);
    return reply;
  }
  reply.status = answer.status;
  auto object = answer.body.empty() ? Result<Json>(Json()) : parse_json(answer.body, kObjectLimits);
  if (object) reply.object = *std::move(object);
  if (!reply.ok())
    reply.error = format("the API server at {} refused {} for {}: {}", access_.server, what,
                         access_.source, refusal_of(reply));
  else if (!object)
    reply = {.error = format("{} at {}: the answer is not JSON", what, access_.server)};
  return reply;
}

ApiReply CurlApiServer::call(const std::string& method, const std::string& path, const Json* body) {
  CurlRequest request{.method = method, .path = path, .total = kCallLimit};
  if (body != nullptr) request.body = dump_json(*body);
  return reply_of(request, send(*calls_, request));
}

ApiReply CurlApiServer::get(const std::string& path) { return call("GET", path, nullptr); }
ApiReply CurlApiServer::create(const std::string& path, const Json& object) {
  return call("POST", path, &object);
}
ApiReply CurlApiServer::remove(const std::string& path, const Json& options) {
  return call("DELETE", path, &options);
}

ApiReply CurlApiServer::watch(const std::string& path, Duration idle,
                              const std::function<bool(const Json& event)>& on_event) {
  EventLines lines(on_event);
  const CurlRequest request{
      .method = "GET", .path = path, .idle = idle, .on_bytes = [&](std::string_view bytes) {
        return lines.add(bytes);
      }};
  CurlAnswer answer = send(*watches_, request);
  if (lines.is_damaged()) answer.failure = "an event of the watch is not JSON";
  if (is_stopped_ && answer.status / 100 == 2) answer.failure.clear();
  return reply_of(request, std::move(answer));
}

void CurlApiServer::stop() {
  is_stopped_ = true;
  calls_->wake();
  watches_->wake();
}

}  // namespace lockstep::engine
