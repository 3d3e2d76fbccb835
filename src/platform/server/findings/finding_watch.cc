#include "platform/server/findings/finding_watch.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "map/query.h"
#include "platform/core/model/settings/settings.h"
#include "platform/core/model/state.h"

namespace lockstep::server {
namespace {

using model::FindingAct;
using model::HostState;
using spool::TelemetryItem;
using spool::TelemetryKind;

constexpr Duration kEndInterval = std::chrono::seconds(10);
constexpr const char* kActor = "lockstep";  // of its acts, in the audit

finding::RankPlace place_of(const model::Node& node, int rank) {
  finding::RankPlace place{.rank = rank, .node = node.id.index};
  const auto found = std::ranges::find(node.ranks, rank, &model::Rank::rank);
  if (found == node.ranks.end()) return place;
  const auto local = static_cast<std::size_t>(found->local_rank);
  if (local < node.devices.size()) place.device = node.devices[local];
  return place;
}

HostState host_state(const model::State& state, const std::string& host) {
  const auto row = state.hosts.find(host);
  return row == state.hosts.end() ? HostState::open : row->second.state;
}

bool is_closed(HostState state) {
  return state == HostState::closed || state == HostState::drained;
}

// Wrong findings must not close a cluster.
Result<void> check_share(const model::State& state) {
  const std::size_t hosts = map::hosts(state.map).size();
  const auto closed = static_cast<std::size_t>(std::ranges::count_if(
      state.hosts, [](const auto& row) { return is_closed(row.second.state); }));
  const auto percent = static_cast<std::size_t>(state.settings.widespread_percent);
  if ((closed + 1) * 100 <= std::max(hosts * percent, std::size_t{100})) return {};
  return Error{Code::invalid,
               format("{} of {} hosts are closed: a further one would be more than {} % "
                      "(widespread_percent)",
                      closed, hosts, percent)};
}

}  // namespace

std::string text_of(const store::StoredFinding& stored) {
  const auto& [kind, node, rank, device, part] = stored.finding.subject;
  std::string where;
  const auto add = [&](const std::string& words) { where += where.empty() ? words : ", " + words; };
  if (rank) add(format("rank {}", *rank));
  if (device) add(format("device {}", *device));
  if (!stored.host.empty()) add(format("host {}", stored.host));
  return format("{}{}{}: {}", name_of(kind), where.empty() ? "" : ": ", where, stored.finding.text);
}

void FindingWatch::observe(const model::NodeId& id, std::span<const TelemetryItem> items) {
  if (items.empty()) return;
  end_attempts();
  const auto watched = attempt_of(id.attempt);
  const auto report = [&](const Result<void>& result) {
    constexpr const char* kWhat = "findings";
    if (result) {
      if (log_.clear(kWhat)) LS_LOG(info, "findings are stored again");
    } else if (log_.should_log(kWhat, result.error().message)) {
      LS_LOG(warning, "findings: {}", result.error().message);
    }
  };
  if (!watched) return report(watched.error());
  Attempt& attempt = **watched;
  const model::Node node = controller_.state().nodes.at(id);
  for (const TelemetryItem& item : items) {
    if (item.kind == TelemetryKind::telemetry)
      attempt.detector.observe_telemetry(id.index, item.time, item.values);
    if (item.kind == TelemetryKind::metrics)
      attempt.detector.observe_metrics(place_of(node, item.rank), item.step, item.time,
                                       item.values);
  }
  take_changes(id.attempt, attempt);
  report(save(id.attempt, attempt));
}

Result<FindingWatch::Attempt*> FindingWatch::attempt_of(const model::AttemptId& id) {
  if (const auto found = attempts_.find(id); found != attempts_.end()) return found->second.get();
  auto attempt = std::make_unique<Attempt>();
  std::size_t ranks = 0, nodes = 0;
  for (auto node = controller_.state().nodes.lower_bound(model::NodeId{id, 0});
       node != controller_.state().nodes.end() && node->first.attempt == id; ++node) {
    ++nodes;
    ranks += node->second.devices.size();
  }
  attempt->detector.set_size(ranks, nodes);
  for (store::StoredFinding& row : TRY(store_.open_of(id))) {
    attempt->detector.restore(row.finding);
    const model::Subject subject = row.finding.subject;
    attempt->open[subject] = &attempt->rows.emplace_back(std::move(row));
  }
  for (const store::FindingMark& mark : TRY(store_.marks_of(id)))
    attempt->detector.restore_mark(mark.node, mark.metric, mark.value);
  return (attempts_[id] = std::move(attempt)).get();
}

void FindingWatch::take_changes(const model::AttemptId& id, Attempt& attempt) {
  const model::State& state = controller_.state();
  for (model::Finding& change : attempt.detector.take_changes()) {
    store::StoredFinding*& row = attempt.open[change.subject];
    if (row == nullptr) {
      row = &attempt.rows.emplace_back(store::StoredFinding{.attempt = id});
      if (change.subject.node) {
        const auto node = state.nodes.find(model::NodeId{id, *change.subject.node});
        if (node != state.nodes.end()) row->host = node->second.host;
      }
    }
    row->finding = std::move(change);
    if (std::ranges::find(attempt.unsaved, row) == attempt.unsaved.end())
      attempt.unsaved.push_back(row);
    if (row->finding.ended) attempt.open.erase(model::Subject(row->finding.subject));
  }
  for (const auto& [node, marks] : attempt.detector.take_changed_marks())
    for (const auto& [metric, value] : marks)
      attempt.unsaved_marks.push_back({node, metric, value});
}

// The rows first, then the acts, then the rows with their acts.
Result<void> FindingWatch::save(const model::AttemptId& id, Attempt& attempt) {
  if (attempt.unsaved.empty() && attempt.unsaved_marks.empty()) return {};
  std::vector<store::StoredFinding*> added;
  for (store::StoredFinding* row : attempt.unsaved)
    if (row->id == 0) added.push_back(row);
  TRY(store_.save(id, attempt.unsaved, attempt.unsaved_marks));
  attempt.unsaved_marks.clear();
  for (store::StoredFinding* row : std::exchange(attempt.unsaved, {}))
    act_on(id, *row, std::ranges::find(added, row) != added.end());
  std::erase_if(attempt.rows, [](const auto& row) { return row.finding.ended.has_value(); });
  return {};
}

void FindingWatch::act_on(const model::AttemptId& id, store::StoredFinding& row, bool is_new) {
  if (is_new) {
    const auto told = controller_.report_finding(id.run.project, id.run, text_of(row));
    if (!told) LS_LOG(warning, "{}: no notice: {}", text(id), told.error().message);
  }
  const FindingAct wanted = wanted_act(row.finding);
  const bool is_in_map = map::find_host(controller_.state().map, row.host) != nullptr;
  if (row.finding.ended || !is_in_map || wanted <= row.act) return;
  auto done = set_host(row, wanted);
  const FindingAct before = row.act;
  if (done) {
    row.act = wanted;
    done = store_.save(id, {&row}, {});
  }
  if (done) return;
  row.act = before;
  LS_LOG(warning, "{} of host {} because of a finding: {}", name_of(wanted), row.host,
         done.error().message);
}

FindingAct FindingWatch::wanted_act(const model::Finding& finding) const {
  const model::Settings& settings = controller_.state().settings;
  const auto is_in = [&](const std::string& kinds) {
    const auto listed = model::finding_kinds(kinds);
    return listed && std::ranges::find(*listed, finding.subject.kind) != listed->end();
  };
  if (!finding.of_hardware) return FindingAct::event;
  if (is_in(settings.finding_rerun)) return FindingAct::rerun;
  return is_in(settings.finding_cordon) ? FindingAct::cordon : FindingAct::event;
}

// As an operator would: the same event, with a record in the audit.
Result<void> FindingWatch::set_host(const store::StoredFinding& row, FindingAct act) {
  const model::State& state = controller_.state();
  const HostState before = host_state(state, row.host);
  const HostState wanted = act == FindingAct::rerun ? HostState::drained : HostState::closed;
  if (before == wanted || before == HostState::drained) return {};
  if (!is_closed(before)) TRY(check_share(state));
  const std::string reason =
      format("{} of {}", name_of(row.finding.subject.kind), text(row.attempt));
  return controller_.apply_operator_event(
      model::SetHost{row.host, wanted, kActor, reason},
      model::AuditRecord{.time = clock_.now(),
                         .user = kActor,
                         .action = "host.set",
                         .target = row.host,
                         .before = std::string(model::displayed_host_state(before)),
                         .after = format("{}: {}", model::displayed_host_state(wanted), reason)});
}

void FindingWatch::end_attempts() {
  const Time now = clock_.now();
  if (now < next_end_ && next_end_ - now <= kEndInterval) return;
  next_end_ = now + kEndInterval;
  const auto& known = controller_.state().attempts;
  std::erase_if(attempts_, [&](const auto& watched) {
    const auto found = known.find(watched.first);
    if (found == known.end()) return true;
    if (!found->second.ended) return false;
    return store_.end(watched.first, *found->second.ended).has_value();
  });
}

}  // namespace lockstep::server
