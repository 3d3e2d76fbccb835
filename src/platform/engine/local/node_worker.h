// NodeWorker: a thread that starts the agents of this machine and lists its nodes. Both read and
// write files, and a file system may hang; the daemon's own thread must not.
//
// submit() puts nodes into a queue. Between two starts the thread makes a new list if one was asked
// for. A node that is queued, or was started after the last list began, is listed as starting. If
// the thread hangs, the last list becomes too old, and list() fails.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/os/cgroup.h"
#include "platform/engine/engine.h"
#include "platform/engine/local/agent_program.h"
#include "platform/engine/local/process_watch.h"

namespace lockstep::engine {

// The account as which the agent of this node runs; none: as this process does. An error refuses
// the node.
using AccountOf = std::function<Result<std::optional<Account>>(const host::LaunchSpec& launch)>;

class NodeWorker {
 public:
  struct Setup {
    AgentProgram program;
    std::filesystem::path home;
    std::string installation;
    AccountOf account_of{};                 // empty: agents run as this process does
    std::optional<CgroupFolder> cgroups{};  // of nodes; none: they have no limits
  };

  explicit NodeWorker(Setup setup);
  // Queued nodes are not started. Waits for the start that is under way.
  ~NodeWorker();
  NodeWorker(const NodeWorker&) = delete;  // the thread refers to it
  NodeWorker& operator=(const NodeWorker&) = delete;

  // As those of Engine.
  void submit(Gang gang) LS_EXCLUDES(mutex_);
  void kill(const model::NodeName& node) LS_EXCLUDES(mutex_);
  Result<std::vector<ListedNode>> list() LS_EXCLUDES(mutex_);

 private:
  struct QueuedNode {
    std::shared_ptr<const Gang> gang;
    NodePlacement placement;
  };
  // A node that was submitted here and that no list shows yet.
  struct Submission {
    enum class State { queued, starting, started, failed } state = State::queued;
    std::int64_t list = 0;        // started: the first list that shows it
    bool kill_requested = false;  // while it was being started
    std::string reason{};         // failed: why
    model::EndBlame blame = model::EndBlame::unknown;
    Deadline forgotten = Deadline::after(Duration(0));  // failed: listed until then
  };
  struct NodeList {
    std::int64_t number = 0;  // 0: none yet
    Deadline too_old = Deadline::after(Duration(0));
    Result<std::vector<ListedNode>> nodes = std::vector<ListedNode>();
  };

  // In the thread:
  void work() LS_EXCLUDES(mutex_);
  void start(const QueuedNode& node) LS_EXCLUDES(mutex_);
  // As which agents run; none: as this process does.
  Result<std::optional<Account>> account_of(const host::LaunchSpec& launch) const;
  Result<void> start_processes(const Gang& gang, const NodePlacement& placement,
                               const host::LaunchSpec& launch,
                               const std::optional<Account>& account);
  // Those of nodes that are gone, also of an earlier process.
  void remove_cgroups(const std::vector<ListedNode>& nodes) LS_EXCLUDES(mutex_);
  // `blame`: if it failed.
  void record_start(const QueuedNode& node, const Result<void>& started, model::EndBlame blame)
      LS_EXCLUDES(mutex_);
  void drop_rest_of_gang(const model::AttemptName& attempt) LS_REQUIRES(mutex_);
  void make_list() LS_EXCLUDES(mutex_);
  Result<std::vector<ListedNode>> scan() LS_EXCLUDES(mutex_);
  bool has_agent_of(const model::NodeName& node) const;
  std::shared_ptr<const LaunchRecord> record_of(const model::NodeName& node);
  void publish(Result<std::vector<ListedNode>> nodes, std::int64_t number) LS_EXCLUDES(mutex_);

  void forget_ended(const std::vector<ListedNode>& nodes) LS_REQUIRES(mutex_);
  std::vector<ListedNode> with_submissions(std::vector<ListedNode> nodes) const LS_REQUIRES(mutex_);

  const Setup setup_;
  ProcessWatch watch_;  // has its own lock

  // Only the thread uses these:
  std::set<model::NodeName> without_agent_;  // as of the last list
  std::map<model::NodeName, std::shared_ptr<const LaunchRecord>> records_;

  Mutex mutex_;  // guards what follows
  Condition changed_;
  std::deque<QueuedNode> queue_ LS_GUARDED_BY(mutex_);
  std::map<model::NodeName, Submission> submissions_ LS_GUARDED_BY(mutex_);
  std::set<model::NodeName> submitted_ LS_GUARDED_BY(mutex_);  // here, and not known to be gone
  std::int64_t lists_begun_ LS_GUARDED_BY(mutex_) = 0;
  bool list_wanted_ LS_GUARDED_BY(mutex_) = true;
  bool ending_ LS_GUARDED_BY(mutex_) = false;
  NodeList latest_ LS_GUARDED_BY(mutex_);

  std::thread thread_;  // the last member: it uses the others
};

}  // namespace lockstep::engine
