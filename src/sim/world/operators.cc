#include "sim/world/operators.h"

#include <array>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "map/query.h"
#include "sim/world/users.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kPercentOfActions = 40;  // of what they can do they do in one seed
constexpr Duration kRetryInterval = seconds(7);
constexpr Duration kOrphansMax = minutes(3);  // between two checks of orphans
constexpr int kPriorityMoved = 3;
constexpr int kProjectWeightMax = 5;

bool is_shut(const model::HostRow& host) {
  return host.state == model::HostState::closed || host.state == model::HostState::drained;
}

// Checks that the rows match a request whose success was reported.
struct AppliedCheck {
  const model::State& rows;
  bool operator()(const model::HoldRun& event) const {
    return rows.runs.at(event.run).held.has_value();
  }
  bool operator()(const model::ReleaseRun& event) const { return !rows.runs.at(event.run).held; }
  bool operator()(const model::SetPriority& event) const {
    return rows.runs.at(event.run).priority == event.priority;
  }
  bool operator()(const model::SetHost& event) const {
    const auto host = rows.hosts.find(event.host);
    const bool shut = host != rows.hosts.end() && is_shut(host->second);
    return shut == (event.state != model::HostState::open);
  }
  bool operator()(const model::SetLimit& event) const {
    const auto limit = rows.limits.find(event.limit);
    return (limit == rows.limits.end() ? std::nullopt : limit->second.devices) == event.devices;
  }
  bool operator()(const model::SetWeight& event) const {
    return rows.limits.at({model::LimitScope::project, event.project}).weight == event.weight;
  }
  bool operator()(const model::AdoptOrphan& event) const {
    return model::live_attempt(rows, event.run) != nullptr;
  }
  template <class Other>
  bool operator()(const Other&) const {
    return true;
  }
};

std::string_view state_verb(model::HostState state) {
  return state == model::HostState::drained ? "drains" : "closes";
}

}  // namespace

std::span<const Operators::Kind> Operators::kinds() {
  static constexpr std::array<Kind, 7> kKinds = {{
      {"runs are held", minutes(2), &Operators::hold_a_run},
      {"runs are brought forward or back", minutes(2), &Operators::set_a_priority},
      {"runs are extended", minutes(2), &Operators::extend_a_run},
      {"hosts are closed and drained", minutes(3), &Operators::close_a_host},
      {"projects are limited", minutes(4), &Operators::limit_a_project},
      {"users are limited", minutes(4), &Operators::limit_a_user},
      {"projects get other weights", minutes(4), &Operators::set_project_weight},
  }};
  return kKinds;
}

void Operators::begin() {
  for (const Kind& kind : kinds()) {
    if (!random_.percent(kPercentOfActions)) continue;
    context_.trace("operators", "in this seed {}, every {} or so", kind.name, text(kind.mean));
    plan(kind);
  }
  schedule_orphan_handling();
}

void Operators::plan(const Kind& kind) {
  context_.timeline.after(random_.from_to(Duration(0), kind.mean * 2), [this, &kind] {
    if (stopped_) return;
    (this->*kind.act)();
    plan(kind);
  });
}

bool Operators::request_change(const model::Event& event, const std::string& what) {
  const auto done = daemon_.change(event);
  context_.trace("operator", "{}{}{}", what, done ? "" : ": ", done ? "" : done.error().message);
  if (done && !std::visit(AppliedCheck{durable_}, event))
    context_.report_violation(format("who {} was told that it is done, and it is not", what));
  return done || done.error().code != Code::unavailable;
}

void Operators::undo_after(Duration duration, const model::Event& event, const std::string& what) {
  context_.timeline.after(duration, [this, event, what] {
    if (stopped_) return;
    if (!request_change(event, what)) undo_after(kRetryInterval, event, what);
  });
}

// Most are released later; the others at the end of the simulation.
void Operators::hold_a_run() {
  std::vector<model::RunId> waiting;
  for (const model::RunId& id : durable_.open)
    if (durable_.runs.at(id).state == model::RunState::queued) waiting.push_back(id);
  if (waiting.empty()) return;
  const model::RunId run = random_.one_of(waiting);
  request_change(
      model::HoldRun{run, "ann", random_.percent(50) ? "the data set is being replaced" : ""},
      "holds " + text(run));
  if (random_.percent(80))
    undo_after(random_.from_to(seconds(1), minutes(10)), model::ReleaseRun{run, "bob"},
               "releases " + text(run));
}

void Operators::set_a_priority() {
  if (durable_.open.empty()) return;
  const model::RunId run = random_.one_of(durable_.open);
  const int priority = random_.from_to(-kPriorityMoved, kPriorityMoved);
  request_change(model::SetPriority{run, priority, "ann"},
                 format("gives {} the priority {}", text(run), priority));
}

void Operators::extend_a_run() {
  if (durable_.open.empty()) return;
  const model::RunId run = random_.one_of(durable_.open);
  const Duration extension = random_.from_to(seconds(1), minutes(5));
  request_change(model::ExtendRun{run, extension, "ann"},
                 format("extends {} by {}", text(run), text(extension)));
}

void Operators::close_a_host() {
  std::vector<std::string> names;
  for (const map::Host* host : map::hosts(durable_.map)) names.push_back(host->id);
  if (names.empty()) return;
  const std::string host = random_.one_of(names);
  const auto state = random_.percent(50) ? model::HostState::closed : model::HostState::drained;
  request_change(model::SetHost{host, state, "ann", "a fan is loud"},
                 format("{} {}", state_verb(state), host));
  undo_after(random_.from_to(seconds(10), minutes(8)),
             model::SetHost{host, model::HostState::open, "bob", ""}, "opens " + host);
}

void Operators::limit_a_project() {
  limit({model::LimitScope::project, std::string(random_.one_of(kProjects))});
}

void Operators::limit_a_user() {
  limit({model::LimitScope::user, std::string(random_.one_of(kUserNames))});
}

// Some limits are too small for any run of the project or user to start.
void Operators::limit(const model::LimitId& id) {
  const int devices = random_.below(static_cast<int>(map::device_count(map_)));
  request_change(model::SetLimit{id, devices},
                 format("limits {} to {} devices", text(id), devices));
  undo_after(random_.from_to(seconds(10), minutes(10)), model::SetLimit{id, std::nullopt},
             format("limits {} no longer", text(id)));
}

void Operators::set_project_weight() {
  const std::string project(random_.one_of(kProjects));
  const int weight = random_.from_to(1, kProjectWeightMax);
  request_change(model::SetWeight{project, weight},
                 format("weighs project {} {} times", project, weight));
}

// In every seed, to the end; without a replaced store there are no orphans.
void Operators::schedule_orphan_handling() {
  const Duration most = stopped_ ? kRetryInterval : kOrphansMax;
  context_.timeline.after(orphan_random_.from_to(Duration(0), most), [this] {
    handle_orphan();
    schedule_orphan_handling();
  });
}

void Operators::handle_orphan() {
  if (durable_.orphans.empty()) return;
  const model::RunId run = orphan_random_.one_of(durable_.orphans).first.id.attempt.run;
  if (orphan_random_.percent(40))
    stop_orphans(run);
  else
    adopt_orphans(run);
}

void Operators::stop_orphans(const model::RunId& run) {
  truth_.orphan_stop_requested(run);
  const auto done = daemon_.change(model::StopOrphan{run, "ann"});
  context_.trace("operator", "stops orphan {}{}{}", text(run), done ? "" : ": ",
                 done ? "" : done.error().message);
  if (done) truth_.orphan_stop_acknowledged(run);
}

void Operators::adopt_orphans(const model::RunId& run) {
  truth_.adoption_requested(run);
  request_change(model::AdoptOrphan{run, "bob"}, "adopts orphan " + text(run));
  truth_.adoption_request_done(run);
}

void Operators::stop_and_undo() {
  stopped_ = true;
  undo_all();
}

void Operators::undo_all() {
  std::vector<std::pair<model::Event, std::string>> left;
  for (const model::RunId& id : durable_.open)
    if (durable_.runs.at(id).held)
      left.emplace_back(model::ReleaseRun{id, "ann"}, "releases " + text(id));
  for (const auto& [id, host] : durable_.hosts)
    if (is_shut(host))
      left.emplace_back(model::SetHost{id, model::HostState::open, "ann", ""}, "opens " + id);
  for (const auto& [id, limit] : durable_.limits)
    if (limit.devices)
      left.emplace_back(model::SetLimit{id, std::nullopt}, format("limits {} no longer", text(id)));
  for (const auto& [event, what] : left) request_change(event, what);
  if (!left.empty()) context_.timeline.after(kRetryInterval, [this] { undo_all(); });
}

}  // namespace lockstep::sim
