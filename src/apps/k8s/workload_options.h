// The options of `lockstep k8s render`, and the workload that they describe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "platform/k8s/workload.h"

namespace lockstep::cli {

// The words of a user, as they were typed.
struct WorkloadWords {
  std::string name, in_namespace, image, command, working_folder;
  std::vector<std::string> program;
  int nodes = 1;
  int devices = 0;
  int master_port = 29500;
  std::string device_resource = "nvidia.com/gpu";
  std::string cores, memory, accelerator, rdma;
  std::string shared_memory = "8Gi";
  std::vector<int> ports;
  std::vector<std::string> parameters, env, labels, annotations, node_selector;
  std::vector<std::string> volumes, tolerations, image_pull_secrets;
  std::string priority_class, service_account, gang;
  bool uses_host_network = false;
  std::string timeout, grace_period, kept;
};

// Adds all options but those of the program's words.
void add_workload_options(CLI::App& command, const std::shared_ptr<WorkloadWords>& words);

// The workload; errors name the option.
Result<k8s::Workload> workload_of(const WorkloadWords& words);

}  // namespace lockstep::cli
