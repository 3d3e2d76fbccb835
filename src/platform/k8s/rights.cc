#include "platform/k8s/rights.h"

#include "base/format.h"

namespace lockstep::k8s {
namespace {

constexpr auto kGroup = "rbac.authorization.k8s.io";

// The rules of a role: of the namespace, or of the cluster.
Json rules(bool in_namespace) {
  Json rules = Json::array();
  for (const ResourceRights& rights : daemon_rights())
    if (rights.in_namespace == in_namespace)
      rules.push_back({{"apiGroups", Json::array({""})},
                       {"resources", Json::array({rights.resource})},
                       {"verbs", rights.verbs}});
  return rules;
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

const std::vector<ResourceRights>& daemon_rights() {
  static const std::vector<ResourceRights> rights = {
      {.resource = "pods", .verbs = {"create", "get", "list", "watch", "delete"}},
      {.resource = "configmaps", .verbs = {"create", "get", "list", "delete"}},
      {.resource = "secrets", .verbs = {"create"}},
      {.resource = "events", .verbs = {"list"}},
      {.resource = "nodes", .verbs = {"get", "list", "watch"}, .in_namespace = false}};
  return rights;
}

std::vector<Json> rights_manifests(const std::string& name, const std::string& in_namespace,
                                   const std::vector<std::string>& further) {
  const Json inside = {{"name", name}, {"namespace", in_namespace}};
  // Objects of the whole cluster, and those of further namespaces: daemons in other namespaces have
  // their own.
  const std::string long_name = format("{}-{}", in_namespace, name);
  const Json outside = {{"name", long_name}};
  const Json account = {{"kind", "ServiceAccount"}, {"name", name}, {"namespace", in_namespace}};
  std::vector<Json> objects = {
      {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", inside}},
      rights_object("Role", inside, {{"rules", rules(true)}}),
      rights_object("RoleBinding", inside, binding("Role", name, account)),
      rights_object("ClusterRole", outside, {{"rules", rules(false)}}),
      rights_object("ClusterRoleBinding", outside, binding("ClusterRole", long_name, account))};
  for (const std::string& other : further) {
    const Json there = {{"name", long_name}, {"namespace", other}};
    objects.push_back(rights_object("Role", there, {{"rules", rules(true)}}));
    objects.push_back(rights_object("RoleBinding", there, binding("Role", long_name, account)));
  }
  return objects;
}

}  // namespace lockstep::k8s
