#include "platform/server/route_call.h"

#include "base/format.h"
#include "platform/api/error.h"

namespace lockstep {

namespace {

Error not_found(Error error) { return {Code::not_found, std::move(error.message)}; }

HttpResponse response(int status, std::string body) {
  return {.status = status,
          .content_type = "application/json",
          .body = std::move(body),
          .headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}}};
}

}  // namespace

HttpResponse json_response(const Json& json) { return response(200, dump_json(json) + "\n"); }

HttpResponse error_response(const Error& error) {
  return response(api::status_of(error.code), api::error_body(error) + "\n");
}

Result<RunId> run_of(const std::vector<std::string>& parameters) {
  auto run = parse_run_id(format("{}/{}", parameters.at(0), parameters.at(1)));
  return run ? run : not_found(run.error());
}

Result<NodeId> node_of(const std::vector<std::string>& parameters) {
  auto node = parse_node_id(format("{}/{}.{}/{}", parameters.at(0), parameters.at(1),
                                   parameters.at(2), parameters.at(3)));
  return node ? node : not_found(node.error());
}

}  // namespace lockstep
