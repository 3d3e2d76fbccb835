#include "platform/k8s/installation.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/format.h"
#include "platform/k8s/project_table.h"
#include "platform/k8s/rights.h"
#include "platform/k8s/volume.h"

namespace lockstep::k8s {
namespace {

constexpr int kDaemonPort = 7070;
constexpr int kDaemonUser = 1000;
constexpr auto kSharedVolume = "shared";
constexpr auto kDaemonVolume = "/var/lib/lockstep";
// Below the volume, whose root belongs to root: the daemon wants a folder of its own.
constexpr auto kDaemonHome = "/var/lib/lockstep/home";
constexpr auto kTableVolume = "project-namespaces";
constexpr auto kTableFolder = "/etc/lockstep/project-namespaces";
constexpr auto kTableFile = "projects.yaml";

Json installed_object(const char* version, const char* kind, const Installation& installation,
                      Json spec) {
  return {{"apiVersion", version},
          {"kind", kind},
          {"metadata", {{"name", installation.name}, {"namespace", installation.in_namespace}}},
          {"spec", std::move(spec)}};
}

Json daemon_labels(const Installation& installation) {
  return {{"app.kubernetes.io/name", "lockstep"},
          {"app.kubernetes.io/instance", installation.name},
          {"app.kubernetes.io/component", "daemon"}};
}

// The volume of runs with the shared folder, if there is one.
std::optional<Volume> shared_volume(const Installation& installation) {
  const std::string& folder = installation.shared;
  if (folder.empty()) return std::nullopt;
  for (const std::string& words : installation.volumes) {
    auto volume = parse_volume(words);
    if (volume && (folder == volume->path || folder.starts_with(volume->path + "/")))
      return *std::move(volume);
  }
  return std::nullopt;
}

std::string table_name(const Installation& installation) {
  return format("{}-project-namespaces", installation.name);
}

Json table_object(const Installation& installation) {
  return {
      {"apiVersion", "v1"},
      {"kind", "ConfigMap"},
      {"metadata", {{"name", table_name(installation)}, {"namespace", installation.in_namespace}}},
      {"data", {{kTableFile, installation.project_table}}}};
}

Json namespace_object(const std::string& name) {
  return {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}};
}

// Those of the projects. The table has been checked.
std::vector<std::string> project_namespaces_of(const Installation& installation) {
  const auto table = parse_project_table(installation.project_table, kTableFile);
  if (installation.project_table.empty() || !table) return {};
  return further_namespaces(*table, installation.in_namespace);
}

Json volume_claim(const Installation& installation) {
  Json spec = {{"accessModes", Json::array({"ReadWriteOnce"})},
               {"resources", {{"requests", {{"storage", installation.storage}}}}}};
  if (!installation.storage_class.empty()) spec["storageClassName"] = installation.storage_class;
  return installed_object("v1", "PersistentVolumeClaim", installation, std::move(spec));
}

// The name of the Service is in the daemon's certificate, and in the address that agents call.
Json serve_command(const Installation& installation) {
  Json words = Json::array({"lockstep", "serve", "--engine", "k8s", "--namespace",
                            installation.in_namespace, "--agent-image", installation.agent_image,
                            "--device-resource", installation.device_resource});
  const auto add = [&](const char* option, const std::string& value) {
    if (value.empty()) return;
    words.push_back(option);
    words.push_back(value);
  };
  add("--image", installation.run_image);
  if (!installation.project_table.empty())
    add("--project-namespaces", format("{}/{}", kTableFolder, kTableFile));
  for (const std::string& volume : installation.volumes) add("--pod-volume", volume);
  add("--shared", installation.shared);
  for (std::string word : {std::string("--listen"), std::string("0.0.0.0"), std::string("--port"),
                           format("{}", kDaemonPort), std::string("--name"),
                           format("{}.{}.svc", installation.name, installation.in_namespace)})
    words.push_back(std::move(word));
  return words;
}

Json daemon_container(const Installation& installation) {
  Json mounts = Json::array({{{"name", "home"}, {"mountPath", kDaemonVolume}}});
  if (const auto shared = shared_volume(installation))
    mounts.push_back(mount_json(*shared, kSharedVolume));
  if (!installation.project_table.empty())
    mounts.push_back({{"name", kTableVolume}, {"mountPath", kTableFolder}, {"readOnly", true}});
  return {
      {"name", "daemon"},
      {"image", installation.image},
      {"command", serve_command(installation)},
      {"env", Json::array({{{"name", "LOCKSTEP_HOME"}, {"value", kDaemonHome}}})},
      {"ports", Json::array({{{"name", "api"}, {"containerPort", kDaemonPort}}})},
      {"readinessProbe", {{"tcpSocket", {{"port", "api"}}}, {"periodSeconds", 5}}},
      {"resources", {{"requests", {{"cpu", "1"}, {"memory", "1Gi"}}}}},
      {"securityContext",
       {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", Json::array({"ALL"})}}}}},
      {"volumeMounts", std::move(mounts)}};
}

Json daemon_pod(const Installation& installation) {
  Json volumes = Json::array(
      {{{"name", "home"}, {"persistentVolumeClaim", {{"claimName", installation.name}}}}});
  if (const auto shared = shared_volume(installation))
    volumes.push_back(volume_json(*shared, kSharedVolume));
  if (!installation.project_table.empty())
    volumes.push_back(
        {{"name", kTableVolume}, {"configMap", {{"name", table_name(installation)}}}});
  return {{"serviceAccountName", installation.name},
          {"enableServiceLinks", false},
          {"securityContext",
           {{"runAsNonRoot", true},
            {"runAsUser", kDaemonUser},
            {"runAsGroup", kDaemonUser},
            {"fsGroup", kDaemonUser},
            {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
          {"containers", Json::array({daemon_container(installation)})},
          {"volumes", std::move(volumes)}};
}

// Recreate: two daemons never serve one folder, which the new one would refuse to do.
Json deployment(const Installation& installation) {
  const Json labels = daemon_labels(installation);
  return installed_object(
      "apps/v1", "Deployment", installation,
      {{"replicas", 1},
       {"strategy", {{"type", "Recreate"}}},
       {"selector", {{"matchLabels", labels}}},
       {"template", {{"metadata", {{"labels", labels}}}, {"spec", daemon_pod(installation)}}}});
}

Json service(const Installation& installation) {
  return installed_object(
      "v1", "Service", installation,
      {{"selector", daemon_labels(installation)},
       {"ports", Json::array({{{"name", "api"}, {"port", kDaemonPort}, {"targetPort", "api"}}})}});
}

}  // namespace

Result<void> check_installation(const Installation& installation) {
  for (const std::string& words : installation.volumes) TRY(parse_volume(words));
  if (!installation.project_table.empty())
    TRY(parse_project_table(installation.project_table, "--project-namespaces"));
  if (installation.shared.empty() || shared_volume(installation)) return {};
  return Error{Code::invalid, format("the folder {} is in no volume: add --volume pvc:NAME:{}",
                                     installation.shared, installation.shared)};
}

std::vector<Json> installation_manifests(const Installation& installation) {
  const auto further = project_namespaces_of(installation);
  std::vector<Json> objects = {namespace_object(installation.in_namespace)};
  std::ranges::transform(further, std::back_inserter(objects), namespace_object);
  std::ranges::move(rights_manifests(installation.name, installation.in_namespace, further),
                    std::back_inserter(objects));
  if (!installation.project_table.empty()) objects.push_back(table_object(installation));
  objects.push_back(volume_claim(installation));
  objects.push_back(deployment(installation));
  objects.push_back(service(installation));
  return objects;
}

}  // namespace lockstep::k8s
