// An attempt: one try of a run on a fixed placement, and its nodes and ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/ids.h"

namespace lockstep {

// reserved: the devices are held; launching: agents are being started; running: every node's ranks
// were started; draining: it is to end, and processes may still be there; ended: none is left.
enum class AttemptState { reserved, launching, running, draining, ended };
enum class Cause {
  none,  // has not ended
  ok,
  user_exit,      // a rank exited with a code other than 0
  rank_lost,      // a rank was killed by a signal that Lockstep did not send
  node_lost,      // an agent fell silent
  launch_failed,  // the engine could not start an agent, or an agent its ranks
  timeout,
  cancelled,
};
enum class NodeState { allocated, preparing, ready, running, stopping, released, lost };
enum class RankState { running, exited, killed };

std::string_view text(AttemptState state);
std::string_view text(Cause cause);
std::string_view text(NodeState state);
std::string_view text(RankState state);

struct Attempt {
  AttemptId id;
  AttemptState state = AttemptState::reserved;
  Cause cause = Cause::none;  // set when draining begins; the first cause is kept
  std::string reason;
  Time created{};
  std::optional<Time> started;
  std::optional<Time> ended;
};

struct Rank {
  int rank = 0;
  int local_rank = 0;
  std::int64_t pid = 0;
  RankState state = RankState::running;
  int code = 0;             // exit code, or the signal's number when killed
  bool signalled_by_us = false;  // the agent itself sent the signal that ended it
  std::optional<Time> ended;

  bool operator==(const Rank&) const = default;
};

struct Node {
  NodeId id;
  std::string host;          // the map's host id
  std::vector<int> devices;  // indices within the host
  NodeState state = NodeState::allocated;
  std::string address;  // where other nodes reach it
  int master_port = 0;
  int rendezvous_port = 0;
  std::int64_t agent_pid = 0;
  std::string message;  // what the agent said of a failure
  Time last_heard{};
  std::vector<Rank> ranks;
};

}  // namespace lockstep
