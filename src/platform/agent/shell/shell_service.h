// ShellService: the shells of a node. It prepares the files of sshd when the daemon orders it, and
// starts an sshd for each connection (docs/design/shell.md). The agent opens no port for it.
#pragma once

#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/os/fd.h"
#include "base/result.h"
#include "base/task_thread.h"
#include "platform/agent/shell/shell_session.h"
#include "platform/agent/shell/sshd_files.h"
#include "platform/core/model/ids.h"
#include "platform/host/launch_spec.h"

namespace lockstep::agent {

class ShellService {
 public:
  // `launch` outlives this; `token` marks the node's processes.
  ShellService(const host::LaunchSpec& launch, model::NodeId node, std::string token);

  // The ranks start, so shells can.
  void set_session(ShellSession session) LS_EXCLUDES(mutex_);
  // The order of an answer of the daemon. Returns at once: a thread of its own prepares the node
  // and calls the daemon. An order that it knows is ignored. One thread calls this.
  void handle_order(const std::optional<std::string>& order) LS_EXCLUDES(mutex_);
  // Starts an sshd, which serves the returned socket and ends with it. From any thread: sshd is
  // killed when that thread ends. Waits for a preparation under way, 10 s at most.
  Result<Fd> start() LS_EXCLUDES(mutex_);

 private:
  void prepare() LS_EXCLUDES(mutex_);
  void finish_preparation() LS_EXCLUDES(mutex_);
  bool await_preparation() LS_EXCLUDES(mutex_);
  Result<std::string> prepare_key() LS_EXCLUDES(mutex_);
  Result<api::NodeShellAnswer> call_daemon(const api::NodeShell& shell) const;

  const host::LaunchSpec& launch_;
  const model::NodeId node_;
  const std::string token_;
  const SshdFiles files_;
  std::string known_order_;

  Mutex mutex_;  // guards what follows
  Condition changed_;
  int preparations_ LS_GUARDED_BY(mutex_) = 0;  // that wait or are under way
  std::optional<ShellSession> session_ LS_GUARDED_BY(mutex_);

  TaskThread preparing_;  // the last member: it uses the others
};

}  // namespace lockstep::agent
