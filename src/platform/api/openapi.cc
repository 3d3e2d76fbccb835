#include "platform/api/openapi.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "net/http/http.h"
#include "platform/api/error.h"
#include "platform/api/paths.h"
#include "platform/api/routes.h"

namespace lockstep::api {

template <class T>
Json route_schema() {
  return json_schema<T>();
}

namespace {

constexpr std::string_view kScheme = "token";

Json text_of(std::string_view words) { return std::string(words); }

Json reference(std::string_view kind, std::string_view name) {
  return {{"$ref", format("#/components/{}/{}", kind, name)}};
}

Json json_content(Json schema) { return {{"application/json", {{"schema", std::move(schema)}}}}; }

Json schema_of(const Body& body) {
  return body.name.empty() ? Json{{"type", "object"}} : reference("schemas", body.name);
}

// Method and the constant words of the path: "runs_demo_stop" would change with a parameter's name,
// and the summary is for users.
std::string operation_id(const Route& route) {
  std::string id;
  for (char c : route.method) id += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (std::string_view segment : segments_of(route.path)) {
    if (segment == "api" || segment == "v1") continue;
    id += segment.starts_with('{') ? "_of" : "";
    if (segment.starts_with('{')) continue;
    id += '_';
    for (char c : segment) id += c == '.' ? '_' : c;
  }
  return id;
}

Json path_parameter(std::string_view segment) {
  const std::string_view name = segment.substr(1, segment.size() - 2);
  const auto place = std::ranges::find(kPathParameters, name, &PathParameter::name);
  LS_CHECK(place != kPathParameters.end(), "the place {} is not declared", name);
  return {{"name", text_of(name)},
          {"in", "path"},
          {"required", true},
          {"description", text_of(place->help)},
          {"schema", {{"type", "string"}, {"pattern", text_of(place->pattern)}}},
          {"example", text_of(place->example)}};
}

// A query omits absent values: it contains no null.
Json without_null(Json schema) {
  const bool is_nullable = schema.contains("anyOf") && schema["anyOf"][1].contains("type") &&
                           schema["anyOf"][1]["type"] == "null";
  return is_nullable ? Json(schema["anyOf"][0]) : schema;
}

Json parameters_of(const Route& route) {
  Json parameters = Json::array();
  for (std::string_view segment : segments_of(route.path))
    if (segment.starts_with('{')) parameters.push_back(path_parameter(segment));
  const Json query = route.query();
  for (const auto& [name, schema] : query["properties"].items()) {
    Json description = schema["description"];
    Json bare = without_null(schema);
    bare.erase("description");
    parameters.push_back({{"name", name},
                          {"in", "query"},
                          {"description", std::move(description)},
                          {"schema", std::move(bare)}});
  }
  return parameters;
}

std::vector<int> error_statuses_of(const Route& route) {
  std::vector<int> all = {400, 408, 414, 431, 500, 503};
  if (route.caller != Caller::anyone) all.insert(all.end(), {401, status_of(Code::denied)});
  if (route.request.schema != nullptr) all.insert(all.end(), {413, 415, 417});
  const bool is_unknown = route.errors == RouteErrors::run_not_found ||
                          route.errors == RouteErrors::run_not_found_or_storage_full;
  const bool is_login = route.errors == RouteErrors::login_refused;
  const bool is_full = is_login || route.errors == RouteErrors::storage_full ||
                       route.errors == RouteErrors::run_not_found_or_storage_full;
  if (is_unknown) all.push_back(status_of(Code::not_found));
  // A name that there is already.
  if (route.request.schema != nullptr &&
      (route.action == Action::manage_users || route.action == Action::manage_project))
    all.push_back(status_of(Code::already_exists));
  if (is_login) all.push_back(status_of(Code::denied));
  if (is_full) all.push_back(status_of(Code::exhausted));
  std::ranges::sort(all);
  return all;
}

// A route without an answer upgrades the connection.
Json success_of(const Route& route) {
  if (route.answer.schema == nullptr)
    return {{"101", {{"description", "the connection is the stream from here on"}}}};
  if (route.form == AnswerForm::events)
    return {{"200",
             {{"description", "events without an end; `data` of each is this, as JSON"},
              {"content", {{"text/event-stream", {{"schema", schema_of(route.answer)}}}}}}}};
  return {{"200", {{"description", "done"}, {"content", json_content(schema_of(route.answer))}}}};
}

Json responses_of(const Route& route) {
  Json all = success_of(route);
  for (int status : error_statuses_of(route))
    all[format("{}", status)] = reference("responses", format("{}", status));
  return all;
}

Json operation_of(const Route& route) {
  Json operation = {{"operationId", operation_id(route)}, {"summary", text_of(route.summary)}};
  if (route.caller == Caller::anyone) operation["security"] = Json::array();
  if (route.caller == Caller::user) operation["x-lockstep-action"] = text_of(name_of(route.action));
  if (Json parameters = parameters_of(route); !parameters.empty())
    operation["parameters"] = std::move(parameters);
  if (route.request.schema != nullptr)
    operation["requestBody"] = {{"required", true},
                                {"content", json_content(schema_of(route.request))}};
  operation["responses"] = responses_of(route);
  return operation;
}

Json paths() {
  Json all = Json::object();
  for (const Route* route : kRoutes) {
    std::string method(route->method);
    for (char& c : method) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    all[std::string(route->path)][method] = operation_of(*route);
  }
  return all;
}

// The daemon's answers have all their fields, including optional ones.
Json with_all_fields(Json schema) {
  if (!schema.is_structured()) return schema;
  for (Json& part : schema) part = with_all_fields(std::move(part));
  if (!schema.is_object() || !schema.contains("properties")) return schema;
  schema["required"] = Json::array();
  for (const auto& [name, field] : schema["properties"].items()) schema["required"].push_back(name);
  return schema;
}

Json schemas() {
  Json all = {{"Error", json_schema<ErrorAnswer>()}};
  for (const Route* route : kRoutes) {
    if (!route->request.name.empty())
      all[std::string(route->request.name)] = route->request.schema();
    if (!route->answer.name.empty())
      all[std::string(route->answer.name)] = with_all_fields(route->answer.schema());
  }
  return all;
}

Json responses() {
  std::vector<int> statuses;
  for (const Route* route : kRoutes)
    for (int status : error_statuses_of(*route))
      if (std::ranges::find(statuses, status) == statuses.end()) statuses.push_back(status);
  std::ranges::sort(statuses);
  Json all = Json::object();
  for (int status : statuses)
    all[format("{}", status)] = {{"description", text_of(net::status_text(status))},
                                 {"content", json_content(reference("schemas", "Error"))}};
  return all;
}

}  // namespace

Json openapi() {
  return {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Lockstep"},
        {"version", "1"},
        {"description",
         "The daemon's API. Durations and sizes are text such as \"1h 30m\" and \"4 GiB\", times "
         "UTC "
         "text, numbers that are not finite the strings \"NaN\", \"Infinity\" and \"-Infinity\". A "
         "method that a path does not have is refused with 405 and Allow, a path that is not here "
         "with 404; GET may be asked as HEAD."}}},
      {"security", Json::array({Json{{std::string(kScheme), Json::array()}}})},
      {"paths", paths()},
      {"components",
       {{"securitySchemes",
         {{std::string(kScheme),
           {{"type", "http"},
            {"scheme", "bearer"},
            {"description", "a user's token, or for agents that of their attempt"}}}}},
        {"schemas", schemas()},
        {"responses", responses()}}}};
}

}  // namespace lockstep::api
