#include "platform/k8s/gang.h"

#include <array>
#include <utility>

#include "base/format.h"
#include "platform/k8s/names.h"

namespace lockstep::k8s {
namespace {

constexpr auto kGangQueueLabel = "kueue.x-k8s.io/queue-name";

struct GangName {
  std::string_view name;
  GangSystem system;
};
constexpr std::array<GangName, 3> kGangNames = {
    {{"kueue", GangSystem::kueue},
     {"volcano", GangSystem::volcano},
     {"scheduler-plugins", GangSystem::scheduler_plugins}}};

std::string kind_of(const Json& object) { return object.at("kind").get<std::string>(); }

// The Pod in an object: itself, or the template of a Job or of a JobSet's only Job. Null: none.
Json* pod_in(Json& object) {
  if (kind_of(object) == "Pod") return &object;
  if (kind_of(object) == "Job") return &object["spec"]["template"];
  if (kind_of(object) == "JobSet")
    return &object["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
  return nullptr;
}

// Kueue takes Pods without a controller as a group of so many.
void put_into_queue(Json& object, const std::string& queue, const std::string& name, int nodes) {
  object["metadata"]["labels"][kGangQueueLabel] = queue;
  if (kind_of(object) != "Pod") {
    object["spec"]["suspend"] = true;  // until Kueue admits it
    return;
  }
  object["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = name;
  object["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = format("{}", nodes);
}

Json pod_group(const Json& like, std::string_view version, Json spec) {
  Json metadata = {{"name", like.at("metadata").at("name")}};
  if (const auto found = like.at("metadata").find("namespace"); found != like.at("metadata").end())
    metadata["namespace"] = *found;
  metadata["labels"] = like.at("metadata").at("labels");
  return {{"apiVersion", std::string(version)},
          {"kind", "PodGroup"},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

void put_into_group(Json& pod, GangSystem system, const std::string& name) {
  if (system == GangSystem::volcano) {
    pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = name;
    pod["spec"]["schedulerName"] = "volcano";
  } else {
    pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = name;
    pod["spec"]["schedulerName"] = "scheduler-plugins-scheduler";
  }
}

}  // namespace

Result<GangScheduling> parse_gang_scheduling(std::string_view words) {
  const std::size_t equals = words.find('=');
  const bool has_queue = equals != std::string_view::npos;
  const std::string queue(has_queue ? words.substr(equals + 1) : "");
  for (const auto& [name, system] : kGangNames) {
    if (words.substr(0, equals) != name) continue;
    if (has_queue != (system == GangSystem::kueue) && system != GangSystem::volcano) break;
    if (has_queue) TRY(check_object_name(queue));
    return GangScheduling{system, queue};
  }
  return Error{Code::invalid,
               format("'{}': write kueue=QUEUE, volcano[=QUEUE] or scheduler-plugins", words)};
}

std::vector<Json> with_gang_scheduling(std::vector<Json> objects, const GangScheduling& gang,
                                       const std::string& name, int nodes) {
  for (Json& object : objects) {
    Json* const pod = pod_in(object);
    if (!pod) continue;
    if (gang.system == GangSystem::kueue)
      put_into_queue(object, gang.queue, name, nodes);
    else
      put_into_group(*pod, gang.system, name);
  }
  if (gang.system == GangSystem::kueue) return objects;
  Json spec = {{"minMember", nodes}};
  if (!gang.queue.empty()) spec["queue"] = gang.queue;
  const auto* const version = gang.system == GangSystem::volcano ? "scheduling.volcano.sh/v1beta1"
                                                                 : "scheduling.x-k8s.io/v1alpha1";
  objects.insert(objects.begin(), pod_group(objects.front(), version, std::move(spec)));
  return objects;
}

}  // namespace lockstep::k8s
