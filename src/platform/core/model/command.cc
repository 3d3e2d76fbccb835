#include "platform/core/model/command.h"

#include <algorithm>

namespace lockstep::model {
namespace {

bool offers_addresses(const Node& node) {
  return node.state == NodeState::ready || node.state == NodeState::running;
}

bool is_fenced(const Node& node) {
  return node.state == NodeState::released || node.state == NodeState::lost;
}

// Stops at the first node for which it is false.
template <class Test>
bool all_nodes(const State& state, const AttemptId& attempt, Test test) {
  for (auto it = state.nodes.lower_bound(NodeId{attempt, 0});
       it != state.nodes.end() && it->first.attempt == attempt; ++it)
    if (!test(it->second)) return false;
  return true;
}

std::string host_and_port(const std::string& host, int port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return ipv6 ? format("[{}]:{}", host, port) : format("{}:{}", host, port);
}

Command start(const Node& first, Duration grace) {
  return {.kind = CommandKind::start,
          .master_address = first.address,
          .master_port = first.master_port,
          .rendezvous = host_and_port(first.address, first.rendezvous_port),
          .grace = grace};
}

Command draining(const State& state, const AttemptId& attempt, Duration grace) {
  const bool all = all_nodes(state, attempt, ranks_are_final);
  return {.kind = all ? CommandKind::leave : CommandKind::stop, .grace = grace};
}

// A node that the engine has not listed yet is an orphan, too.
Command for_orphan(const State& state, const NodeName& name) {
  const auto orphan = state.orphans.find(name);
  const bool stops = orphan != state.orphans.end() && orphan->second.stop_requested_at;
  return {.kind = stops ? CommandKind::stop : CommandKind::none,
          .grace = orphan == state.orphans.end()
                       ? state.settings.grace_period
                       : orphan_grace_period(orphan->second, state.settings),
          .orphaned = true};
}

}  // namespace

std::string_view text(CommandKind kind) { return lockstep::name_of(kind); }

Duration grace_period_of(const RunSpec& spec, const Settings& settings) {
  return spec.grace_period.value_or(settings.grace_period);
}

Duration orphan_grace_period(const Orphan& orphan, const Settings& settings) {
  return orphan.attempt_record ? grace_period_of(orphan.attempt_record->spec, settings)
                               : settings.grace_period;
}

bool ranks_are_final(const Node& node) {
  if (is_fenced(node)) return true;
  if (all_ranks_ended(node)) return true;
  return node.state == NodeState::stopping && std::ranges::none_of(node.ranks, [](const Rank& r) {
           return r.state == RankState::running;
         });
}

Command command_for(const State& state, const NodeName& name, const std::string& incarnation) {
  if (!has_node(state, name)) return for_orphan(state, name);
  const NodeId& id = name.id;
  const Duration grace = grace_period_of(state.runs.at(id.attempt.run).spec, state.settings);
  const Command leave{.kind = CommandKind::leave, .grace = grace};
  const auto node = state.nodes.find(id);
  const Attempt* attempt = live_attempt(state, id.attempt.run);
  if (!attempt || attempt->id != id.attempt) return leave;
  if (is_second_agent(node->second, incarnation) || is_fenced(node->second)) return leave;
  if (attempt->state == AttemptState::draining) return draining(state, attempt->id, grace);
  // `start` is repeated until all nodes have reported that their ranks run, because an answer can
  // get lost. A node whose ranks run already, as in an adopted attempt, also gets `start` while it
  // waits: `none` would mean that the others run, too.
  const bool starts = attempt->state < AttemptState::running;
  const bool began = node->second.state == NodeState::running;
  if (starts && (began || all_nodes(state, attempt->id, offers_addresses)))
    return start(state.nodes.at(NodeId{attempt->id, 0}), grace);
  return {.grace = grace, .time_left = time_left(state.runs.at(id.attempt.run))};
}

GangStatus gang_status(const State& state, const RunId& run) {
  const Attempt* attempt = live_attempt(state, run);
  if (!attempt) return {};
  GangStatus gang{.epoch = attempt->id.epoch,
                  .state = attempt->state,
                  .all_ready = all_nodes(state, attempt->id, offers_addresses),
                  .all_final = all_nodes(state, attempt->id, ranks_are_final),
                  .time_left = time_left(state.runs.at(run))};
  all_nodes(state, attempt->id, [&](const Node& node) {
    gang.fenced += is_fenced(node) ? 1 : 0;
    return true;
  });
  return gang;
}

}  // namespace lockstep::model
