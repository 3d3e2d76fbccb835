// Commit: the rows that are about to become durable, by their ids, and views of runs with them.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "platform/core/model/state.h"

namespace lockstep::sim {

struct Commit {
  std::map<model::RunId, const model::Run*> runs{};
  std::map<model::AttemptId, const model::Attempt*> attempts{};
  std::map<model::NodeId, const model::Node*> nodes{};
  std::map<std::string, const model::HostRow*> hosts{};
  const model::ClockRow* clock = nullptr;
  std::map<model::LimitId, const model::LimitRow*> limits{};
  std::map<std::string, const budget::Budget*> budgets{};  // by project
  std::map<std::string, const budget::Bucket*> buckets{};  // by project
  std::vector<const budget::Posting*> postings{};
  std::vector<const model::Notice*> notices{};
  std::map<model::NodeName, const model::Orphan*> orphans{};
  std::map<model::NodeId, const model::GivenUpNode*> given_up{};
};

// The result points into `changes`.
Commit commit_of(std::span<const model::Change> changes);

// The map after the commit.
map::ClusterMap map_after(const model::State& durable, const Commit& commit);

// True if an attempt of the run from another store becomes one of this store.
bool adopts(const model::State& durable, const Commit& commit, const model::RunId& run);

// Rows of a state, with those of a commit on top; null where there is none.
class CommitView {
 public:
  CommitView(const model::State& below, const Commit& commit) : state_(below), commit_(commit) {}

  const model::Run* find(const model::RunId& id) const {
    return find(state_.runs, commit_.runs, id);
  }
  const model::Attempt* find(const model::AttemptId& id) const {
    return find(state_.attempts, commit_.attempts, id);
  }
  const model::Node* find(const model::NodeId& id) const {
    return find(state_.nodes, commit_.nodes, id);
  }
  // Runs that have not ended.
  std::set<model::RunId> open() const;
  // Hosts that are not open to all users.
  std::map<std::string, model::HostState> hosts() const;
  std::map<model::LimitId, int> limits() const;
  std::map<model::NodeName, model::Orphan> orphans() const;
  std::map<model::NodeId, model::GivenUpNode> given_up() const;

 private:
  template <class Below, class Above, class Id>
  static auto find(const Below& below, const Above& above, const Id& id)
      -> decltype(&below.begin()->second) {
    if (const auto found = above.find(id); found != above.end()) return found->second;
    const auto found = below.find(id);
    return found == below.end() ? nullptr : &found->second;
  }

  const model::State& state_;
  const Commit& commit_;
};

// The first predecessor of the run that ended and did not succeed; null if there is none.
const model::Run* failed_predecessor(const CommitView& rows, const model::Run& run);
// The first predecessor of the run that has not succeeded yet; null if there is none.
const model::Run* unfinished_predecessor(const CommitView& rows, const model::Run& run);
// When the last of its predecessors ended.
Time last_end_of_predecessors(const CommitView& rows, const model::Run& run);

}  // namespace lockstep::sim
