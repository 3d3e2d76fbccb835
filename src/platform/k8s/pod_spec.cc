#include "platform/k8s/pod_spec.h"

#include <chrono>

#include "base/format.h"
#include "platform/k8s/rank_environment.h"

namespace lockstep::k8s {
namespace {

constexpr auto kSharedMemory = "shared-memory";

Json object_of(const KeyValues& values) {
  Json object = Json::object();
  for (const auto& [key, value] : values) object[key] = value;
  return object;
}

// Kubernetes takes the limits as requests too, where there are none.
Json limits(const Workload& workload) {
  Json limits = Json::object();
  if (!workload.cores.empty()) limits["cpu"] = workload.cores;
  if (!workload.memory.empty()) limits["memory"] = workload.memory;
  if (workload.devices > 0) limits[workload.device_resource] = workload.devices;
  if (workload.rdma) limits[workload.rdma->name] = workload.rdma->count;
  return limits;
}

Json environment(const Workload& workload, const PodPlace& place) {
  Json env = rank_environment(workload, place.master, place.index);
  for (const auto& [name, value] : workload.env)
    env.push_back({{"name", name}, {"value", literal(value)}});
  return env;
}

Json container_ports(const Workload& workload) {
  Json ports = Json::array();
  for (int port : workload.ports) ports.push_back({{"containerPort", port}});
  return ports;
}

std::string volume_name(std::size_t index) { return format("volume-{}", index); }

Json volumes(const Workload& workload) {
  Json volumes = Json::array();
  if (!workload.shared_memory.empty())
    volumes.push_back(
        {{"name", kSharedMemory},
         {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", workload.shared_memory}}}});
  for (std::size_t i = 0; i < workload.volumes.size(); ++i)
    volumes.push_back(volume_json(workload.volumes[i], volume_name(i)));
  return volumes;
}

Json mounts(const Workload& workload) {
  Json mounts = Json::array();
  if (!workload.shared_memory.empty())
    mounts.push_back({{"name", kSharedMemory}, {"mountPath", "/dev/shm"}});
  for (std::size_t i = 0; i < workload.volumes.size(); ++i)
    mounts.push_back(mount_json(workload.volumes[i], volume_name(i)));
  return mounts;
}

void set_if_any(Json& object, std::string_view key, Json value) {
  if (!value.empty()) object[std::string(key)] = std::move(value);
}

void set_if_any(Json& object, std::string_view key, const std::string& value) {
  if (!value.empty()) object[std::string(key)] = value;
}

Json command(const Workload& workload) {
  Json words = Json::array();
  for (const std::string& word : workload.program) words.push_back(literal(word));
  return words;
}

Json container(const Workload& workload, const PodPlace& place) {
  Json container = {{"name", "node"}, {"image", workload.image}};
  set_if_any(container, "command", command(workload));
  set_if_any(container, "workingDir", workload.working_folder);
  container["env"] = environment(workload, place);
  set_if_any(container, "ports", container_ports(workload));
  if (Json found = limits(workload); !found.empty()) container["resources"] = {{"limits", found}};
  // Memory that a network card may read must stay in place.
  if (workload.rdma)
    container["securityContext"] = {{"capabilities", {{"add", Json::array({"IPC_LOCK"})}}}};
  set_if_any(container, "volumeMounts", mounts(workload));
  return container;
}

Json tolerations(const Workload& workload) {
  Json tolerations = Json::array();
  for (const Toleration& each : workload.tolerations) tolerations.push_back(toleration_json(each));
  return tolerations;
}

Json pull_secrets(const Workload& workload) {
  Json secrets = Json::array();
  for (const std::string& name : workload.image_pull_secrets) secrets.push_back({{"name", name}});
  return secrets;
}

}  // namespace

Json pod_spec(const Workload& workload, const PodPlace& place) {
  Json spec = {{"restartPolicy", "Never"}};
  if (place.host) spec["hostname"] = *place.host;
  if (place.subdomain) spec["subdomain"] = *place.subdomain;
  if (workload.uses_host_network) {
    spec["hostNetwork"] = true;
    spec["dnsPolicy"] = "ClusterFirstWithHostNet";
  }
  spec["enableServiceLinks"] = false;
  if (workload.service_account.empty())
    spec["automountServiceAccountToken"] = false;
  else
    spec["serviceAccountName"] = workload.service_account;
  set_if_any(spec, "priorityClassName", workload.priority_class);
  if (workload.grace_period)
    spec["terminationGracePeriodSeconds"] =
        std::chrono::ceil<std::chrono::seconds>(*workload.grace_period).count();
  set_if_any(spec, "nodeSelector", object_of(workload.node_selector));
  set_if_any(spec, "tolerations", tolerations(workload));
  set_if_any(spec, "imagePullSecrets", pull_secrets(workload));
  spec["containers"] = Json::array({container(workload, place)});
  set_if_any(spec, "volumes", volumes(workload));
  return spec;
}

Json selector(const Workload& workload) {
  return {{"app.kubernetes.io/instance", workload.name},
          {"app.kubernetes.io/managed-by", "lockstep"}};
}

Json labels(const Workload& workload) {
  Json labels = object_of(workload.labels);
  labels.update(selector(workload));
  return labels;
}

}  // namespace lockstep::k8s
