// What a handler is given: a call, read by its route's declaration, and the way to answer it.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "net/http_server.h"
#include "platform/api/json.h"
#include "platform/api/routes.h"
#include "platform/core/model/ids.h"

namespace lockstep {

HttpResponse json_response(const Json& json);
HttpResponse error_response(const Error& error);

// A call of the route `kRoute`, such as Ask<api::kStop>.
template <const auto& kRoute>
struct Ask {
  using Route = std::remove_cvref_t<decltype(kRoute)>;

  std::vector<std::string> words;  // of the path, in its order
  typename Route::Query query{};
  typename Route::Request request{};
};

// What is wrong with a query or a body is said with its name; nothing is ignored.
template <const auto& kRoute>
Result<Ask<kRoute>> read_ask(const HttpRequest& request, std::vector<std::string> words) {
  using Asked = Ask<kRoute>;
  Asked ask{.words = std::move(words)};
  auto query = from_words<typename Asked::Route::Query>(request.query);
  if (!query) return std::move(query).error().within("the query");
  ask.query = *std::move(query);
  if constexpr (kRoute.request.schema != nullptr) {
    auto json = parse_json(request.body);
    if (!json) return std::move(json).error().within("the body");
    ask.request = TRY(from_json<typename Asked::Route::Request>(*json));
  }
  return ask;
}

// Answers once; copies answer the same call. Who drops all of them answers 500.
template <class Answer>
class Reply {
 public:
  explicit Reply(Responder responder)
      : responder_(std::make_shared<Responder>(std::move(responder))) {}

  void give(const Result<Answer>& answer) const {
    responder_->send(answer ? json_response(to_json(*answer)) : error_response(answer.error()));
  }
  // Nobody hears the answer.
  bool gone() const { return responder_->gone(); }

 private:
  // Shared because a std::function, which keeps it while it waits, must be copyable.
  std::shared_ptr<Responder> responder_;
};

// {project}/{number} of a path; Code::not_found when it cannot be a run.
Result<RunId> run_of(const std::vector<std::string>& words);
// ... and {epoch} and {index}.
Result<NodeId> node_of(const std::vector<std::string>& words);

}  // namespace lockstep
