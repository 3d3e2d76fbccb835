// LocalEngine: agents as processes of this machine.
//
// An agent is detached (its own session, no open files of the daemon), so that it outlives the
// daemon. Its pid is not stored. The node's agent holds a lock on a file in the node's folder, and
// all processes of the node have LOCKSTEP_NODE_TOKEN=<installation>:<generation>:<node> in their
// environment. These two show which nodes exist, also to a daemon that was started later. A thread
// scans the processes (process_watch.h), and another starts agents and lists nodes (node_worker.h).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "platform/engine/engine.h"
#include "platform/engine/local/agent_program.h"
#include "platform/engine/local/node_worker.h"

namespace lockstep::engine {

class LocalEngine : public Engine {
 public:
  // `program` starts agents. `home` is the daemon's folder: the file `home`/installation has its
  // name, so that two homes on one machine do not see each other's nodes. It is created if missing.
  // The folders of nodes are in `node_home`; empty: in `home`.
  static Result<std::unique_ptr<LocalEngine>> open(AgentProgram program,
                                                   const std::filesystem::path& home,
                                                   const AccountOf& account_of = {},
                                                   const std::filesystem::path& node_home = {});

  std::string_view name() const override { return "local"; }
  void submit(Gang gang) override { worker_.submit(std::move(gang)); }
  void kill(const model::NodeName& node) override { worker_.kill(node); }
  // Waits some milliseconds for a new list, and a second for the first one.
  Result<EngineList> list() override;

  const std::string& installation() const { return installation_; }
  // Marks the node's processes and sockets: <installation>:<generation>:<node>.
  std::string token(const model::NodeName& node) const { return node_token(installation_, node); }

 private:
  LocalEngine(AgentProgram program, const std::filesystem::path& node_home,
              std::string installation, const AccountOf& account_of);

  const std::string installation_;
  NodeWorker worker_;
};

}  // namespace lockstep::engine
