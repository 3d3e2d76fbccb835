// A program for one or more nodes of a Kubernetes cluster, before it has the form of an object.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/k8s/gang.h"
#include "platform/k8s/names.h"
#include "platform/k8s/toleration.h"
#include "platform/k8s/volume.h"

namespace lockstep::k8s {

struct Resource {
  std::string name;  // such as rdma/hca
  int count = 1;
};

struct Workload {
  std::string name;
  std::string in_namespace;  // empty: the one of kubectl's context
  int nodes = 1;
  int devices = 0;  // of each node
  std::string device_resource = "nvidia.com/gpu";
  std::string image;
  std::vector<std::string> program;  // empty: the image's own
  std::string working_folder;        // empty: the image's own
  std::string cores;                 // a quantity of each node, as the next two; empty: no limit
  std::string memory;
  std::string shared_memory = "8Gi";  // of /dev/shm; empty: the container runtime's 64 MiB
  int master_port = 29500;
  std::vector<int> ports;
  KeyValues env, labels, annotations, node_selector;
  std::vector<Volume> volumes;
  std::vector<Toleration> tolerations;
  std::string priority_class, service_account;
  std::vector<std::string> image_pull_secrets;
  std::optional<Resource> rdma;
  bool uses_host_network = false;
  std::optional<GangScheduling> gang;    // none: the cluster's scheduler places each Pod alone
  std::optional<Duration> timeout;       // from the start of the Job or Pod
  std::optional<Duration> grace_period;  // from SIGTERM to SIGKILL
  std::optional<Duration> kept;          // after the end of a Job or JobSet
};

// The error names the option.
Result<void> check_image(std::string_view option, std::string_view image);

// Errors of several fields together: a host name that is too long, anything twice.
Result<void> check(const Workload& workload);

// The text as the container sees it, although Kubernetes expands $(NAME) and $$ in it.
std::string literal(std::string_view text);

// Replaces each {NAME} in the command; every parameter must occur.
Result<std::string> with_parameters(std::string command, const KeyValues& parameters);

}  // namespace lockstep::k8s
