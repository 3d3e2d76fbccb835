// Engine: what starts agents on hosts and ends them: this machine, Slurm, Kubernetes, Ansible.
// Calls come from the daemon's one thread, so none may wait for long.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/ids.h"
#include "platform/engine/launch.h"

namespace lockstep {

// A node of which any process is left.
struct Present {
  NodeName node;
  // False: its agent is certainly not among them, though it was launched. One that has just been
  // launched may be said to have none.
  bool has_agent = true;

  bool operator==(const Present&) const = default;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Starts the node's agent as a process that outlives the daemon. Starting one that is there is
  // not an error. Once it has returned, list() has the node until no process of it is left.
  virtual Result<void> launch(const Launch& launch) = 0;
  // Ends all processes of the node by force; returns at once, list() tells when they are gone.
  virtual Result<void> kill(const NodeName& node) = 0;
  // What the node was launched with, also if it has ended, for as long as its folder is kept. An
  // error: it was not launched, or that cannot be read.
  virtual Result<Launch> launch_of(const NodeName& node) = 0;
  // Whether an agent of the node ever ran. It may have ended since.
  virtual bool has_begun(const NodeName& node) = 0;
  // In the order of the nodes.
  virtual Result<std::vector<Present>> list() = 0;
};

}  // namespace lockstep
