#include "platform/engine/k8s/access_check.h"

#include "base/format.h"
#include "platform/engine/k8s/json_fields.h"
#include "platform/k8s/rights.h"

namespace lockstep::engine {
namespace {

constexpr auto kReviewVersion = "authorization.k8s.io/v1";

Result<bool> may(ApiServer& api, const std::string& in_namespace, const std::string& verb,
                 const std::string& resource) {
  Json attributes = {{"verb", verb}, {"resource", resource}};
  if (!in_namespace.empty()) attributes["namespace"] = in_namespace;
  const Json review = {{"apiVersion", kReviewVersion},
                       {"kind", "SelfSubjectAccessReview"},
                       {"spec", {{"resourceAttributes", attributes}}}};
  const ApiReply reply =
      api.create(format("/apis/{}/selfsubjectaccessreviews", kReviewVersion), review);
  if (!reply.ok()) return error_of(reply);
  const Json& allowed = field_of(reply.object, {"status", "allowed"});
  return allowed.is_boolean() && allowed.get<bool>();
}

}  // namespace

Result<std::string> k8s_version(ApiServer& api) {
  const ApiReply reply = api.get("/version");
  if (!reply.ok()) return error_of(reply);
  std::string version = text_of(reply.object, {"gitVersion"});
  if (!version.empty()) return version;
  return Error{Code::invalid, "the server's answer to GET /version is not that of Kubernetes"};
}

Result<std::vector<std::string>> missing_rights(ApiServer& api, const std::string& in_namespace) {
  std::vector<std::string> missing;
  for (const k8s::ResourceRights& rights : k8s::daemon_rights()) {
    const std::string where = rights.in_namespace ? in_namespace : "";
    for (const std::string& verb : rights.verbs)
      if (!TRY(may(api, where, verb, rights.resource)))
        missing.push_back(format("{} {}{}", verb, rights.resource,
                                 rights.in_namespace ? "" : " in the whole cluster"));
  }
  return missing;
}

Result<std::vector<std::string>> missing_rights_in(ApiServer& api,
                                                   const std::string& in_namespace) {
  std::vector<std::string> missing;
  for (const k8s::ResourceRights& rights : k8s::daemon_rights()) {
    if (!rights.in_namespace) continue;
    for (const std::string& verb : rights.verbs)
      if (!TRY(may(api, in_namespace, verb, rights.resource)))
        missing.push_back(format("{} {} in {}", verb, rights.resource, in_namespace));
  }
  return missing;
}

}  // namespace lockstep::engine
