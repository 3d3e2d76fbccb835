// Ranks: the processes of a node, and all that they leave behind.
//
// Each rank leads a process group. A rank's children may leave group and session and outlive their
// rank; they are found as descendants of the agent, which is their subreaper, or by the node's
// token in their environment.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/spawn.h"
#include "base/units.h"
#include "platform/api/messages.h"

namespace lockstep {

// Whose signal it was: a rank that ends after ours did not fail, one that ends after another's did.
enum class Signaller { agent, other };

class Ranks {
 public:
  Ranks(int first_rank, std::string token) : first_rank_(first_rank), token_(std::move(token)) {}

  // Starts the next rank; the end of a pipe with all its output, which does not block. Only from a
  // thread that lives as long as the agent.
  Result<Fd> start(Program program);

  // Collects all children that have ended, ranks and others. True when a rank was among them.
  bool reap(Time now);

  // Signals every process of the node, once each.
  void signal(int number, Signaller signaller);

  // All living processes of the node but the agent.
  std::vector<pid_t> processes() const;

  bool any_running() const;
  bool any_ended_badly() const;
  const std::vector<api::RankReport>& reports() const { return reports_; }

 private:
  int first_rank_;
  std::string token_;
  std::vector<api::RankReport> reports_;  // by local rank
  bool signalled_ = false;                // by the agent's own decision
};

}  // namespace lockstep
