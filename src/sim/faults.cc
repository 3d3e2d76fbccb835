#include "sim/faults.h"

#include <algorithm>
#include <array>
#include <csignal>

namespace lockstep::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kPercentOfKinds = 40;   // of the kinds of faults come in one seed
constexpr int kPercentOfStores = 33;  // of the seeds have a store that is replaced
constexpr int kCopiesMost = 6;
constexpr Duration kLook = milliseconds(100);  // between two, for the moment to strike
constexpr int kLooksMost = 600;
constexpr Duration kWholeMost = seconds(3);  // from the first ranks of a gang to when all run

}  // namespace

std::span<const Faults::Kind> Faults::kinds() {
  static constexpr std::array<Kind, 22> kKinds = {{
      {"the daemon dies", minutes(1), &Faults::daemon_dies},
      {"the daemon dies, and words come twice", minutes(2), &Faults::words_echo_over_a_death},
      {"the daemon dies, and answers are lost", minutes(2), &Faults::answers_are_lost_over_a_death},
      {"the daemon stands still", minutes(4), &Faults::daemon_stands_still},
      {"the disk fills", minutes(4), &Faults::disk_fills},
      {"launches fail", minutes(3), &Faults::launches_fail},
      {"the engine is blind", minutes(3), &Faults::engine_is_blind},
      {"the engine is slow", minutes(3), &Faults::engine_is_slow},
      {"kills take long", minutes(3), &Faults::kills_take_long},
      {"an agent dies", minutes(2), &Faults::agent_dies},
      {"an agent stands still", minutes(2), &Faults::agent_stands_still},
      {"a rank dies", minutes(2), &Faults::rank_dies},
      {"a rank stands still", minutes(1), &Faults::rank_stands_still},
      {"a host dies", minutes(3), &Faults::host_dies},
      {"a host is cut off", minutes(2), &Faults::host_is_cut_off},
      {"the network is bad", minutes(3), &Faults::network_is_bad},
      {"the clock is set", minutes(8), &Faults::clock_jumps},
      {"the daemon leaves a gang alone", minutes(12), &Faults::daemon_leaves_a_gang_alone},
      {"an agent dies while it clears", minutes(1), &Faults::agent_dies_while_it_clears},
      {"ranks start late", minutes(4), &Faults::ranks_start_late},
      {"a rank goes on once seen", minutes(1), &Faults::rank_goes_on_once_seen},
      {"a connection is cut", minutes(2), &Faults::connection_is_cut},
  }};
  return kKinds;
}

std::span<const Faults::Kind> Faults::store_kinds() {
  static constexpr std::array<Kind, 2> kKinds = {{
      {"the store is moved away", minutes(10), &Faults::store_is_moved},
      {"the store is copied, or put back from a copy", minutes(3), &Faults::store_is_put_back},
  }};
  return kKinds;
}

void Faults::begin() {
  for (const Kind& kind : kinds()) {
    if (!dice_.percent(kPercentOfKinds)) continue;
    world_.scene.tell("faults", "in this seed {}, every {} or so", kind.name, text(kind.mean));
    plan(kind);
  }
  if (!store_dice_.percent(kPercentOfStores)) return;
  for (const Kind& kind : store_kinds()) {
    world_.scene.tell("faults", "in this seed {}, every {} or so", kind.name, text(kind.mean));
    plan(kind);
  }
}

void Faults::plan(const Kind& kind) {
  world_.scene.timeline.after(dice_.from_to(Duration(0), kind.mean * 2), [this, &kind] {
    if (ceased_) return;
    (this->*kind.strike)();
    plan(kind);
  });
}

template <class Undo>
void Faults::undo_after(Duration duration, std::string over, Undo undo) {
  world_.scene.timeline.after(duration, [this, over = std::move(over), undo] {
    if (ceased_) return;
    world_.scene.tell("fault", "{}", over);
    undo();
  });
}

void Faults::cease() {
  ceased_ = true;
  world_.scene.tell("faults", "cease");
  world_.life.spare();
  world_.daemon.stand_still(Duration(0));
  world_.store.set_full(false);
  world_.engine.set_launch_fault(LaunchFault::none);
  world_.engine.set_blind(false);
  world_.engine.set_slow(Duration(0));
  world_.hosts.set_stuck(Duration(0));
  world_.hosts.set_late(Duration(0));
  world_.network.set_weather({});
  world_.network.set_mute(false);
  for (const auto& [id, agent] : world_.hosts.agents())
    for (int rank : agent->running_ranks()) agent->continue_rank(rank);
  for (const std::string& host : world_.hosts.names()) {
    world_.hosts.boot(host);
    world_.network.heal(host);
  }
}

Duration Faults::absence() {
  if (const auto chosen = std::exchange(absence_, {})) return *chosen;
  if (ceased_ || dice_.percent(60)) return dice_.from_to(milliseconds(100), seconds(2));
  return dice_.percent(75) ? dice_.from_to(seconds(2), seconds(20))
                           : dice_.from_to(seconds(20), minutes(4));
}

// With its ranks, unless it has told all of them.
void Faults::lose_agent(const Agent& agent) {
  if (world_.truth.has_told_all(agent.name())) return;
  if (agent.stops()) return world_.truth.touch(agent.name().attempt());
  const auto who = format("node {} on host {}", agent.node().index, agent.host());
  world_.truth.befalls(agent.name().attempt(), {{Cause::node_lost, Cause::launch_failed}, who});
}

// --- The daemon's side. None of these may cost a run anything. ---

void Faults::daemon_dies() {
  if (dice_.percent(30)) return world_.daemon.die("while it waits");
  doom_daemon();
}

// At one of the boundaries that come next.
void Faults::doom_daemon() { world_.life.doom_at(world_.life.passed() + dice_.below(30)); }

// The next daemon, and the next attempts, hear what was said to earlier ones.
void Faults::words_echo_over_a_death() {
  const int doubled = dice_.from_to(20, 100);
  const Duration duration = dice_.from_to(seconds(2), minutes(1));
  world_.scene.tell("fault", "for {}, {}% of the words come twice, and the daemon is about to die",
                    text(duration), doubled);
  world_.network.set_weather({.doubled = doubled});
  doom_daemon();
  undo_after(duration, "the network is good again", [this] { world_.network.set_weather({}); });
}

// Shorter than the silence after which a node is lost: agents ask again after 10 s without answer.
void Faults::answers_are_lost_over_a_death() {
  const Duration duration = dice_.from_to(milliseconds(100), seconds(8));
  world_.scene.tell("fault", "for {}, all answers are lost, and the daemon is about to die",
                    text(duration));
  world_.network.set_mute(true);
  doom_daemon();
  undo_after(duration, "answers arrive again", [this] { world_.network.set_mute(false); });
}

void Faults::daemon_stands_still() {
  const Duration duration = dice_.from_to(seconds(1), minutes(2));
  world_.scene.tell("fault", "the daemon stands still for {}", text(duration));
  world_.daemon.stand_still(duration);
}

// For long, when some nodes of the gang were told to start, and not all yet that all run.
void Faults::daemon_leaves_a_gang_alone() { leave_alone(kLooksMost); }

void Faults::leave_alone(int looks) {
  const bool alone = std::ranges::any_of(
      world_.hosts.agents(), [](const auto& entry) { return entry.second->awaits_other_nodes(); });
  if (!alone || !world_.daemon.serves()) {
    const auto again = [this, looks] {
      if (!ceased_) leave_alone(looks - 1);
    };
    if (looks > 0) world_.scene.timeline.after(kLook, again);
    return;
  }
  world_.scene.timeline.after(dice_.from_to(Duration(0), kWholeMost), [this] {
    if (ceased_ || !world_.daemon.serves()) return;
    absence_ = dice_.from_to(minutes(6), minutes(20));
    world_.scene.tell("fault", "the daemon leaves a gang alone that starts");
    world_.daemon.die("as a gang starts");
  });
}

void Faults::disk_fills() {
  const Duration duration = dice_.from_to(seconds(1), minutes(2));
  world_.scene.tell("fault", "the disk is full for {}", text(duration));
  world_.store.set_full(true);
  undo_after(duration, "the disk has room again", [this] { world_.store.set_full(false); });
}

void Faults::engine_is_blind() {
  const Duration duration = dice_.from_to(seconds(1), minutes(2));
  world_.scene.tell("fault", "the engine lists nothing for {}", text(duration));
  world_.engine.set_blind(true);
  undo_after(duration, "the engine can list again", [this] { world_.engine.set_blind(false); });
}

void Faults::engine_is_slow() {
  const Duration most = dice_.from_to(milliseconds(100), seconds(20));
  const Duration duration = dice_.from_to(seconds(1), minutes(2));
  world_.scene.tell("fault", "for {}, each call to the engine takes up to {}", text(duration),
                    text(most));
  world_.engine.set_slow(most);
  undo_after(duration, "the engine is quick again",
             [this] { world_.engine.set_slow(Duration(0)); });
}

void Faults::kills_take_long() {
  const Duration resists = dice_.from_to(seconds(1), minutes(2));
  world_.scene.tell("fault", "for a minute, killed processes end after {}", text(resists));
  world_.hosts.set_stuck(resists);
  undo_after(minutes(1), "killed processes end at once again",
             [this] { world_.hosts.set_stuck(Duration(0)); });
}

// --- The store: what it does not know goes on. Nothing of it ends but when it is asked to. ---

// The next daemon finds none.
void Faults::store_is_moved() {
  world_.daemon.die("as its store is moved away");
  world_.scene.tell("fault",
                    "the store is moved away, and the next daemon begins with an empty one");
  world_.store.replace({});
}

// Of any store that was here. What was there last is kept as a copy, and may come back, too.
void Faults::store_is_put_back() {
  const auto& copies = world_.store.copies();
  const bool copy = copies.empty() || store_dice_.percent(40);
  if (copy && std::ssize(copies) < kCopiesMost) {
    world_.scene.tell("fault", "the store is copied");
    return world_.store.copy();
  }
  const State other = store_dice_.one_of(copies);
  world_.daemon.die("as its store is replaced");
  world_.scene.tell("fault", "a copy is put back in the place of the store");
  world_.store.replace(other);
}

// --- The nodes' side. ---

void Faults::launches_fail() {
  const Duration duration = dice_.from_to(seconds(1), seconds(20));
  const auto fault = dice_.percent(50) ? LaunchFault::refused : LaunchFault::answer_lost;
  world_.scene.tell("fault", "launches fail for {}{}", text(duration),
                    fault == LaunchFault::refused ? "" : ", but the agents do start");
  world_.engine.set_launch_fault(fault);
  undo_after(duration, "launches work again",
             [this] { world_.engine.set_launch_fault(LaunchFault::none); });
}

void Faults::agent_dies() {
  if (world_.hosts.agents().empty()) return;
  kill_agent(*dice_.one_of(world_.hosts.agents()).second);
}

void Faults::kill_agent(const Agent& agent) {
  world_.scene.tell("fault", "the agent of {} is killed", text(agent.node()));
  lose_agent(agent);
  world_.hosts.kill_agent(agent.id());
}

// When its ranks have ended, and most often have been heard to, but not what they left behind.
void Faults::agent_dies_while_it_clears() {
  std::vector<std::shared_ptr<Agent>> leaving;
  for (const auto& [id, agent] : world_.hosts.agents())
    if (agent->program().left_behind > Duration(0)) leaving.push_back(agent);
  if (leaving.empty()) return;
  const auto agent = dice_.one_of(leaving);
  const Duration delay = dice_.from_to(milliseconds(1), seconds(5));
  world_.scene.tell("fault", "the agent of {} is about to die while it clears",
                    text(agent->node()));
  agent->resist_clearing([this, delay, weak = std::weak_ptr(agent)] {
    world_.scene.timeline.after(delay, [this, weak] {
      const auto there = weak.lock();
      if (there && !ceased_) kill_agent(*there);
    });
  });
}

// Half of those that are launched meanwhile, in time or not.
void Faults::ranks_start_late() {
  const Duration late = dice_.percent(50) ? dice_.from_to(seconds(1), minutes(2))
                                          : dice_.from_to(minutes(6), hours(10));
  world_.scene.tell("fault", "half of the agents launched within a minute take {} to start ranks",
                    text(late));
  world_.hosts.set_late(late);
  undo_after(minutes(1), "ranks start at once again",
             [this] { world_.hosts.set_late(Duration(0)); });
}

// For long enough to be lost. Some never go on, not even when the faults are over.
void Faults::agent_stands_still() {
  if (world_.hosts.agents().empty()) return;
  const auto agent = dice_.one_of(world_.hosts.agents()).second;
  const Duration duration = dice_.from_to(seconds(40), minutes(10));
  const bool for_ever = dice_.percent(30);
  if (agent->stands_still()) return;
  const std::string who = "the agent of " + text(agent->node());
  world_.scene.tell("fault", "{} is stopped (SIGSTOP) for {}", who,
                    for_ever ? "ever" : text(duration));
  lose_agent(*agent);
  agent->stand_still();
  if (for_ever) return;
  undo_after(duration, who + " may go on (SIGCONT)", [this, weak = std::weak_ptr(agent)] {
    const auto there = weak.lock();
    if (!there) return;
    world_.truth.touch(there->name().attempt());
    there->go_on();
  });
}

void Faults::rank_dies() {
  const auto victim = any_running_rank();
  if (!victim) return;
  Agent& agent = *victim->agent;
  const int rank = agent.launch().first_rank + victim->local_rank;
  const AttemptName attempt = agent.name().attempt();
  world_.scene.tell("fault", "rank {} of {} is killed", rank, text(attempt.id));
  if (agent.stops())
    world_.truth.touch(attempt);
  else
    world_.truth.befalls(attempt, {{Cause::rank_lost}, format("rank {} on host", rank)});
  agent.kill_rank(victim->local_rank, SIGKILL);
}

// Nobody dies of it. A rank of another node is at its other end, if there is one.
void Faults::connection_is_cut() {
  const auto victim = any_running_rank();
  if (!victim || victim->agent->launch().world_size < 2) return;
  Agent& agent = *victim->agent;
  const int rank = agent.launch().first_rank + victim->local_rank;
  const int other = (rank + agent.launch().world_size / 2) % agent.launch().world_size;
  const AttemptName attempt = agent.name().attempt();
  world_.scene.tell("fault", "the connection between ranks {} and {} of {} is cut", rank, other,
                    text(attempt.id));
  if (agent.stops()) world_.truth.touch(attempt);
  agent.cut_off_rank(victim->local_rank, other);
}

// Half of them for so short a time that nobody minds.
void Faults::rank_stands_still() {
  const auto victim = any_running_rank();
  if (!victim) return;
  stop_rank(*victim, dice_.percent(50) ? dice_.from_to(milliseconds(100), seconds(15))
                                       : dice_.from_to(seconds(15), minutes(15)));
}

// Before its agent, which no answer reaches for a while, is told to end it: as when somebody lets
// it go who finds that it holds up the others.
void Faults::rank_goes_on_once_seen() {
  const auto victim = any_running_rank();
  if (!victim) return;
  stop_rank(*victim, minutes(15));
  const Duration mute = dice_.from_to(seconds(1), seconds(8));
  const Duration delay = dice_.from_to(milliseconds(100), mute);
  victim->agent->when_seen_stopped(
      [this, mute, delay, local = victim->local_rank, weak = std::weak_ptr(victim->agent)] {
        if (ceased_) return;
        world_.scene.tell("fault", "for {}, all answers are lost, and after {} the rank may go on",
                          text(mute), text(delay));
        world_.network.set_mute(true);
        undo_after(mute, "answers arrive again", [this] { world_.network.set_mute(false); });
        world_.scene.timeline.after(delay, [weak, local] {
          if (const auto there = weak.lock()) there->continue_rank(local);
        });
      });
}

std::optional<Faults::Victim> Faults::any_running_rank() {
  if (world_.hosts.agents().empty()) return std::nullopt;
  const auto agent = dice_.one_of(world_.hosts.agents()).second;
  auto running = agent->running_ranks();
  if (running.empty()) return std::nullopt;
  return Victim{agent, dice_.one_of(running)};
}

void Faults::stop_rank(const Victim& victim, Duration duration) {
  const auto agent = victim.agent;
  const int local = victim.local_rank;
  const auto who =
      format("rank {} of {}", agent->launch().first_rank + local, text(agent->node().attempt));
  world_.scene.tell("fault", "{} is stopped (SIGSTOP) for {}", who, text(duration));
  agent->stop_rank(local);
  undo_after(duration, who + " may go on (SIGCONT)", [weak = std::weak_ptr(agent), local] {
    if (const auto there = weak.lock()) there->continue_rank(local);
  });
}

void Faults::host_dies() {
  const std::string host = dice_.one_of(world_.hosts.names());
  const Duration duration = dice_.from_to(seconds(1), minutes(5));
  if (!world_.hosts.is_up(host)) return;
  world_.scene.tell("fault", "host {} dies and is back after {}", host, text(duration));
  for (const auto& [id, agent] : world_.hosts.agents())
    if (agent->host() == host) lose_agent(*agent);
  world_.hosts.crash(host);
  undo_after(duration, format("host {} is back", host), [this, host] { world_.hosts.boot(host); });
}

void Faults::host_is_cut_off() {
  const std::string host = dice_.one_of(world_.hosts.names());
  const Duration duration = dice_.from_to(seconds(1), minutes(4));
  const auto cut = static_cast<Cut>(dice_.from_to(1, 3));
  if (!world_.network.reaches(host)) return;
  world_.scene.tell("fault", "host {} is cut off ({}) for {}", host, name_of(cut), text(duration));
  world_.network.cut_off(host, cut);
  undo_after(duration, format("host {} is reached again", host),
             [this, host] { world_.network.heal(host); });
}

void Faults::network_is_bad() {
  const Weather weather{dice_.below(40), dice_.below(40), dice_.below(40)};
  const Duration duration = dice_.from_to(seconds(10), minutes(3));
  world_.scene.tell("fault", "for {}, of all words {}% are lost, {}% doubled, {}% late",
                    text(duration), weather.lost, weather.doubled, weather.late);
  world_.network.set_weather(weather);
  undo_after(duration, "the network is good again", [this] { world_.network.set_weather({}); });
}

void Faults::clock_jumps() {
  const Duration by = dice_.percent(40)   ? dice_.from_to(seconds(1), minutes(20))
                      : dice_.percent(50) ? dice_.from_to(minutes(20), hours(24 * 30))
                                          : -dice_.from_to(seconds(1), hours(1));
  world_.scene.tell("fault", "the clock is set {} by {}", by > Duration(0) ? "forward" : "back",
                    text(by > Duration(0) ? by : -by));
  world_.scene.clock.jump(by);
}

}  // namespace lockstep::sim
