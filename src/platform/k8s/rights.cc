#include "platform/k8s/rights.h"

#include <initializer_list>

#include "base/format.h"

namespace lockstep::k8s {
namespace {

constexpr auto kGroup = "rbac.authorization.k8s.io";

Json list_of(std::initializer_list<const char*> words) {
  Json list = Json::array();
  for (const char* word : words) list.push_back(word);
  return list;
}

// On objects of the core API.
Json rule(const char* resource, std::initializer_list<const char*> verbs) {
  return {
      {"apiGroups", list_of({""})}, {"resources", list_of({resource})}, {"verbs", list_of(verbs)}};
}

Json rights_object(const char* kind, Json metadata, Json fields) {
  Json object = {{"apiVersion", std::string(kGroup) + "/v1"},
                 {"kind", kind},
                 {"metadata", std::move(metadata)}};
  object.update(fields);
  return object;
}

Json binding(const char* role_kind, const std::string& role, const Json& account) {
  return {{"roleRef", {{"apiGroup", kGroup}, {"kind", role_kind}, {"name", role}}},
          {"subjects", Json::array({account})}};
}

}  // namespace

std::vector<Json> rights_manifests(const std::string& name, const std::string& in_namespace) {
  const Json inside = {{"name", name}, {"namespace", in_namespace}};
  // Objects of the whole cluster: daemons in other namespaces have their own.
  const std::string cluster_name = format("{}-{}", in_namespace, name);
  const Json outside = {{"name", cluster_name}};
  const Json account = {{"kind", "ServiceAccount"}, {"name", name}, {"namespace", in_namespace}};
  const Json rules = Json::array({rule("pods", {"create", "get", "list", "watch", "delete"}),
                                  rule("configmaps", {"create", "get", "list", "delete"}),
                                  rule("secrets", {"create"})});
  return {
      {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", inside}},
      rights_object("Role", inside, {{"rules", rules}}),
      rights_object("RoleBinding", inside, binding("Role", name, account)),
      rights_object("ClusterRole", outside,
                    {{"rules", Json::array({rule("nodes", {"get", "list", "watch"})})}}),
      rights_object("ClusterRoleBinding", outside, binding("ClusterRole", cluster_name, account))};
}

}  // namespace lockstep::k8s
