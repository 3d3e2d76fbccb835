#include "platform/server/views.h"

#include <algorithm>
#include <map>

#include "base/units.h"
#include "map/query.h"
#include "platform/api/budget_messages.h"
#include "platform/core/step/budget/cost.h"

namespace lockstep::server {
namespace {

api::NodeView node_view(const model::State& state, const model::Node& node) {
  api::NodeView view{.index = node.id.index,
                     .host = node.host,
                     .state = node.state,
                     .address = node.address,
                     .agent_pid = node.agent_pid,
                     .message = node.message,
                     .unreachable_since = node.unreachable_since,
                     .handle = node.handle,
                     .pending_reason = node.pending_reason,
                     .ranks = {},
                     .nccl_network = node.nccl_network};
  if (const auto given_up = state.given_up.find(node.id); given_up != state.given_up.end())
    view.given_up_since = given_up->second.since;
  for (const model::Rank& rank : node.ranks)
    view.ranks.push_back({.rank = rank.rank,
                          .local_rank = rank.local_rank,
                          .pid = rank.pid,
                          .state = rank.state,
                          .code = rank.code,
                          .step = rank.step,
                          .activity = rank.activity,
                          .stalled_since = rank.stalled_since,
                          .activity_since = rank.activity_since,
                          .fault = rank.fault,
                          .fault_rank = rank.fault_rank,
                          .fault_text = rank.fault_text,
                          .restarts = rank.restarts});
  return view;
}

api::AttemptView attempt_view(const model::State& state, const model::Attempt& attempt) {
  api::AttemptView view{.epoch = attempt.id.epoch,
                        .generation = attempt.generation,
                        .engine = attempt.engine,
                        .state = attempt.state,
                        .cause = attempt.cause,
                        .reason = attempt.reason,
                        .created = attempt.created,
                        .started = attempt.started,
                        .ended = attempt.ended,
                        .nodes = {}};
  for (const model::Node* node : model::nodes_of(state, attempt.id))
    view.nodes.push_back(node_view(state, *node));
  return view;
}

model::RunSpec without_secrets(model::RunSpec spec) {
  for (auto& [name, value] : spec.env) value = api::kHiddenValue;
  return spec;
}

// Order of suspicion: stopped, blocked, gone, silent; 4: none of these.
int suspicion_of(const model::Rank& rank) {
  if (rank.state != model::RankState::running) return 2;
  if (rank.activity_since) return rank.activity == model::Activity::stopped ? 0 : 1;
  return rank.stalled_since ? 3 : 4;
}

// While any rank runs: when all have ended, none is late.
std::vector<api::LateRank> late_ranks(const model::State& state, const model::RunId& run) {
  const model::Attempt* attempt = model::live_attempt(state, run);
  if (!attempt || attempt->state != model::AttemptState::running) return {};
  std::vector<std::pair<int, api::LateRank>> found;
  bool any_runs = false;
  for (const model::Node* node : model::nodes_of(state, attempt->id))
    for (const model::Rank& rank : node->ranks) {
      any_runs = any_runs || rank.state == model::RankState::running;
      const auto since = rank.state == model::RankState::running
                             ? rank.activity_since ? rank.activity_since : rank.stalled_since
                             : rank.ended;
      if (const int suspicion = suspicion_of(rank); suspicion < 4)
        found.push_back({suspicion,
                         {.rank = rank.rank,
                          .host = node->host,
                          .state = rank.state,
                          .code = rank.code,
                          .activity = rank.activity,
                          .step = rank.step,
                          .since = since}});
    }
  std::ranges::stable_sort(found, {}, &std::pair<int, api::LateRank>::first);
  std::vector<api::LateRank> late;
  for (auto& [suspicion, rank] : found)
    if (any_runs) late.push_back(std::move(rank));
  return late;
}

std::vector<api::UnreachableNode> unreachable_nodes(const model::State& state,
                                                    const model::RunId& run) {
  const model::Attempt* attempt = model::live_attempt(state, run);
  if (!attempt) return {};
  std::vector<api::UnreachableNode> found;
  for (const model::Node* node : model::nodes_of(state, attempt->id))
    if (node->unreachable_since)
      found.push_back(
          {.node = node->id.index, .host = node->host, .since = *node->unreachable_since});
  std::ranges::stable_sort(found, {}, &api::UnreachableNode::since);
  return found;
}

std::optional<Time> newest_checkpoint(const std::vector<spool::TelemetryItem>& items) {
  std::optional<Time> newest;
  for (const spool::TelemetryItem& item : items)
    if (item.kind == spool::TelemetryKind::checkpoint)
      newest = std::max(newest.value_or(item.time), item.time);
  return newest;
}

std::optional<std::int64_t> furthest_checkpoint(const std::vector<spool::TelemetryItem>& items) {
  std::optional<std::int64_t> furthest;
  for (const spool::TelemetryItem& item : items)
    if (item.kind == spool::TelemetryKind::checkpoint)
      furthest = std::max(furthest.value_or(item.step), item.step);
  return furthest;
}

}  // namespace

double running_seconds(const model::State& state, const model::Run& run, Time now) {
  Duration total = run.time_used;
  if (const model::Attempt* attempt = model::live_attempt(state, run.id))
    total += model::running_time(*attempt, model::nodes_of(state, attempt->id), now);
  return in_seconds(total);
}

api::RunView run_view(const model::State& state, const model::Run& run, insight::RunSummary summary,
                      const std::filesystem::path& checkpoint_folder, Time now) {
  api::RunView view;
  view.id = text(run.id);
  view.generation = run.generation;
  view.name = run.spec.name;
  view.state = run.state;
  view.reason = run.reason;
  view.priority = run.priority;
  view.share = run.fair_share_used;
  view.held = run.held.has_value();
  view.version = run.version;
  view.spec = without_secrets(run.spec);
  view.origin = run.origin;
  view.tags = run.tags;
  view.note = run.note;
  view.launcher = run.launcher;
  view.submitted = run.submitted;
  view.started = run.started;
  view.ended = run.ended;
  view.running_seconds = running_seconds(state, run, now);
  if (!model::is_external(run)) view.time_limit = model::time_limit(run);
  const step::RunCost cost = step::cost_of(state, run, now);
  view.cost = {.so_far_minutes = api::device_minutes(cost.so_far),
               .at_limit_minutes = api::device_minutes(cost.at_limit)};
  view.user_exits = run.user_exits;
  view.losses = run.losses;
  view.moves = run.moves;
  view.late = late_ranks(state, run.id);
  view.unreachable = unreachable_nodes(state, run.id);
  // The ranks of an external run do not hear of the daemon's folder.
  if (!model::is_external(run)) view.checkpoint_folder = checkpoint_folder.string();
  view.latest = std::move(summary.latest);
  view.progress = summary.progress;
  return view;
}

void add_wait_reasons(std::vector<api::RunView>& views, const std::vector<model::Run>& runs,
                      const step::IncrementalScheduler& scheduler) {
  std::map<model::RunId, std::size_t> queued;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i].state == model::RunState::queued) queued.emplace(runs[i].id, i);
  if (queued.empty()) return;
  for (const sched::WaitingRun& waiting : scheduler.waiting())
    if (const auto found = queued.find(waiting.run); found != queued.end())
      views[found->second].reason = waiting.reason;
}

void add_start_estimate(api::RunView& view, const model::Run& run,
                        const step::IncrementalScheduler& scheduler) {
  const auto& waiting = scheduler.waiting();
  const auto found = std::ranges::find(waiting, run.id, &sched::WaitingRun::run);
  if (found == waiting.end()) {
    view.expected_start = run.not_before;
    return;
  }
  view.reason = found->reason;
  if (found->blocker) view.blocker = text(*found->blocker);
  const sched::StartTimes& starts =
      scheduler.start_times()[static_cast<std::size_t>(found - waiting.begin())];
  view.expected_start = starts.expected;
  view.latest_start = starts.latest;
}

std::vector<api::AttemptView> attempt_views(const model::State& state, const model::RunId& run) {
  std::vector<api::AttemptView> views;
  auto attempt = state.attempts.lower_bound(model::AttemptId{run, 0});
  for (; attempt != state.attempts.end() && attempt->first.run == run; ++attempt)
    views.push_back(attempt_view(state, attempt->second));
  return views;
}

std::vector<model::AuditEntry> event_views(std::vector<model::AuditEntry> audit,
                                           std::vector<insight::RunEvent> events) {
  for (auto& event : events)
    audit.push_back({.time = event.time, .by = "", .what = std::move(event.text)});
  std::ranges::stable_sort(audit, {}, &model::AuditEntry::time);
  return audit;
}

double host_share(const model::State& state, const model::NodeId& id) {
  const model::Node& node = state.nodes.at(id);
  const map::Host* host = map::find_host(state.map, node.host);
  if (host == nullptr || node.devices.empty()) return 1;
  const std::size_t all = std::max(map::device_count(*host), node.devices.size());
  return static_cast<double>(node.devices.size()) / static_cast<double>(all);
}

std::int64_t last_item_of(const api::Heartbeat& heartbeat) {
  return heartbeat.items.empty() ? 0 : heartbeat.items.back().sequence;
}

model::NodeReport node_report(const model::NodeName& node, const api::Heartbeat& heartbeat) {
  std::optional<model::ClockRow> clock;
  if (heartbeat.clock_zero) clock = {heartbeat.boot, *heartbeat.clock_zero};
  return {.node = node.id,
          .generation = node.generation,
          .state = heartbeat.state,
          .address = heartbeat.address,
          .master_port = heartbeat.master_port,
          .rendezvous_port = heartbeat.rendezvous_port,
          .agent_pid = heartbeat.agent_pid,
          .stop_reason = heartbeat.stop_reason,
          .message = heartbeat.message,
          .ranks = heartbeat.ranks,
          .agent = {.id = heartbeat.incarnation,
                    .machine = heartbeat.machine,
                    .started = heartbeat.agent_started.value_or(Time{})},
          .last_item = last_item_of(heartbeat),
          .clock = std::move(clock),
          .last_checkpoint = newest_checkpoint(heartbeat.items),
          .last_checkpoint_step = furthest_checkpoint(heartbeat.items),
          .idle_since = heartbeat.idle_since,
          .nccl_network = heartbeat.nccl_network};
}

api::HeartbeatAnswer heartbeat_answer(const model::Command& command, std::int64_t acknowledged) {
  return {.command = command.kind,
          .acknowledged = acknowledged,
          .master_address = command.master_address,
          .master_port = command.master_port,
          .rendezvous = command.rendezvous,
          .grace_seconds = in_seconds(command.grace),
          .time_left = command.time_left,
          .orphaned = command.orphaned};
}

}  // namespace lockstep::server
