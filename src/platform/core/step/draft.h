// Draft: a state that is being changed. Handlers read and edit rows as if they owned the state; the
// state itself stays as it was, and finish() says which rows came out different.
//
// Only rows that differ are reported, and a run's version grows by one when the run, its attempt or
// a node of it differs, but not for a node that was merely heard of.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "platform/core/step/step.h"

namespace lockstep {

// Rows of one kind: those of the state below, those that were changed on top.
template <class RowId, class Row>
class Overlay {
 public:
  explicit Overlay(const std::map<RowId, Row>& below) : below_(below) {}

  const Row* find(const RowId& id) const {
    if (auto found = changed_.find(id); found != changed_.end()) return &found->second;
    return before(id);
  }
  // As it was at the beginning of the step.
  const Row* before(const RowId& id) const {
    const auto found = below_.find(id);
    return found == below_.end() ? nullptr : &found->second;
  }
  // The row must exist. The reference lives as long as the draft.
  Row& edit(const RowId& id) {
    if (auto found = changed_.find(id); found != changed_.end()) return found->second;
    const Row* row = before(id);
    LS_CHECK(row != nullptr);
    return changed_.emplace(id, *row).first->second;
  }
  // A new one if there is none.
  Row& edit_or_add(const RowId& id) {
    if (find(id)) return edit(id);
    Row row;
    row.id = id;
    return add(std::move(row));
  }
  Row& add(Row row) {
    auto [place, added] = changed_.emplace(row.id, row);
    LS_CHECK(added && !before(row.id));
    return place->second;
  }
  const std::map<RowId, Row>& changed() const { return changed_; }
  // A copy of all of them, for rows of which there are few.
  std::map<RowId, Row> all() const {
    std::map<RowId, Row> rows = below_;
    for (const auto& [id, row] : changed_) rows.insert_or_assign(id, row);
    return rows;
  }

 private:
  const std::map<RowId, Row>& below_;
  std::map<RowId, Row> changed_;
};

class Draft {
 public:
  Draft(const State& state, Time now)
      : runs(state.runs),
        attempts(state.attempts),
        nodes(state.nodes),
        hosts(state.hosts),
        limits(state.limits),
        orphans(state.orphans),
        clock(state.clock),
        state_(state),
        now_(now) {}

  Overlay<RunId, Run> runs;
  Overlay<AttemptId, Attempt> attempts;
  Overlay<NodeId, Node> nodes;
  Overlay<std::string, HostRow> hosts;
  Overlay<LimitId, LimitRow> limits;
  Overlay<NodeName, Orphan> orphans;
  std::optional<ClockRow> clock;

  Time now() const { return now_; }
  const Map& map() const { return state_.map; }

  // In the order of their ids; runs that ended in this step are left out.
  std::vector<RunId> open_runs() const;
  // An error that tells how to find those that there are.
  Result<const Run*> known_run(const RunId& run) const;
  // Of the run, those that are not gone.
  std::vector<const Orphan*> orphans_of(const RunId& run) const;
  // Null when the run has none.
  const Attempt* live_attempt(const RunId& run) const;
  // In order; the pointers see what was edited before, not after.
  std::vector<const Node*> nodes_of(const AttemptId& attempt) const;
  // The run that was submitted under this id; null when none was.
  const Run* run_of_request(const std::string& request_id) const;
  // By project, with what was changed.
  std::map<std::string, Usage> usage() const;
  // Of the store: what is made now is made under it.
  const std::string& generation() const { return state_.store.generation; }
  // One more than any number that a run of the project was ever given.
  RunId next_run_id(const std::string& project) const;

  void act(Effect effect) { effects_.push_back(std::move(effect)); }
  Outcome finish();

 private:
  const State& state_;
  const Time now_;
  std::vector<Effect> effects_;
};

}  // namespace lockstep
