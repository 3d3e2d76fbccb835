#include "platform/k8s/manifests.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/format.h"
#include "platform/k8s/pod_spec.h"
#include "text/document.h"

namespace lockstep::k8s {
namespace {

constexpr auto kReplicatedJob = "node";

// A timer of Kubernetes; never 0, which it refuses or takes for "at once".
std::int64_t whole_seconds(Duration duration) {
  return std::max<std::int64_t>(std::chrono::ceil<std::chrono::seconds>(duration).count(), 1);
}

Json annotations(const Workload& workload) {
  Json annotations = Json::object();
  for (const auto& [key, value] : workload.annotations) annotations[key] = value;
  return annotations;
}

Json template_metadata(const Workload& workload) {
  Json metadata = {{"labels", labels(workload)}};
  if (!workload.annotations.empty()) metadata["annotations"] = annotations(workload);
  return metadata;
}

Json metadata_of(const Workload& workload, const std::string& name) {
  Json metadata = {{"name", name}};
  if (!workload.in_namespace.empty()) metadata["namespace"] = workload.in_namespace;
  metadata.update(template_metadata(workload));
  return metadata;
}

Json object_of_kind(std::string_view version, std::string_view kind, Json metadata, Json spec) {
  return {{"apiVersion", std::string(version)},
          {"kind", std::string(kind)},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

// One port needs no name, several do.
Json service_ports(const Workload& workload) {
  Json ports = Json::array({{{"name", "master"}, {"port", workload.master_port}}});
  for (int port : workload.ports)
    ports.push_back({{"name", format("port-{}", port)}, {"port", port}});
  return ports;
}

Json headless_service(const Workload& workload) {
  return object_of_kind("v1", "Service", metadata_of(workload, workload.name),
                        {{"clusterIP", "None"},
                         {"publishNotReadyAddresses", true},
                         {"selector", selector(workload)},
                         {"ports", service_ports(workload)}});
}

Json job_spec(const Workload& workload, const PodPlace& place) {
  Json spec = {{"completionMode", "Indexed"},
               {"completions", workload.nodes},
               {"parallelism", workload.nodes},
               {"backoffLimit", 0}};
  if (workload.timeout) spec["activeDeadlineSeconds"] = whole_seconds(*workload.timeout);
  spec["template"] = {{"metadata", template_metadata(workload)},
                      {"spec", pod_spec(workload, place)}};
  return spec;
}

std::string host_of(const Workload& workload, int index) {
  return format("{}-{}", workload.name, index);
}

Json bare_pod(const Workload& workload, int index) {
  Json spec = pod_spec(workload, {.master = host_of(workload, 0) + "." + workload.name,
                                  .host = host_of(workload, index),
                                  .subdomain = workload.name,
                                  .index = index});
  if (workload.timeout) spec["activeDeadlineSeconds"] = whole_seconds(*workload.timeout);
  return object_of_kind("v1", "Pod", metadata_of(workload, host_of(workload, index)),
                        std::move(spec));
}

}  // namespace

std::vector<Json> job_manifests(const Workload& workload) {
  Json spec = job_spec(
      workload, {.master = host_of(workload, 0) + "." + workload.name, .subdomain = workload.name});
  if (workload.kept) spec["ttlSecondsAfterFinished"] = whole_seconds(*workload.kept);
  return {headless_service(workload),
          object_of_kind("batch/v1", "Job", metadata_of(workload, workload.name), std::move(spec))};
}

std::vector<Json> jobset_manifests(const Workload& workload) {
  const std::string master =
      format("{0}-{1}-0-0.{0}", workload.name, std::string_view(kReplicatedJob));
  Json spec = {{"network",
                {{"enableDNSHostnames", true},
                 {"publishNotReadyAddresses", true},
                 {"subdomain", workload.name}}},
               {"failurePolicy", {{"maxRestarts", 0}}},
               {"replicatedJobs",
                Json::array({{{"name", kReplicatedJob},
                              {"replicas", 1},
                              {"template", {{"spec", job_spec(workload, {.master = master})}}}}})}};
  if (workload.kept) spec["ttlSecondsAfterFinished"] = whole_seconds(*workload.kept);
  return {object_of_kind("jobset.x-k8s.io/v1alpha2", "JobSet", metadata_of(workload, workload.name),
                         std::move(spec))};
}

std::vector<Json> pod_manifests(const Workload& workload) {
  std::vector<Json> objects = {headless_service(workload)};
  for (int index = 0; index < workload.nodes; ++index) objects.push_back(bare_pod(workload, index));
  return objects;
}

std::vector<Json> service_manifests(const Workload& workload) {
  return {headless_service(workload)};
}

std::string to_yaml(const std::vector<Json>& objects) {
  std::string text;
  for (const Json& object : objects) {
    if (!text.empty()) text += "---\n";
    text += dump_yaml(object);
  }
  return text;
}

}  // namespace lockstep::k8s
