// Commit: the rows that are about to become durable, by their ids, and views of runs with them.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>

#include "platform/core/model/state.h"

namespace lockstep::sim {

struct Commit {
  std::map<RunId, const Run*> runs{};
  std::map<AttemptId, const Attempt*> attempts{};
  std::map<NodeId, const Node*> nodes{};
  std::map<std::string, const HostRow*> hosts{};
  const ClockRow* clock = nullptr;
  std::map<LimitId, const LimitRow*> limits{};
  std::map<NodeName, const Orphan*> orphans{};
};

// The result points into `changes`.
Commit commit_of(std::span<const Change> changes);

// True if an attempt of the run from another store becomes one of this store.
bool adopts(const State& durable, const Commit& commit, const RunId& run);

// Rows of a state, with those of a commit on top; null where there is none.
class CommitView {
 public:
  CommitView(const State& below, const Commit& commit) : state_(below), commit_(commit) {}

  const Run* find(const RunId& id) const { return find(state_.runs, commit_.runs, id); }
  const Attempt* find(const AttemptId& id) const {
    return find(state_.attempts, commit_.attempts, id);
  }
  const Node* find(const NodeId& id) const { return find(state_.nodes, commit_.nodes, id); }
  // Runs that have not ended.
  std::set<RunId> open() const;
  // Hosts that are not open to all users.
  std::map<std::string, HostState> hosts() const;
  std::map<LimitId, int> limits() const;
  std::map<NodeName, Orphan> orphans() const;

 private:
  template <class Below, class Above, class Id>
  static auto find(const Below& below, const Above& above, const Id& id)
      -> decltype(&below.begin()->second) {
    if (const auto found = above.find(id); found != above.end()) return found->second;
    const auto found = below.find(id);
    return found == below.end() ? nullptr : &found->second;
  }

  const State& state_;
  const Commit& commit_;
};

// The first predecessor of the run that ended and did not succeed; null if there is none.
const Run* failed_predecessor(const CommitView& rows, const Run& run);
// The first predecessor of the run that has not succeeded yet; null if there is none.
const Run* unfinished_predecessor(const CommitView& rows, const Run& run);

}  // namespace lockstep::sim
