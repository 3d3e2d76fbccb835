#include "sim/replay/step_backend.h"

#include <utility>

namespace lockstep::sim {
namespace {

constexpr int kAnyPort = 1;

const sched::PendingRun& pending_run_of_job(const std::vector<sched::PendingRun>& pending_runs,
                                            JobId job) {
  return pending_runs[static_cast<std::size_t>(job.value())];
}

model::RunSpec spec_of(const sched::PendingRun& pending) {
  model::RunSpec spec;
  spec.project = pending.run.project;
  spec.command = {"job"};
  spec.nodes = pending.nodes;
  spec.devices = pending.devices;
  spec.remainder = pending.remainder;
  spec.timeout = pending.time_limit;
  return spec;
}

model::State empty_state(const map::ClusterMap& map) {
  model::State state;
  state.map = map;
  return state;
}

// All ranks of the node have this state.
model::NodeReport report_of(const model::Node& node, int first_rank, model::RankState state) {
  model::NodeReport report;
  report.node = node.id;
  report.state = model::NodeState::running;
  report.address = "simulated";
  report.master_port = report.rendezvous_port = kAnyPort;
  for (int local = 0; std::cmp_less(local, node.devices.size()); ++local) {
    model::Rank& rank = report.ranks.emplace_back();
    rank.rank = first_rank + local;
    rank.local_rank = local;
    rank.state = state;
  }
  return report;
}

}  // namespace

StepBackend::StepBackend(const map::ClusterMap& map, const sched::SchedulingPolicy& policy,
                         std::vector<sched::PendingRun> pending_runs)
    : pending_runs_(std::move(pending_runs)),
      decider_(empty_state(map), policy, step::IncrementalScheduler::ReasonUpdates::on_demand) {}

Result<Decision> StepBackend::decide(Seconds now, std::span<const JobId> ended,
                                     std::span<const JobId> arrived) {
  Events events;
  for (const JobId job : ended) add_end(events, job);
  for (const JobId job : arrived) add_arrival(events, job);
  const auto effects = TRY(apply_events(events, now));
  Decision decision;
  for (const model::Effect& effect : effects)
    if (const auto* submit = std::get_if<model::SubmitGang>(&effect))
      decision.started.emplace_back(submit->attempt.run.number - 1);
  const auto more = TRY(apply_events(reports_after(effects), now));
  LS_CHECK(more.empty(), "agents that say that they run had somebody started");
  if (const auto head = decider_.scheduler().head()) decision.head = JobId(head->number - 1);
  return decision;
}

// step() numbers runs in the order of submission, which is the order of the trace.
void StepBackend::add_arrival(Events& events, JobId job) const {
  events.emplace_back(
      model::SubmitRun{.spec = spec_of(pending_run_of_job(pending_runs_, job)), .origin = {}});
}

void StepBackend::add_end(Events& events, JobId job) const {
  const model::Run& run = decider_.state().runs.at(pending_run_of_job(pending_runs_, job).run);
  const auto nodes = model::nodes_of(decider_.state(), {run.id, run.epoch});
  for (const model::Node* node : nodes)
    events.emplace_back(
        report_of(*node, node->id.index * run.spec.devices, model::RankState::exited));
  for (const model::Node* node : nodes)
    events.emplace_back(model::NodeSeen{node->id, {.phase = model::NodePhase::gone}});
}

StepBackend::Events StepBackend::reports_after(const std::vector<model::Effect>& effects) const {
  Events events;
  for (const model::Effect& effect : effects) {
    const auto* submit = std::get_if<model::SubmitGang>(&effect);
    LS_CHECK(submit != nullptr, "a job is to be ended by force");
    const model::RunSpec& spec = decider_.state().runs.at(submit->attempt.run).spec;
    for (const model::Node* node : model::nodes_of(decider_.state(), submit->attempt))
      events.emplace_back(
          report_of(*node, node->id.index * spec.devices, model::RankState::running));
  }
  return events;
}

Result<std::vector<model::Effect>> StepBackend::apply_events(const Events& events, Seconds now) {
  step::Outcome outcome = TRY(decider_.propose(events, Time(now)));
  decider_.accept(outcome.changes);
  return std::move(outcome.effects);
}

}  // namespace lockstep::sim
