// LocalEngine: agents as processes of this machine.
//
// An agent is detached (a session of its own, no file of the daemon's open), so that it outlives
// the daemon. Nobody keeps its pid: the node's agent holds a lock on a file in the node's folder,
// and all processes of the node carry LOCKSTEP_NODE_TOKEN=<installation>:<generation>:<node> in
// their environment. What is there is seen from these two alone, also by a daemon that was started
// later; a thread of its own looks (process_watch.h).
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "platform/engine/engine.h"
#include "platform/engine/local/process_watch.h"

namespace lockstep {

class LocalEngine : public Engine {
 public:
  // `program` is the lockstep executable. `home` is the daemon's folder: two homes on one machine
  // do not see each other's nodes, by a name that is kept in `home`/installation. Made where
  // missing.
  static Result<LocalEngine> open(std::filesystem::path program, const std::filesystem::path& home);

  Result<void> launch(const Launch& launch) override;
  Result<void> kill(const NodeName& node) override;
  Result<Launch> launch_of(const NodeName& node) override;
  bool has_begun(const NodeName& node) override;
  // A node stays in the list for one look after its last process was seen. Its agent is missed once
  // two lists in a row have found its lock free. Code::unavailable when nobody could look for
  // seconds.
  Result<std::vector<Present>> list() override;

  // By which the node's processes and sockets are known: <installation>:<generation>:<node>.
  std::string token(const NodeName& node) const;

 private:
  LocalEngine(std::filesystem::path program, std::filesystem::path home, std::string installation);

  std::filesystem::path program_;
  std::filesystem::path home_;
  std::string installation_;
  ProcessWatch watch_;
  std::set<NodeName> agentless_;  // at the last list
};

}  // namespace lockstep
