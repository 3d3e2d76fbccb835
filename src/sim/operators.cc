#include "sim/operators.h"

#include <array>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "map/query.h"
#include "sim/users.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kPercentOfDoings = 40;  // of what they can do they do in one seed
constexpr Duration kAskOnceMore = seconds(7);
constexpr Duration kOrphansMost = minutes(3);  // between two looks at orphans
constexpr int kPriorityMoved = 3;
constexpr int kHeaviest = 5;

bool is_shut(const HostRow& host) {
  return host.state == HostState::closed || host.state == HostState::drained;
}

// Whether the rows are as was asked, of somebody who was told that it is done.
struct Obeyed {
  const State& rows;
  bool operator()(const HoldRun& event) const { return rows.runs.at(event.run).held.has_value(); }
  bool operator()(const ReleaseRun& event) const { return !rows.runs.at(event.run).held; }
  bool operator()(const SetPriority& event) const {
    return rows.runs.at(event.run).priority == event.priority;
  }
  bool operator()(const SetHost& event) const {
    const auto host = rows.hosts.find(event.host);
    const bool shut = host != rows.hosts.end() && is_shut(host->second);
    return shut == (event.state != HostState::open);
  }
  bool operator()(const SetLimit& event) const {
    const auto limit = rows.limits.find(event.limit);
    return (limit == rows.limits.end() ? std::nullopt : limit->second.devices) == event.devices;
  }
  bool operator()(const SetWeight& event) const {
    return rows.limits.at({LimitScope::project, event.project}).weight == event.weight;
  }
  bool operator()(const AdoptOrphan& event) const {
    return live_attempt(rows, event.run) != nullptr;
  }
  template <class Other>
  bool operator()(const Other&) const {
    return true;
  }
};

std::string_view words_for(HostState state) {
  return state == HostState::drained ? "drains" : "closes";
}

}  // namespace

std::span<const Operators::Kind> Operators::kinds() {
  static constexpr std::array<Kind, 6> kKinds = {{
      {"runs are held", minutes(2), &Operators::hold_a_run},
      {"runs are brought forward or back", minutes(2), &Operators::set_a_priority},
      {"hosts are closed and drained", minutes(3), &Operators::close_a_host},
      {"projects are limited", minutes(4), &Operators::limit_a_project},
      {"users are limited", minutes(4), &Operators::limit_a_user},
      {"projects get other weights", minutes(4), &Operators::weigh_a_project},
  }};
  return kKinds;
}

void Operators::begin() {
  for (const Kind& kind : kinds()) {
    if (!dice_.percent(kPercentOfDoings)) continue;
    scene_.tell("operators", "in this seed {}, every {} or so", kind.name, text(kind.mean));
    plan(kind);
  }
  see_to_orphans_later();
}

void Operators::plan(const Kind& kind) {
  scene_.timeline.after(dice_.from_to(Duration(0), kind.mean * 2), [this, &kind] {
    if (ceased_) return;
    (this->*kind.act)();
    plan(kind);
  });
}

bool Operators::ask(const Event& event, const std::string& what) {
  const auto done = daemon_.change(event);
  scene_.tell("operator", "{}{}{}", what, done ? "" : ": ", done ? "" : done.error().message);
  if (done && !std::visit(Obeyed{durable_}, event))
    scene_.violate(format("who {} was told that it is done, and it is not", what));
  return done || done.error().code != Code::unavailable;
}

void Operators::undo_after(Duration duration, const Event& event, const std::string& what) {
  scene_.timeline.after(duration, [this, event, what] {
    if (ceased_) return;
    if (!ask(event, what)) undo_after(kAskOnceMore, event, what);
  });
}

// Most are released some time; the others when all is over.
void Operators::hold_a_run() {
  std::vector<RunId> waiting;
  for (const RunId& id : durable_.open)
    if (durable_.runs.at(id).state == RunState::queued) waiting.push_back(id);
  if (waiting.empty()) return;
  const RunId run = dice_.one_of(waiting);
  ask(HoldRun{run, "ann", dice_.percent(50) ? "the data set is being replaced" : ""},
      "holds " + text(run));
  if (dice_.percent(80))
    undo_after(dice_.from_to(seconds(1), minutes(10)), ReleaseRun{run, "bob"},
               "releases " + text(run));
}

void Operators::set_a_priority() {
  if (durable_.open.empty()) return;
  const RunId run = dice_.one_of(durable_.open);
  const int priority = dice_.from_to(-kPriorityMoved, kPriorityMoved);
  ask(SetPriority{run, priority, "ann"}, format("gives {} the priority {}", text(run), priority));
}

void Operators::close_a_host() {
  std::vector<std::string> names;
  for (const Host* host : hosts(map_)) names.push_back(host->id);
  const std::string host = dice_.one_of(names);
  const auto state = dice_.percent(50) ? HostState::closed : HostState::drained;
  ask(SetHost{host, state, "ann", "a fan is loud"}, format("{} {}", words_for(state), host));
  undo_after(dice_.from_to(seconds(10), minutes(8)), SetHost{host, HostState::open, "bob", ""},
             "opens " + host);
}

void Operators::limit_a_project() {
  limit({LimitScope::project, std::string(dice_.one_of(kProjects))});
}

void Operators::limit_a_user() { limit({LimitScope::user, std::string(dice_.one_of(kUserNames))}); }

// Some to so few that nobody of theirs may start.
void Operators::limit(const LimitId& id) {
  const int devices = dice_.below(static_cast<int>(device_count(map_)));
  ask(SetLimit{id, devices}, format("limits {} to {} devices", text(id), devices));
  undo_after(dice_.from_to(seconds(10), minutes(10)), SetLimit{id, std::nullopt},
             format("limits {} no longer", text(id)));
}

void Operators::weigh_a_project() {
  const std::string project(dice_.one_of(kProjects));
  const int weight = dice_.from_to(1, kHeaviest);
  ask(SetWeight{project, weight}, format("weighs project {} {} times", project, weight));
}

// In every seed, and to the end: where no store is replaced there are none.
void Operators::see_to_orphans_later() {
  const Duration most = ceased_ ? kAskOnceMore : kOrphansMost;
  scene_.timeline.after(orphan_dice_.from_to(Duration(0), most), [this] {
    see_to_an_orphan();
    see_to_orphans_later();
  });
}

void Operators::see_to_an_orphan() {
  if (durable_.orphans.empty()) return;
  const RunId run = orphan_dice_.one_of(durable_.orphans).first.id.attempt.run;
  if (orphan_dice_.percent(40))
    stop_orphans(run);
  else
    adopt_orphans(run);
}

void Operators::stop_orphans(const RunId& run) {
  truth_.asks_to_stop_orphans(run);
  const auto done = daemon_.change(StopOrphan{run, "ann"});
  scene_.tell("operator", "stops orphan {}{}{}", text(run), done ? "" : ": ",
              done ? "" : done.error().message);
  if (done) truth_.promised_to_stop_orphans(run);
}

void Operators::adopt_orphans(const RunId& run) {
  truth_.asks_to_adopt(run);
  ask(AdoptOrphan{run, "bob"}, "adopts orphan " + text(run));
  truth_.has_asked_to_adopt(run);
}

void Operators::cease() {
  ceased_ = true;
  take_all_back();
}

void Operators::take_all_back() {
  std::vector<std::pair<Event, std::string>> left;
  for (const RunId& id : durable_.open)
    if (durable_.runs.at(id).held) left.emplace_back(ReleaseRun{id, "ann"}, "releases " + text(id));
  for (const auto& [id, host] : durable_.hosts)
    if (is_shut(host)) left.emplace_back(SetHost{id, HostState::open, "ann", ""}, "opens " + id);
  for (const auto& [id, limit] : durable_.limits)
    if (limit.devices)
      left.emplace_back(SetLimit{id, std::nullopt}, format("limits {} no longer", text(id)));
  for (const auto& [event, what] : left) ask(event, what);
  if (!left.empty()) scene_.timeline.after(kAskOnceMore, [this] { take_all_back(); });
}

}  // namespace lockstep::sim
