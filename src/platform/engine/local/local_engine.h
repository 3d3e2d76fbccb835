// LocalEngine: agents as processes of this machine.
//
// An agent is detached (a session of its own, no file of the daemon's open), so that it outlives
// the daemon. Nobody keeps its pid: the node's agent holds a lock on a file in the node's folder,
// and all processes of the node carry LOCKSTEP_NODE_TOKEN=<installation>:<node> in their
// environment. What is there is seen from these two alone, also by a daemon that was started later.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "platform/engine/engine.h"

namespace lockstep {

class LocalEngine : public Engine {
 public:
  // `program` is the lockstep executable. `home` is the daemon's folder: two homes on one machine
  // do not see each other's nodes, by a name that is kept in `home`/installation. Made where
  // missing.
  static Result<LocalEngine> open(std::filesystem::path program, const std::filesystem::path& home);

  Result<void> launch(const Launch& launch) override;
  Result<void> kill(const NodeId& node) override;
  // A node stays in the list for one scan after its last process was seen: a process that is in the
  // midst of exec shows no environment for a moment. Costs a look at each process of the user.
  Result<std::vector<NodeId>> list() override;

  // By which the node's processes and sockets are known: <installation>:<node>.
  std::string token(const NodeId& node) const;

 private:
  LocalEngine(std::filesystem::path program, std::string installation)
      : program_(std::move(program)), installation_(std::move(installation)) {}
  std::set<NodeId> marked_nodes() const;

  std::filesystem::path program_;
  std::string installation_;
  std::set<NodeId> last_seen_;
};

}  // namespace lockstep
