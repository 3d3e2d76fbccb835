#include "platform/engine/k8s/k8s_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "map/labels.h"
#include "map/map_of_leaves.h"
#include "map/taints.h"
#include "platform/engine/k8s/json_fields.h"
#include "platform/engine/k8s/node_amount.h"

namespace lockstep::engine {
namespace {

constexpr auto kNodesPath = "/api/v1/nodes";

// Labels of the place of a Node, the first that it has counts: of NVIDIA's Topograph, of clouds,
// and the well-known ones of Kubernetes.
constexpr std::array<std::string_view, 5> kLeafLabels = {
    "network.topology.nvidia.com/leaf", "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-subblock", "topology.kubernetes.io/rack", "rack"};
constexpr std::array<std::string_view, 3> kBlockLabels = {"network.topology.nvidia.com/spine",
                                                          "topology.k8s.aws/network-node-layer-2",
                                                          "cloud.google.com/gce-topology-block"};
constexpr std::array<std::string_view, 4> kZoneLabels = {
    "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"};

constexpr std::array<std::string_view, 2> kControlPlaneTaints = {
    "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"};
// Described by the Node's own fields in better words.
constexpr std::array<std::string_view, 3> kStateTaints = {"node.kubernetes.io/unschedulable",
                                                          "node.kubernetes.io/not-ready",
                                                          "node.kubernetes.io/unreachable"};

// The system sets them while a Node has a problem.
constexpr std::array<std::string_view, 2> kConditionTaints = {"node.kubernetes.io/",
                                                              "node.cloudprovider.kubernetes.io/"};
constexpr std::size_t kTaintsMax = 8;  // of one Node that runs may tolerate

std::string first_label(const Json& node, std::span<const std::string_view> keys) {
  for (const std::string_view key : keys)
    if (std::string value = text_of(node, {"metadata", "labels", key}); !value.empty())
      return value;
  return "";
}

// Two zones may have blocks of the same name.
std::string pod_of(const Json& node) {
  const std::string zone = first_label(node, kZoneLabels);
  const std::string block = first_label(node, kBlockLabels);
  if (zone.empty() || block.empty()) return zone + block;
  return zone + "/" + block;
}

// Those that a run can ask for; a map has a bound on their number, so the operator's own, which
// seldom have a prefix, come first.
map::Labels labels_of_node(const Json& node, map::Labels labels) {
  for (const bool has_prefix : {false, true}) {
    for (const auto& [key, value] : field_of(node, {"metadata", "labels"}).items()) {
      if ((key.find('/') != std::string::npos) != has_prefix || !value.is_string()) continue;
      if (labels.size() == map::kLabelsMax) return labels;
      const auto& text = value.get_ref<const std::string&>();
      if (map::check_labels({{key, text}})) labels.emplace(key, text);
    }
  }
  return labels;
}

std::string address_of_node(const Json& node) {
  for (const Json& address : items_of(node, {"status", "addresses"}))
    if (text_of(address, {"type"}) == "InternalIP") return text_of(address, {"address"});
  return "";
}

double node_amount(const Json& node, std::string_view kind, std::string_view resource) {
  return parse_node_amount(text_of(node, {"status", kind, resource})).value_or(0);
}

int whole_amount(const Json& node, std::string_view kind, std::string_view resource) {
  return static_cast<int>(std::clamp(std::floor(node_amount(node, kind, resource)), 0.0, 1e6));
}

// Empty: its kubelet has reported that it is ready.
std::string why_not_ready(const Json& node) {
  for (const Json& condition : items_of(node, {"status", "conditions"})) {
    if (text_of(condition, {"type"}) != "Ready") continue;
    if (text_of(condition, {"status"}) == "True") return "";
    const std::string message = text_of(condition, {"message"});
    return "its Node is not ready" + (message.empty() ? "" : ": " + message);
  }
  return "its Node is not ready: its kubelet has not reported";
}

template <std::size_t size>
bool is_one_of(const std::string& key, const std::array<std::string_view, size>& keys) {
  return std::ranges::find(keys, key) != keys.end();
}

struct NodeTaints {
  map::Labels labels{};   // those that a run may tolerate
  std::string closing{};  // the first that closes the Node for all; empty: there is none
};

// Kubernetes' convention: devices are tainted with the name of their resource, and Pods that ask
// for them tolerate it.
NodeTaints taints_of_node(const Json& node, const std::string& device_resource) {
  NodeTaints found;
  for (const Json& each : items_of(node, {"spec", "taints"})) {
    const map::Taint taint = {.key = text_of(each, {"key"}),
                              .value = text_of(each, {"value"}),
                              .effect = text_of(each, {"effect"})};
    if (taint.effect == "PreferNoSchedule" || taint.key == device_resource ||
        is_one_of(taint.key, kStateTaints))
      continue;
    const bool is_condition = std::ranges::any_of(
        kConditionTaints, [&](std::string_view prefix) { return taint.key.starts_with(prefix); });
    const auto label = is_condition ? std::nullopt : map::taint_label(taint);
    const bool is_label =
        label && found.labels.size() < kTaintsMax && found.labels.insert(*label).second;
    if (!is_label && found.closing.empty())
      found.closing = format("it has the taint {}:{}", taint.key, taint.effect);
  }
  return found;
}

std::string why_unfit(const Json& node, const NodeTaints& taints,
                      const std::string& device_resource) {
  const Json& cordoned = field_of(node, {"spec", "unschedulable"});
  if (cordoned.is_boolean() && cordoned.get<bool>())
    return format("it is cordoned in Kubernetes; `kubectl uncordon {}` opens it",
                  text_of(node, {"metadata", "name"}));
  if (!taints.closing.empty()) return taints.closing;
  if (whole_amount(node, "capacity", device_resource) > 0 &&
      whole_amount(node, "allocatable", device_resource) == 0)
    return format("none of its {} can be allocated: see its device plugin", device_resource);
  return "";
}

map::Host map_host_of_node(const K8sHost& node) {
  map::Host host;
  host.id = node.name;
  if (!node.address.empty()) host.address = node.address;
  if (node.memory > Bytes(0)) host.memory = node.memory;
  host.cores = node.cores;
  host.labels = node.labels;
  const bool has_devices = node.devices > 0;
  map::Island island;
  for (int number = 0; number < (has_devices ? node.devices : node.cores); ++number)
    island.devices.push_back({.kind = has_devices ? map::DeviceKind::gpu : map::DeviceKind::core,
                              .number = number,
                              .memory = std::nullopt});
  host.islands.push_back(std::move(island));
  return host;
}

}  // namespace

K8sHost k8s_host_of(const Json& node, const std::string& device_resource) {
  const NodeTaints taints = taints_of_node(node, device_resource);
  return {.name = text_of(node, {"metadata", "name"}),
          .address = address_of_node(node),
          .pod = pod_of(node),
          .leaf = first_label(node, kLeafLabels),
          .memory = Bytes(static_cast<std::int64_t>(node_amount(node, "allocatable", "memory"))),
          .cores = whole_amount(node, "allocatable", "cpu"),
          .devices = whole_amount(node, "capacity", device_resource),
          .labels = labels_of_node(node, taints.labels),
          .unavailable = why_not_ready(node),
          .unfit = why_unfit(node, taints, device_resource)};
}

bool is_control_plane(const Json& node) {
  return std::ranges::any_of(items_of(node, {"spec", "taints"}), [](const Json& taint) {
    return is_one_of(text_of(taint, {"key"}), kControlPlaneTaints);
  });
}

Result<std::vector<K8sHost>> list_k8s_hosts(ApiServer& api, const std::string& device_resource) {
  const ApiReply reply = api.get(kNodesPath);
  if (!reply.ok()) return error_of(reply);
  std::vector<K8sHost> hosts;
  for (const Json& node : items_of(reply.object, {"items"}))
    if (!is_control_plane(node)) hosts.push_back(k8s_host_of(node, device_resource));
  return hosts;
}

map::ClusterMap map_of_k8s(const std::vector<K8sHost>& hosts) {
  map::LeavesByPod pods;
  for (const K8sHost& host : hosts) {
    if (host.devices == 0 && host.cores == 0) continue;
    const std::string name = host.leaf.empty() ? "nodes" : host.leaf;
    pods[host.pod.empty() ? "kubernetes" : host.pod][name].hosts.push_back(map_host_of_node(host));
  }
  return map::map_of_leaves("kubernetes", std::move(pods));
}

Result<map::ClusterMap> discover_k8s(ApiServer& api, const std::string& device_resource) {
  map::ClusterMap map = map_of_k8s(TRY(list_k8s_hosts(api, device_resource)));
  if (map.pods.empty())
    return Error{Code::invalid,
                 "the cluster has no Node for runs; `lockstep k8s check` lists its Nodes"};
  return map;
}

}  // namespace lockstep::engine
