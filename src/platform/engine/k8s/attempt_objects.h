// The objects of an attempt in Kubernetes: the owner of the others, and for each node a Secret with
// its launch and a Pod with its agent. Pure; docs/design/kubernetes.md has the mapping.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "net/crypto.h"
#include "platform/core/model/ids.h"
#include "platform/engine/engine.h"
#include "platform/engine/gang.h"
#include "platform/k8s/project_table.h"
#include "platform/k8s/volume.h"
#include "text/json.h"

namespace lockstep::engine {

// Labels of all objects: the installation of the daemon's folder; the name of the attempt's owner.
inline constexpr std::string_view kDaemonLabel = "lockstep.dev/daemon";
inline constexpr std::string_view kAttemptLabel = "lockstep.dev/attempt";

// The containers of a Pod, and the folders that they share.
inline constexpr std::string_view kAgentContainer = "agent";  // copies the agent's program
inline constexpr std::string_view kNodeContainer = "node";    // the user's image runs it
inline constexpr std::string_view kPodHome = "/lockstep/home";

// The properties that all Pods of a daemon have in common.
struct PodOptions {
  std::string installation;  // of the daemon's folder
  std::string agent_image;
  std::string agent_program = "/usr/bin/lockstep";  // in that image
  std::string image{};                              // of runs that name none; empty: refuses them
  std::string gpu_resource = "nvidia.com/gpu";
  std::string shared_memory = "8Gi";  // the bound of /dev/shm
  std::vector<k8s::Volume> volumes{};
  Duration grace_period{};  // of runs that name none
  // Seals the variables of runs in records; none: the records lack them.
  std::optional<net::Secret> record_secret{};
  k8s::ProjectPods project{};  // of the attempt
};

// An object of Kubernetes that owns others.
struct ObjectOwner {
  std::string name, uid;
};

// A DNS label that leaves room for the index of a node.
std::string attempt_object_name(const std::string& installation, const model::AttemptName& attempt);
std::string pod_name(const std::string& attempt_object, int index);

// Code::invalid, in words for the user, if the gang cannot run in Pods.
Result<void> check_gang(const Gang& gang, const PodOptions& options);

// A ConfigMap. Other stores adopt the attempt from it; it has the run's variables sealed.
Json owner_object(const Gang& gang, const PodOptions& options);
// `daemon_file`: the text of the file with the address of the daemon.
Json secret_object(const Gang& gang, const NodePlacement& node, const ObjectOwner& owner,
                   const PodOptions& options, const std::string& daemon_file);
Json pod_object(const Gang& gang, const NodePlacement& node, const ObjectOwner& owner,
                const PodOptions& options);

// None: the object is no Pod of a node.
std::optional<model::NodeName> node_of_pod(const Json& pod);
// None: the object is no owner of an attempt.
std::optional<model::AttemptName> attempt_of_owner(const Json& owner);
std::map<model::NodeName, LaunchRecord> records_of_owner(const Json& owner,
                                                         const PodOptions& options);

}  // namespace lockstep::engine
