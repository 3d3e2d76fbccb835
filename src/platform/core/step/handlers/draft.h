// Draft: a state that is being changed. Handlers read and edit rows as if they owned the state. The
// state itself does not change; finish() returns the rows that differ.
//
// finish() returns only rows that differ. A run's version increases by one if the run, its attempt
// or a node of it differs, but not if only the last heartbeat of a node differs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "platform/core/model/hosts_by_placement.h"
#include "platform/core/model/map_of_hosts.h"
#include "platform/core/step/step.h"

namespace lockstep::step {

// Rows of one kind: changed rows over those of the state below.
template <class RowId, class Row>
class Overlay {
 public:
  explicit Overlay(const std::map<RowId, Row>& below) : below_(below) {}

  const Row* find(const RowId& id) const {
    if (auto found = changed_.find(id); found != changed_.end()) return &found->second;
    return original(id);
  }
  // The row at the beginning of the step.
  const Row* original(const RowId& id) const {
    const auto found = below_.find(id);
    return found == below_.end() ? nullptr : &found->second;
  }
  // The row must exist. The reference lives as long as the draft.
  Row& edit(const RowId& id) {
    if (auto found = changed_.find(id); found != changed_.end()) return found->second;
    const Row* row = original(id);
    LS_CHECK(row != nullptr);
    return changed_.emplace(id, *row).first->second;
  }
  // Adds a new row if there is none.
  Row& edit_or_add(const RowId& id) {
    if (find(id)) return edit(id);
    Row row;
    row.id = id;
    return add(std::move(row));
  }
  Row& add(Row row) {
    auto [entry, added] = changed_.emplace(row.id, row);
    LS_CHECK(added && !original(row.id));
    return entry->second;
  }
  const std::map<RowId, Row>& changed() const { return changed_; }
  // All rows as they are now. The pointers live as long as the draft, and do not see later edits.
  std::vector<const Row*> current() const {
    std::vector<const Row*> rows;
    for (const auto& [id, row] : below_) rows.push_back(find(id));
    for (const auto& [id, row] : changed_)
      if (!original(id)) rows.push_back(&row);
    return rows;
  }
  // A copy of all rows; use it only for kinds with few rows.
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
  Draft(const model::State& state, Time now)
      : runs(state.runs),
        attempts(state.attempts),
        nodes(state.nodes),
        hosts(state.hosts),
        limits(state.limits),
        budgets(state.budgets),
        rates(state.rates),
        buckets(state.buckets),
        orphans(state.orphans),
        given_up(state.given_up),
        clock(state.clock),
        state_(state),
        now_(now) {}

  Overlay<model::RunId, model::Run> runs;
  Overlay<model::AttemptId, model::Attempt> attempts;
  Overlay<model::NodeId, model::Node> nodes;
  Overlay<std::string, model::HostRow> hosts;
  Overlay<model::LimitId, model::LimitRow> limits;
  Overlay<std::string, budget::Budget> budgets;
  Overlay<std::string, budget::Rate> rates;
  Overlay<std::string, budget::Bucket> buckets;
  Overlay<model::NodeName, model::Orphan> orphans;
  Overlay<model::NodeId, model::GivenUpNode> given_up;
  std::optional<model::ClockRow> clock;
  std::optional<model::MeasuredRow> measured;

  Time now() const { return now_; }
  const map::ClusterMap& map() const { return map_ ? *map_ : state_.map; }
  // The map is made from the hosts. After an edit of a row that changes it: update_map().
  bool hosts_make_map() const { return state_.hosts_make_map; }
  bool has_placing_engine() const { return !state_.placing_engine.empty(); }
  const std::string& engine_of(const map::Pod& pod) const { return model::engine_of(state_, pod); }
  // True if an engine chooses among the hosts of this pod.
  bool is_of_placing_engine(const map::Pod& pod) const {
    return engine_of(pod) == state_.placing_engine;
  }
  model::HostsByPlacement hosts_by_placement() const {
    return model::hosts_by_placement(state_, map());
  }
  sched::MapGrowth map_growth() const {
    return state_.hosts_make_map ? sched::MapGrowth::hosts_join : sched::MapGrowth::none;
  }
  void update_map() { map_ = model::map_of_hosts(hosts.all(), state_.map); }
  bool map_changed() const { return map_.has_value(); }
  const model::Settings& settings() const { return state_.settings; }

  // In the order of their ids, without runs that ended in this step.
  std::vector<model::RunId> open_runs() const;
  // Queued runs whose conditions a tick checks: those that wait for a time, for other runs, or for
  // an orphan of their name. In the order of their ids.
  std::set<model::RunId> conditional_runs() const;
  // Before this step.
  std::size_t open_count() const { return state_.open.size(); }
  // The error tells how to list the existing runs.
  Result<const model::Run*> require_run(const model::RunId& run) const;
  // The orphans of the run that have not terminated.
  std::vector<const model::Orphan*> orphans_of(const model::RunId& run) const;
  // Null when the run has none.
  const model::Attempt* live_attempt(const model::RunId& run) const;
  // Those of all runs, in the order of their names.
  std::vector<const model::Attempt*> live_attempts() const;
  std::vector<model::AttemptId> live_attempt_ids() const;
  // In order; the pointers show the rows as of now, not later edits.
  std::vector<const model::Node*> nodes_of(const model::AttemptId& attempt) const;
  // The run that was submitted with this request id, or null.
  const model::Run* run_of_request(const std::string& request_id) const;
  // By project, with the changes of this step.
  std::map<std::string, model::Usage> usage() const;
  // Generation of the store; new runs and attempts get it.
  const std::string& generation() const { return state_.store.generation; }
  // The name of the daemon's engine, or of all of them.
  const std::string& engine() const { return state_.engine; }
  bool has_engine(std::string_view name) const { return model::has_engine(state_, name); }
  // The name of the one that starts agents on this host.
  std::string engine_of(std::string_view host) const { return model::engine_of(state_, host); }
  // The name of the one that chooses the hosts of runs itself, else that of the daemon's engine.
  const std::string& engine_without_host() const {
    return state_.placing_engine.empty() ? state_.engine : state_.placing_engine;
  }
  // One more than the highest number ever given to a run of the project.
  model::RunId next_run_id(const std::string& project) const;

  // Projects with something left of a grant that has ended, and that no run holds.
  std::vector<std::string> projects_with_ended_grants() const;

  // A row that is added only, and no part of the state.
  void add_record(model::Change record) { records_.push_back(std::move(record)); }
  void add_effect(model::Effect effect) { effects_.push_back(std::move(effect)); }
  void set_submitted(const model::RunId& run) { submitted_ = run; }
  void set_attached(const model::NodeId& node) { attached_ = node; }
  Outcome finish();

 private:
  const model::State& state_;
  const Time now_;
  std::optional<map::ClusterMap> map_;  // none: that of the state
  std::vector<model::Change> records_;
  std::vector<model::Effect> effects_;
  std::optional<model::RunId> submitted_;
  std::optional<model::NodeId> attached_;
};

}  // namespace lockstep::step
