// Engine: starts and ends agents on hosts: this machine, Slurm, Kubernetes, Ansible. Calls come
// from the daemon's single thread, so none may block for long.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/ids.h"
#include "platform/engine/launch_spec.h"

namespace lockstep::engine {

// A node with at least one process.
struct RunningNode {
  model::NodeName node;
  // False: the agent was launched and is certainly not among the processes. May be false for an
  // agent that was just launched.
  bool has_agent = true;

  bool operator==(const RunningNode&) const = default;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Starts the node's agent as a process that outlives the daemon. If it runs already, this is no
  // error. After the return, list() has the node until no process of it is left.
  virtual Result<void> launch(const LaunchSpec& launch) = 0;
  // Kills all processes of the node; returns at once, list() shows when they are gone.
  virtual Result<void> kill(const model::NodeName& node) = 0;
  // The launch spec of the node, also after its end, while its folder is kept. An error if it was
  // not launched or the file cannot be read.
  virtual Result<LaunchSpec> read_launch_spec(const model::NodeName& node) = 0;
  // True if an agent of the node ever ran. It may have ended since.
  virtual bool has_started(const model::NodeName& node) = 0;
  // In the order of the nodes.
  virtual Result<std::vector<RunningNode>> list() = 0;
};

}  // namespace lockstep::engine
