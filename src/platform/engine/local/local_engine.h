// LocalEngine: agents as processes of this machine.
//
// An agent is detached (its own session, no open files of the daemon), so that it outlives the
// daemon. Its pid is not stored. The node's agent holds a lock on a file in the node's folder, and
// all processes of the node have LOCKSTEP_NODE_TOKEN=<installation>:<generation>:<node> in their
// environment. These two show which nodes exist, also to a daemon that was started later. A
// separate thread scans the processes (process_watch.h).
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "platform/engine/engine.h"
#include "platform/engine/local/process_watch.h"

namespace lockstep::engine {

struct AgentProgram {
  std::string name;  // as lists of processes show it
  std::filesystem::path file;

  // This program itself, also after an upgrade has replaced its file.
  static Result<AgentProgram> own();
};

class LocalEngine : public Engine {
 public:
  // `program` starts agents. `home` is the daemon's folder: the file `home`/installation has its
  // name, so that two homes on one machine do not see each other's nodes. It is created if missing.
  static Result<LocalEngine> open(AgentProgram program, const std::filesystem::path& home);

  Result<void> launch(const LaunchSpec& launch) override;
  Result<void> kill(const model::NodeName& node) override;
  Result<LaunchSpec> read_launch_spec(const model::NodeName& node) override;
  bool has_started(const model::NodeName& node) override;
  // A node stays in the list for one scan after its last process was seen. Its agent counts as
  // exited once two lists in a row have found its lock free. Code::unavailable if no scan succeeded
  // for seconds.
  Result<std::vector<RunningNode>> list() override;

  // Marks the node's processes and sockets: <installation>:<generation>:<node>.
  std::string token(const model::NodeName& node) const;

 private:
  LocalEngine(AgentProgram program, std::filesystem::path home, std::string installation);

  AgentProgram program_;
  std::filesystem::path home_;
  std::string installation_;
  ProcessWatch watch_;
  std::set<model::NodeName> agentless_;  // as of the last list
};

}  // namespace lockstep::engine
