// Commit: the rows that are about to become durable, by their ids, and how runs stand with them.
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

// The rows live where they are.
Commit commit_of(std::span<const Change> changes);

// An attempt of the run that another store made becomes one of this store.
bool adopts(const State& durable, const Commit& commit, const RunId& run);

// Rows of a state, with those of a commit on top; null where there is none.
class Rows {
 public:
  Rows(const State& below, const Commit& commit) : below_(below), commit_(commit) {}

  const Run* find(const RunId& id) const { return find(below_.runs, commit_.runs, id); }
  const Attempt* find(const AttemptId& id) const {
    return find(below_.attempts, commit_.attempts, id);
  }
  const Node* find(const NodeId& id) const { return find(below_.nodes, commit_.nodes, id); }
  // Runs that have not ended.
  std::set<RunId> open() const;
  // That are not open to everybody.
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

  const State& below_;
  const Commit& commit_;
};

// Of the runs after which this one is to start one that ended otherwise than well; null: none did.
const Run* failed_predecessor(const Rows& rows, const Run& run);
// Of those the first that has not succeeded.
const Run* unfinished_predecessor(const Rows& rows, const Run& run);

}  // namespace lockstep::sim
