// Agents of external jobs, whose ranks another launcher has started.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/format.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/handlers/event_handlers.h"
#include "platform/core/step/handlers/second_agent.h"
#include "platform/core/step/starting/preconditions.h"

namespace lockstep::step {
namespace {

constexpr std::size_t kLauncherTextMax = 100;

Result<void> check_ranks(const std::vector<model::Rank>& ranks) {
  if (ranks.empty() || ranks.size() > static_cast<std::size_t>(model::kDevicesMax))
    return Error{Code::invalid, format("ranks: an agent has 1 to {}", model::kDevicesMax)};
  std::vector<int> numbers;
  std::vector<int> local_numbers;
  for (const model::Rank& rank : ranks) {
    if (rank.rank < 0 || rank.local_rank < 0 || rank.local_rank >= model::kDevicesMax ||
        std::ranges::count(numbers, rank.rank) +
                std::ranges::count(local_numbers, rank.local_rank) >
            0)
      return Error{Code::invalid, format("ranks: rank {} with local rank {} is negative, or there "
                                         "twice",
                                         rank.rank, rank.local_rank)};
    numbers.push_back(rank.rank);
    local_numbers.push_back(rank.local_rank);
  }
  return {};
}

Result<void> check_attachment(const model::AttachNode& event) {
  TRY(model::check_name("job", event.job));
  TRY(model::check_name("incarnation", event.agent.id));
  if (event.agent.machine.empty()) return Error{Code::invalid, "machine: names no host"};
  if (event.launcher.empty()) return Error{Code::invalid, "launcher: names no program"};
  return check_ranks(event.ranks);
}

// The launcher has decided the rest.
model::RunSpec spec_of(const model::RunSpec& asked) {
  model::RunSpec spec;
  spec.project = asked.project;
  spec.name = asked.name;
  spec.command = asked.command;
  spec.nodes = asked.nodes;
  spec.devices = asked.devices;
  spec.remainder = asked.remainder;
  spec.working_folder = asked.working_folder;
  spec.timeout = model::timeout_max(spec.run_class);
  spec.rank_loss_retries = 0;
  spec.hang_after = Duration(0);
  return spec;
}

// The user's newest run of the job that has not ended, or null.
const model::Run* open_run_of_job(const Draft& draft, const model::AttachNode& event) {
  const model::Run* newest = nullptr;
  for (const model::RunId& id : draft.open_runs()) {
    const model::Run* run = draft.runs.find(id);
    if (run->job == event.job && run->origin.user == event.origin.user &&
        (newest == nullptr || newest->submitted <= run->submitted))
      newest = run;
  }
  return newest;
}

bool has_rank_of(const model::Node& node, const std::vector<model::Rank>& ranks) {
  return std::ranges::any_of(node.ranks, [&](const model::Rank& known) {
    return std::ranges::find(ranks, known.rank, &model::Rank::rank) != ranks.end();
  });
}

void add_node(Draft& draft, const model::AttemptId& attempt, const model::AttachNode& event) {
  model::Node node;
  node.id = {attempt, static_cast<int>(draft.nodes_of(attempt).size())};
  node.host = one_line(event.agent.machine);
  node.state = model::NodeState::running;
  node.last_heartbeat = draft.now();
  node.ranks = event.ranks;
  for (model::Rank& rank : node.ranks) rank = {rank.rank, rank.local_rank, rank.pid};
  std::ranges::sort(node.ranks, {}, &model::Rank::rank);
  add_agent(node, event.agent);
  draft.attempts.edit(attempt).admitted = draft.now();
  draft.set_attached(node.id);
  draft.nodes.add(std::move(node));
}

Result<model::AttemptId> add_external_run(Draft& draft, const model::AttachNode& event) {
  TRY(check_open_runs(draft));
  model::Run run;
  run.spec = spec_of(event.spec);
  TRY(model::check(run.spec));
  run.id = draft.next_run_id(run.spec.project);
  run.generation = draft.generation();
  run.origin = event.origin;
  run.launcher = one_line(event.launcher).substr(0, kLauncherTextMax);
  run.job = event.job;
  run.state = model::RunState::running;
  run.epoch = 1;
  run.submitted = draft.now();
  run.queued = draft.now();
  run.started = draft.now();
  model::Attempt attempt;
  attempt.id = {run.id, run.epoch};
  attempt.generation = draft.generation();
  attempt.engine = model::kExternalEngine;
  attempt.is_placed = false;
  attempt.state = model::AttemptState::running;
  attempt.created = draft.now();
  attempt.started = draft.now();
  draft.runs.add(std::move(run));
  return draft.attempts.add(std::move(attempt)).id;
}

}  // namespace

// A job has each rank once: a rank that another agent has is of an earlier start of the launcher.
Result<void> handle_event(Draft& draft, const model::AttachNode& event) {
  TRY(check_attachment(event));
  bool is_new = true;
  if (const model::Run* run = open_run_of_job(draft, event)) {
    const model::AttemptId attempt{run->id, run->epoch};
    const auto nodes = draft.nodes_of(attempt);
    for (const model::Node* node : nodes) {
      if (node->agents.front().id != event.agent.id) continue;
      draft.set_attached(node->id);
      return {};
    }
    is_new = std::ranges::any_of(
        nodes, [&](const model::Node* node) { return has_rank_of(*node, event.ranks); });
    if (!is_new) add_node(draft, attempt, event);
  }
  if (is_new) add_node(draft, TRY(add_external_run(draft, event)), event);
  return {};
}

}  // namespace lockstep::step
