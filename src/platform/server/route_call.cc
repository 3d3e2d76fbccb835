#include "platform/server/route_call.h"

#include "base/format.h"
#include "platform/api/error.h"

namespace lockstep::server {

namespace {

Error not_found(Error error) { return {Code::not_found, std::move(error.message)}; }

net::HttpResponse response(int status, std::string body) {
  return {.status = status,
          .content_type = "application/json",
          .body = std::move(body),
          .headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}}};
}

}  // namespace

net::HttpResponse json_response(const Json& json) { return response(200, dump_json(json) + "\n"); }

net::HttpResponse error_response(const Error& error) {
  return response(api::status_of(error.code), api::error_body(error) + "\n");
}

Error no_such_run(const model::RunId& run) {
  return {Code::not_found, format("there is no run {}; `lockstep ps` lists them", text(run))};
}

Result<model::RunId> run_of(const std::vector<std::string>& parameters) {
  auto run = model::parse_run_id(format("{}/{}", parameters.at(0), parameters.at(1)));
  return run ? run : not_found(run.error());
}

Result<model::NodeId> node_of(const std::vector<std::string>& parameters) {
  auto node = model::parse_node_id(format("{}/{}.{}/{}", parameters.at(0), parameters.at(1),
                                          parameters.at(2), parameters.at(3)));
  return node ? node : not_found(node.error());
}

}  // namespace lockstep::server
