// JobRanks: the ranks of an external job on this host. Another launcher has started them; they are
// known from what they say on their connections. Pure: times are arguments, on a clock that does
// not jump.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/attempt.h"
#include "report/fault/fault.h"

namespace lockstep::agent {

// The end of a rank's process, as far as the agent has seen it.
struct RankFarewell {
  std::optional<int> code{};         // the exit code, from the process itself
  std::optional<int> wait_status{};  // as of wait(2), if the process was still a zombie
};

class JobRanks {
 public:
  // zero: the wall-clock time at which the clock of the moments was zero.
  explicit JobRanks(Time zero) : zero_(zero) {}

  // A process says that it is this rank. A rank that had ended runs again. `local_rank`: as the
  // launcher says it; a free one is chosen if it is taken or not known.
  void join(int rank, std::optional<int> local_rank, std::int64_t pid);
  // Its program is ending. error: the exception that ends it; empty: none.
  void record_leaving(int rank, const std::string& error);
  // A connection of its process has ended. The rank has ended with the last of them.
  void record_end(int rank, const RankFarewell& farewell, Duration moment);
  void record_step(int rank, std::int64_t step);
  void record_fault(int rank, report::Fault fault, int at_fault, const std::string& text);

  bool has(int rank) const;
  bool is_empty() const { return ranks_.empty(); }
  bool any_running() const;
  const std::vector<model::Rank>& all() const { return ranks_; }
  // Why the first rank with an error has ended: "rank 3: ValueError: ..."; empty: there is none.
  const std::string& message() const { return message_; }

 private:
  // The parts that a daemon does not receive.
  struct Process {
    int connections = 0;
    bool leaving = false;
    std::string error{};
  };

  model::Rank* find(int rank);
  int free_local_rank(std::optional<int> wanted) const;

  Time zero_;
  std::vector<model::Rank> ranks_;  // in the order in which they joined
  std::map<int, Process> processes_;
  std::string message_;
};

}  // namespace lockstep::agent
