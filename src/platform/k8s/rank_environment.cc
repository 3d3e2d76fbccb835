#include "platform/k8s/rank_environment.h"

#include <algorithm>
#include <array>

#include "base/format.h"

namespace lockstep::k8s {
namespace {

constexpr std::array<std::string_view, 9> kVariables = {
    "NODE_RANK",  "NNODES",     "MASTER_ADDR",      "MASTER_PORT",         "RANK",
    "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "JOB_COMPLETION_INDEX"};
// torchrun reads the option --node-rank from PET_NODE_RANK, and others likewise.
constexpr std::string_view kTorchrun = "PET_";

constexpr auto kCompletionIndex =
    "metadata.annotations['batch.kubernetes.io/job-completion-index']";

Json variable(std::string_view name, std::string value) {
  return {{"name", std::string(name)}, {"value", std::move(value)}};
}

Json node_rank(std::optional<int> index) {
  if (index) return variable("NODE_RANK", format("{}", *index));
  return {{"name", "NODE_RANK"}, {"valueFrom", {{"fieldRef", {{"fieldPath", kCompletionIndex}}}}}};
}

}  // namespace

Json rank_environment(const Workload& workload, const std::string& master,
                      std::optional<int> index) {
  const std::string nodes = format("{}", workload.nodes);
  const std::string port = format("{}", workload.master_port);
  const int ranks = std::max(workload.devices, 1);
  Json env = Json::array({node_rank(index), variable("NNODES", nodes),
                          variable("MASTER_ADDR", master), variable("MASTER_PORT", port),
                          variable("PET_NODE_RANK", "$(NODE_RANK)"), variable("PET_NNODES", nodes),
                          variable("PET_NPROC_PER_NODE", format("{}", ranks)),
                          variable("PET_MASTER_ADDR", master), variable("PET_MASTER_PORT", port)});
  if (ranks > 1) return env;  // something has to start them: torchrun sets these
  env.push_back(variable("RANK", "$(NODE_RANK)"));
  env.push_back(variable("LOCAL_RANK", "0"));
  env.push_back(variable("WORLD_SIZE", nodes));
  env.push_back(variable("LOCAL_WORLD_SIZE", "1"));
  return env;
}

bool sets_variable(std::string_view name) {
  return name.starts_with(kTorchrun) || std::ranges::find(kVariables, name) != kVariables.end();
}

}  // namespace lockstep::k8s
