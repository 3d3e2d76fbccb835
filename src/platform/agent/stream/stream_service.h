// StreamService: the agent's ends of byte streams to its node (docs/design/streams.md). Each stream
// has a thread, which calls the daemon, connects to the port or starts the shell, and copies.
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <list>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/http/upgrade.h"
#include "platform/agent/shell/shell_starter.h"
#include "platform/api/stream_messages.h"
#include "platform/core/model/ids.h"

namespace lockstep::agent {

class StreamService {
 public:
  // Calls the daemon for the stream of that id. Called on the streams' threads.
  using Connect = std::function<Result<net::UpgradedConnection>(const std::string& id)>;

  StreamService(Connect connect, ShellStarter shell)
      : connect_(std::move(connect)), shell_(std::move(shell)) {}
  // Ends all streams; takes as long as a call of the daemon at most.
  ~StreamService();
  StreamService(const StreamService&) = delete;
  StreamService& operator=(const StreamService&) = delete;

  // Begins those that are not known yet, and returns at once. True if there is one. Called by one
  // thread.
  bool open(const std::vector<api::StreamOrder>& orders);

 private:
  void serve(const api::StreamOrder& order) const;
  Result<Fd> local_end(const api::StreamOrder& order) const;

  const Connect connect_;
  const ShellStarter shell_;
  std::stop_source stop_;
  std::deque<std::string> known_;         // the newest ids
  std::list<std::future<void>> streams_;  // each with a thread
};

}  // namespace lockstep::agent
