// Handlers: what each route does. They answer at once, or leave the answer to Waiting.
#pragma once

#include <memory>

#include "net/http_server.h"
#include "platform/api/routes.h"
#include "platform/server/ask.h"
#include "platform/server/server.h"
#include "platform/server/views.h"
#include "platform/server/waiting.h"

namespace lockstep {

HttpResponse json_response(const Json& json);
HttpResponse error_response(const Error& error);

class Handlers {
 public:
  // Null only for a route that nobody wrote a handler for.
  using Handler = void (Handlers::*)(const Ask&, Responder);
  static Handler of(const api::Route& route);

  Handlers(const ServerSetup& setup, Waiting& waiting) : setup_(setup), waiting_(waiting) {}

 private:
  template <auto Answer>
  void at_once(const Ask& ask, Responder responder);

  Result<Json> health(const Ask& ask);
  Result<Json> version(const Ask& ask);
  Result<Json> map(const Ask& ask);
  Result<Json> submit(const Ask& ask);
  Result<Json> runs(const Ask& ask);
  Result<Json> stop(const Ask& ask);
  Result<Json> metrics(const Ask& ask);
  void run(const Ask& ask, Responder responder);
  void logs(const Ask& ask, Responder responder);
  void heartbeat(const Ask& ask, Responder responder);

  Result<void> wait_for_run(const Ask& ask, std::shared_ptr<Responder> responder);
  Result<void> wait_for_logs(const Ask& ask, std::shared_ptr<Responder> responder);
  Result<void> wait_for_command(const Ask& ask, std::shared_ptr<Responder> responder);

  const State& state() const { return setup_.controller.state(); }
  Result<const Run*> find_run(const RunId& id) const;
  Result<Json> view(const RunId& id, Detail detail);
  Result<std::int64_t> keep_items(const NodeId& node, const api::Heartbeat& heartbeat);

  const ServerSetup& setup_;  // the server's
  Waiting& waiting_;          // the server's
};

}  // namespace lockstep
