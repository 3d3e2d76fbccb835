// Engine: what starts agents on hosts and ends them: this machine, Slurm, Kubernetes, Ansible.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "platform/engine/launch.h"

namespace lockstep {

class Engine {
 public:
  virtual ~Engine() = default;

  // Starts the node's agent as a process that outlives the daemon. Starting one that is there is
  // not an error. Once it has returned, list() has the node until no process of it is left.
  virtual Result<void> launch(const Launch& launch) = 0;
  // Ends all processes of the node by force; returns at once, list() tells when they are gone.
  virtual Result<void> kill(const NodeId& node) = 0;
  // Nodes of which any process is left.
  virtual Result<std::vector<NodeId>> list() = 0;
};

}  // namespace lockstep
