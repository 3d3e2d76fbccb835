#include "sim/faults/fault_injector.h"

#include <algorithm>
#include <array>
#include <csignal>

namespace lockstep::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kPercentOfKinds = 40;     // of the kinds of faults occur in one seed
constexpr int kPercentOfStores = 33;    // of the seeds have a store that is replaced
constexpr int kPercentOfSilences = 20;  // of the seeds have each of those faults
constexpr int kCopiesMax = 6;
constexpr Duration kPollInterval = milliseconds(100);  // between two, for the moment to strike
constexpr int kPollsMax = 600;
constexpr Duration kGangStartMax = seconds(3);  // from the first ranks of a gang to when all run

}  // namespace

std::span<const FaultInjector::Kind> FaultInjector::kinds() {
  static constexpr std::array<Kind, 22> kKinds = {{
      {"the daemon dies", minutes(1), &FaultInjector::crash_daemon},
      {"the daemon dies, and words come twice", minutes(2),
       &FaultInjector::duplicate_reports_over_crash},
      {"the daemon dies, and answers are lost", minutes(2),
       &FaultInjector::lose_answers_over_crash},
      {"the daemon stands still", minutes(4), &FaultInjector::suspend_daemon},
      {"the disk fills", minutes(4), &FaultInjector::fill_disk},
      {"launches fail", minutes(3), &FaultInjector::fail_launches},
      {"the engine is blind", minutes(3), &FaultInjector::fail_engine_list},
      {"the engine is slow", minutes(3), &FaultInjector::slow_engine},
      {"kills take long", minutes(3), &FaultInjector::delay_kills},
      {"an agent dies", minutes(2), &FaultInjector::kill_any_agent},
      {"an agent stands still", minutes(2), &FaultInjector::suspend_agent},
      {"a rank dies", minutes(2), &FaultInjector::kill_rank},
      {"a rank stands still", minutes(1), &FaultInjector::suspend_any_rank},
      {"a host dies", minutes(3), &FaultInjector::crash_host},
      {"a host is cut off", minutes(2), &FaultInjector::partition_host},
      {"the network is bad", minutes(3), &FaultInjector::degrade_network},
      {"the clock is set", minutes(8), &FaultInjector::set_clock},
      {"the daemon leaves a gang alone", minutes(12), &FaultInjector::crash_daemon_as_gang_starts},
      {"an agent dies while it clears", minutes(1), &FaultInjector::kill_agent_in_cleanup},
      {"ranks start late", minutes(4), &FaultInjector::delay_rank_starts},
      {"a rank goes on once seen", minutes(1), &FaultInjector::resume_rank_once_seen},
      {"a connection is cut", minutes(2), &FaultInjector::cut_connection},
  }};
  return kKinds;
}

std::span<const FaultInjector::Kind> FaultInjector::store_kinds() {
  static constexpr std::array<Kind, 2> kKinds = {{
      {"the store is moved away", minutes(10), &FaultInjector::move_store_away},
      {"the store is copied, or put back from a copy", minutes(3),
       &FaultInjector::restore_store_copy},
  }};
  return kKinds;
}

void FaultInjector::begin() {
  for (const Kind& kind : kinds()) {
    if (!random_.percent(kPercentOfKinds)) continue;
    components_.context.trace("faults", "in this seed {}, every {} or so", kind.name,
                              text(kind.mean));
    plan(kind, random_);
  }
  for (const Kind& kind : silence_kinds()) {
    if (!silence_random_.percent(kPercentOfSilences)) continue;
    components_.context.trace("faults", "in this seed {}, every {} or so", kind.name,
                              text(kind.mean));
    plan(kind, silence_random_);
  }
  if (!store_random_.percent(kPercentOfStores)) return;
  for (const Kind& kind : store_kinds()) {
    components_.context.trace("faults", "in this seed {}, every {} or so", kind.name,
                              text(kind.mean));
    plan(kind, random_);
  }
}

void FaultInjector::plan(const Kind& kind, SeededRandom& random) {
  components_.context.timeline.after(random.from_to(Duration(0), kind.mean * 2),
                                     [this, &kind, &random] {
                                       if (stopped_) return;
                                       (this->*kind.strike)();
                                       plan(kind, random);
                                     });
}

void FaultInjector::undo_after(Duration duration, std::string over, std::function<void()> undo) {
  components_.context.timeline.after(duration,
                                     [this, over = std::move(over), undo = std::move(undo)] {
                                       if (stopped_) return;
                                       components_.context.trace("fault", "{}", over);
                                       undo();
                                     });
}

void FaultInjector::stop_and_undo() {
  stopped_ = true;
  components_.context.trace("faults", "cease");
  components_.crash_points.cancel_crash();
  components_.daemon.suspend(Duration(0));
  components_.store.set_full(false);
  components_.engine.set_starts_fail(false);
  components_.engine.set_list_fails(false);
  components_.engine.set_slow(Duration(0));
  components_.hosts.set_kill_delay(Duration(0));
  components_.hosts.set_start_delay(Duration(0));
  components_.network.set_faults({});
  components_.network.set_answers_lost(false);
  components_.network.cut_off({});
  components_.network.set_daemon_slow(false);
  components_.daemon.set_turn_time(Duration(0));
  for (const auto& [id, agent] : components_.hosts.agents())
    for (int rank : agent->running_ranks()) agent->resume_rank(rank);
  for (const std::string& host : components_.hosts.names()) {
    components_.hosts.boot(host);
    components_.network.heal(host);
  }
}

Duration FaultInjector::downtime() {
  if (const auto chosen = std::exchange(downtime_, {})) return *chosen;
  if (stopped_ || random_.percent(60)) return random_.from_to(milliseconds(100), seconds(2));
  return random_.percent(75) ? random_.from_to(seconds(2), seconds(20))
                             : random_.from_to(seconds(20), minutes(4));
}

// Records the fault with the agent's ranks, unless it has reported all of their ends.
void FaultInjector::record_agent_loss(const Agent& agent) {
  if (!components_.truth.has_reported_all_ends(agent.name())) record_node_loss(agent);
}

// The first host of a job takes the whole job with it, also if the ranks there have ended.
void FaultInjector::record_host_loss(const Agent& agent) {
  if (!components_.truth.has_reported_all_ends(agent.name()) ||
      components_.truth.leads_job(agent.name()))
    record_node_loss(agent);
}

void FaultInjector::record_node_loss(const Agent& agent) {
  if (agent.is_stopping()) return components_.truth.mark_disturbed(agent.name().attempt());
  const auto who = format("node {} on host {}", agent.node().index, agent.host());
  components_.truth.record_fault(agent.name().attempt(),
                                 {{model::Cause::node_lost, model::Cause::launch_failed}, who});
}

// --- Faults of the daemon. None of these may cost a run anything. ---

void FaultInjector::crash_daemon() {
  if (random_.percent(30)) return components_.daemon.crash("while it waits");
  plan_daemon_crash();
}

// Crashes the daemon at one of the next boundaries.
void FaultInjector::plan_daemon_crash() {
  components_.crash_points.crash_at(components_.crash_points.passed() + random_.below(30));
}

// The next daemon, and the next attempts, receive reports for earlier ones.
void FaultInjector::duplicate_reports_over_crash() {
  const int doubled = random_.from_to(20, 100);
  const Duration duration = random_.from_to(seconds(2), minutes(1));
  components_.context.trace("fault",
                            "for {}, {}% of the words come twice, and the daemon is about to die",
                            text(duration), doubled);
  components_.network.set_faults({.duplicated_percent = doubled});
  plan_daemon_crash();
  undo_after(duration, "the network is good again", [this] { components_.network.set_faults({}); });
}

// Shorter than the silence after which a node is lost: agents call again after 10 s without an
// answer.
void FaultInjector::lose_answers_over_crash() {
  const Duration duration = random_.from_to(milliseconds(100), seconds(8));
  components_.context.trace("fault", "for {}, all answers are lost, and the daemon is about to die",
                            text(duration));
  components_.network.set_answers_lost(true);
  plan_daemon_crash();
  undo_after(duration, "answers arrive again",
             [this] { components_.network.set_answers_lost(false); });
}

void FaultInjector::suspend_daemon() {
  const Duration duration = random_.from_to(seconds(1), minutes(2));
  components_.context.trace("fault", "the daemon stands still for {}", text(duration));
  components_.daemon.suspend(duration);
}

// The daemon stays away for long, when some nodes of the gang have the command to start, and not
// all yet know that all run.
void FaultInjector::crash_daemon_as_gang_starts() { try_crash_as_gang_starts(kPollsMax); }

void FaultInjector::try_crash_as_gang_starts(int polls) {
  const bool alone = std::ranges::any_of(components_.hosts.agents(), [](const auto& entry) {
    return entry.second->awaits_other_nodes();
  });
  if (!alone || !components_.daemon.is_serving()) {
    const auto again = [this, polls] {
      if (!stopped_) try_crash_as_gang_starts(polls - 1);
    };
    if (polls > 0) components_.context.timeline.after(kPollInterval, again);
    return;
  }
  components_.context.timeline.after(random_.from_to(Duration(0), kGangStartMax), [this] {
    if (stopped_ || !components_.daemon.is_serving()) return;
    downtime_ = random_.from_to(minutes(6), minutes(20));
    components_.context.trace("fault", "the daemon leaves a gang alone that starts");
    components_.daemon.crash("as a gang starts");
  });
}

void FaultInjector::fill_disk() {
  const Duration duration = random_.from_to(seconds(1), minutes(2));
  components_.context.trace("fault", "the disk is full for {}", text(duration));
  components_.store.set_full(true);
  undo_after(duration, "the disk has room again", [this] { components_.store.set_full(false); });
}

void FaultInjector::fail_engine_list() {
  const Duration duration = random_.from_to(seconds(1), minutes(2));
  components_.context.trace("fault", "the engine lists nothing for {}", text(duration));
  components_.engine.set_list_fails(true);
  undo_after(duration, "the engine can list again",
             [this] { components_.engine.set_list_fails(false); });
}

void FaultInjector::slow_engine() {
  const Duration most = random_.from_to(milliseconds(100), seconds(20));
  const Duration duration = random_.from_to(seconds(1), minutes(2));
  components_.context.trace("fault", "for {}, each call to the engine takes up to {}",
                            text(duration), text(most));
  components_.engine.set_slow(most);
  undo_after(duration, "the engine is quick again",
             [this] { components_.engine.set_slow(Duration(0)); });
}

void FaultInjector::delay_kills() {
  const Duration resists = random_.from_to(seconds(1), minutes(2));
  components_.context.trace("fault", "for a minute, killed processes end after {}", text(resists));
  components_.hosts.set_kill_delay(resists);
  undo_after(minutes(1), "killed processes end at once again",
             [this] { components_.hosts.set_kill_delay(Duration(0)); });
}

// --- Faults of the store: runs that it does not know go on, and end only on request. ---

// The next daemon finds no store.
void FaultInjector::move_store_away() {
  components_.daemon.crash("as its store is moved away");
  components_.context.trace(
      "fault", "the store is moved away, and the next daemon begins with an empty one");
  components_.store.replace({});
}

// A copy of any earlier store. The replaced store is kept as a copy and may come back, too.
void FaultInjector::restore_store_copy() {
  const auto& copies = components_.store.copies();
  const bool copy = copies.empty() || store_random_.percent(40);
  if (copy && std::ssize(copies) < kCopiesMax) {
    components_.context.trace("fault", "the store is copied");
    return components_.store.copy();
  }
  const model::State other = store_random_.one_of(copies);
  components_.daemon.crash("as its store is replaced");
  components_.context.trace("fault", "a copy is put back in the place of the store");
  components_.store.replace(other);
}

// --- Faults of nodes ---

void FaultInjector::fail_launches() {
  const Duration duration = random_.from_to(seconds(1), seconds(20));
  components_.context.trace("fault", "launches fail for {}", text(duration));
  components_.engine.set_starts_fail(true);
  undo_after(duration, "launches work again",
             [this] { components_.engine.set_starts_fail(false); });
}

void FaultInjector::kill_any_agent() {
  if (components_.hosts.agents().empty()) return;
  kill_agent(*random_.one_of(components_.hosts.agents()).second);
}

void FaultInjector::kill_agent(const Agent& agent) {
  components_.context.trace("fault", "the agent of {} is killed", text(agent.node()));
  record_agent_loss(agent);
  components_.hosts.kill_agent(agent.id());
}

// When its ranks have ended, and usually their ends are reported, but their remains are not cleared
// up.
void FaultInjector::kill_agent_in_cleanup() {
  std::vector<std::shared_ptr<Agent>> leaving;
  for (const auto& [id, agent] : components_.hosts.agents())
    if (agent->program().child_lifetime > Duration(0)) leaving.push_back(agent);
  if (leaving.empty()) return;
  const auto agent = random_.one_of(leaving);
  const Duration delay = random_.from_to(milliseconds(1), seconds(5));
  components_.context.trace("fault", "the agent of {} is about to die while it clears",
                            text(agent->node()));
  agent->on_cleanup([this, delay, weak = std::weak_ptr(agent)] {
    components_.context.timeline.after(delay, [this, weak] {
      const auto there = weak.lock();
      if (there && !stopped_) kill_agent(*there);
    });
  });
}

// Delays half of the agents that are launched meanwhile, within the limit or not.
void FaultInjector::delay_rank_starts() {
  const Duration late = random_.percent(50) ? random_.from_to(seconds(1), minutes(2))
                                            : random_.from_to(minutes(6), hours(10));
  components_.context.trace(
      "fault", "half of the agents launched within a minute take {} to start ranks", text(late));
  components_.hosts.set_start_delay(late);
  undo_after(minutes(1), "ranks start at once again",
             [this] { components_.hosts.set_start_delay(Duration(0)); });
}

// Long enough for the node to be lost. Some agents are never resumed, not even when the faults are
// over.
void FaultInjector::suspend_agent() {
  if (components_.hosts.agents().empty()) return;
  const auto agent = random_.one_of(components_.hosts.agents()).second;
  const Duration duration = random_.from_to(seconds(40), minutes(10));
  const bool for_ever = random_.percent(30);
  if (agent->is_suspended()) return;
  const std::string who = "the agent of " + text(agent->node());
  components_.context.trace("fault", "{} is stopped (SIGSTOP) for {}", who,
                            for_ever ? "ever" : text(duration));
  record_agent_loss(*agent);
  agent->suspend();
  if (for_ever) return;
  undo_after(duration, who + " may go on (SIGCONT)", [this, weak = std::weak_ptr(agent)] {
    const auto there = weak.lock();
    if (!there) return;
    components_.truth.mark_disturbed(there->name().attempt());
    there->resume();
  });
}

void FaultInjector::kill_rank() {
  const auto victim = any_running_rank();
  if (!victim) return;
  Agent& agent = *victim->agent;
  const int rank = agent.launch().first_rank + victim->local_rank;
  const model::AttemptName attempt = agent.name().attempt();
  components_.context.trace("fault", "rank {} of {} is killed", rank, text(attempt.id));
  if (agent.is_stopping())
    components_.truth.mark_disturbed(attempt);
  else
    components_.truth.record_fault(attempt,
                                   {{model::Cause::rank_lost}, format("rank {} on host", rank)});
  agent.kill_rank(victim->local_rank, SIGKILL);
}

// No process dies. The other end is a rank of another node, if there is one.
void FaultInjector::cut_connection() {
  const auto victim = any_running_rank();
  if (!victim || victim->agent->launch().world_size < 2) return;
  Agent& agent = *victim->agent;
  const int rank = agent.launch().first_rank + victim->local_rank;
  const int other = (rank + agent.launch().world_size / 2) % agent.launch().world_size;
  const model::AttemptName attempt = agent.name().attempt();
  components_.context.trace("fault", "the connection between ranks {} and {} of {} is cut", rank,
                            other, text(attempt.id));
  if (agent.is_stopping()) components_.truth.mark_disturbed(attempt);
  agent.cut_connection(victim->local_rank, other);
}

// Half of the suspensions are too short to be noticed.
void FaultInjector::suspend_any_rank() {
  const auto victim = any_running_rank();
  if (!victim) return;
  suspend_rank(*victim, random_.percent(50) ? random_.from_to(milliseconds(100), seconds(15))
                                            : random_.from_to(seconds(15), minutes(15)));
}

// Resumes the rank before its agent, which gets no answer for a while, gets the command to end it.
// This models an operator that resumes a rank that holds up the others.
void FaultInjector::resume_rank_once_seen() {
  const auto victim = any_running_rank();
  if (!victim) return;
  suspend_rank(*victim, minutes(15));
  const Duration mute = random_.from_to(seconds(1), seconds(8));
  const Duration delay = random_.from_to(milliseconds(100), mute);
  victim->agent->on_suspended_rank_seen(
      [this, mute, delay, local = victim->local_rank, weak = std::weak_ptr(victim->agent)] {
        if (stopped_) return;
        components_.context.trace("fault",
                                  "for {}, all answers are lost, and after {} the rank may go on",
                                  text(mute), text(delay));
        components_.network.set_answers_lost(true);
        undo_after(mute, "answers arrive again",
                   [this] { components_.network.set_answers_lost(false); });
        components_.context.timeline.after(delay, [weak, local] {
          if (const auto there = weak.lock()) there->resume_rank(local);
        });
      });
}

std::optional<FaultInjector::Victim> FaultInjector::any_running_rank() {
  if (components_.hosts.agents().empty()) return std::nullopt;
  const auto agent = random_.one_of(components_.hosts.agents()).second;
  auto running = agent->running_ranks();
  if (running.empty()) return std::nullopt;
  return Victim{agent, random_.one_of(running)};
}

void FaultInjector::suspend_rank(const Victim& victim, Duration duration) {
  const auto agent = victim.agent;
  const int local = victim.local_rank;
  const auto who =
      format("rank {} of {}", agent->launch().first_rank + local, text(agent->node().attempt));
  components_.context.trace("fault", "{} is stopped (SIGSTOP) for {}", who, text(duration));
  agent->suspend_rank(local);
  undo_after(duration, who + " may go on (SIGCONT)", [weak = std::weak_ptr(agent), local] {
    if (const auto there = weak.lock()) there->resume_rank(local);
  });
}

void FaultInjector::crash_host() {
  const std::string host = random_.one_of(components_.hosts.names());
  const Duration duration = random_.from_to(seconds(1), minutes(5));
  if (!components_.hosts.is_up(host)) return;
  components_.context.trace("fault", "host {} dies and is back after {}", host, text(duration));
  for (const auto& [id, agent] : components_.hosts.agents())
    if (agent->host() == host) record_host_loss(*agent);
  components_.hosts.crash(host);
  undo_after(duration, format("host {} is back", host),
             [this, host] { components_.hosts.boot(host); });
}

void FaultInjector::partition_host() {
  const std::string host = random_.one_of(components_.hosts.names());
  const Duration duration = random_.from_to(seconds(1), minutes(4));
  const auto cut = static_cast<NetworkPartition>(random_.from_to(1, 3));
  if (!components_.network.can_reach(host)) return;
  components_.context.trace("fault", "host {} is cut off ({}) for {}", host, name_of(cut),
                            text(duration));
  components_.network.partition(host, cut);
  undo_after(duration, format("host {} is reached again", host),
             [this, host] { components_.network.heal(host); });
}

void FaultInjector::degrade_network() {
  const NetworkFaults weather{random_.below(40), random_.below(40), random_.below(40)};
  const Duration duration = random_.from_to(seconds(10), minutes(3));
  components_.context.trace("fault", "for {}, of all words {}% are lost, {}% doubled, {}% late",
                            text(duration), weather.lost_percent, weather.duplicated_percent,
                            weather.delayed_percent);
  components_.network.set_faults(weather);
  undo_after(duration, "the network is good again", [this] { components_.network.set_faults({}); });
}

void FaultInjector::set_clock() {
  const Duration by = random_.percent(40)   ? random_.from_to(seconds(1), minutes(20))
                      : random_.percent(50) ? random_.from_to(minutes(20), hours(24 * 30))
                                            : -random_.from_to(seconds(1), hours(1));
  components_.context.trace("fault", "the clock is set {} by {}",
                            by > Duration(0) ? "forward" : "back",
                            text(by > Duration(0) ? by : -by));
  components_.context.clock.jump(by);
}

}  // namespace lockstep::sim
