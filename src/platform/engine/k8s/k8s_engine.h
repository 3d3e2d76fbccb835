// K8sEngine: the agents of an attempt are Pods (docs/design/kubernetes.md). It has the Nodes, and
// the Pods of each namespace that projects use (docs/design/kubernetes-projects.md).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "platform/core/model/pod_request.h"
#include "platform/engine/engine.h"
#include "platform/engine/k8s/api_server.h"
#include "platform/engine/k8s/attempt_objects.h"
#include "platform/engine/k8s/namespace_pods.h"
#include "platform/engine/k8s/node_watch.h"
#include "platform/k8s/project_table.h"

namespace lockstep::engine {

class K8sEngine : public Engine {
 public:
  struct Setup {
    std::shared_ptr<ApiServer> nodes;         // for their watch
    std::vector<NamespaceAccess> namespaces;  // the first one is of projects without a namespace
    PodOptions options;
    k8s::ProjectTable projects{};
    PodBounds bounds;
  };
  explicit K8sEngine(Setup setup);

  // The text of the file with which agents find the daemon. Submissions wait for it.
  void announce(const std::string& daemon_file);

  std::string_view name() const override { return model::kPodEngine; }
  void submit(Gang gang) override;
  void kill(const model::NodeName& node) override;
  Result<EngineList> list() override;

 private:
  NamespacePods& pods_of(const std::string& project);

  const k8s::ProjectTable projects_;
  const std::string own_namespace_;
  const PodBounds bounds_;
  const Deadline first_answer_;  // list() waits for it, so that the first one finds the Pods
  NodeWatch nodes_;
  std::map<std::string, std::unique_ptr<NamespacePods>> namespaces_;  // they use the Nodes
};

}  // namespace lockstep::engine
