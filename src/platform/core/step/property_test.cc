// Random events against step(), by seed: agents that obey, lie, repeat, fall silent and come back,
// ranks that hang, an engine that loses launches, users that submit, stop and resume, a daemon that
// restarts, hosts that join, change and leave. After each event the invariants hold. At the end,
// when all behave correctly, every run ends.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "base/format.h"
#include "base/random.h"
#include "map/query.h"
#include "platform/core/model/hosts_by_placement.h"
#include "platform/core/sched/pass.h"
#include "platform/core/step/decider.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using testing_world::map_of;
using testing_world::spec_of;
using testing_world::World;

// The daemon's policy with a shorter checkpoint interval: these runs are short.
sched::SchedulingPolicy chaos_policy() {
  sched::SchedulingPolicy policy = step_policy();
  policy.checkpoint_interval = std::chrono::seconds(2);
  policy.restart_time = std::chrono::seconds(2);
  return policy;
}

class Chaos {
 public:
  // Where the hosts of the map come from.
  // chosen_by_engine: declared, and runs start without hosts. chosen_by_both: so do those that find
  // no devices on the hosts of another engine.
  enum class Hosts { declared, joining, chosen_by_engine, chosen_by_both };

  // Every other seed is calm: most agents obey, so that runs write checkpoints.
  Chaos(std::uint64_t seed, Hosts hosts)
      : random_(seed),
        calm_(seed % 2 == 0),
        joining_(hosts == Hosts::joining),
        has_two_engines_(hosts == Hosts::chosen_by_both),
        engine_places_(hosts == Hosts::chosen_by_engine || has_two_engines_) {}

  void step_once() {
    world_.now += Duration(static_cast<std::int64_t>(random_.below(calm_ ? 1'000'000 : 4'000'000)));
    const model::Event event = any_event();
    auto outcome = decider_.propose(event, world_.now);
    IncrementalScheduler from_nothing(chaos_policy());
    auto again = step(from_nothing, world_.state, event, world_.now);
    ASSERT_EQ(outcome.has_value(), again.has_value());
    if (!outcome) return;
    ASSERT_EQ(outcome->changes, again->changes)
        << "the decider and step() from nothing decide differently";
    ASSERT_EQ(outcome->effects, again->effects);
    if (below(40) == 0) return;  // it could not be stored, so it did not happen
    decider_.accept(outcome->changes);
    for (const model::Change& change : outcome->changes) {
      model::apply(world_.state, change);
      journal_.push_back(change);
    }
    for (const model::Effect& effect : outcome->effects) check_effect(effect);
    check();
  }

  void add_external_runs() { external_ = true; }
  int external_runs() const {
    return static_cast<int>(std::ranges::count_if(
        world_.state.runs, [](const auto& one) { return model::is_external(one.second); }));
  }

  // From here on all agents obey, until all runs have ended.
  void settle() {
    if (joining_)
      for (const auto* name : {"a", "b", "c", "d"}) join_for_good(name);
    if (joining_) world_.apply_event_ok(model::HostsSeen{});
    for (const map::Host* host : map::hosts(world_.state.map))
      world_.apply_event_ok(model::SetHost{host->id, model::HostState::open, "", ""});
    world_.apply_event_ok(model::SetLimit{{model::LimitScope::project, "demo"}, std::nullopt});
    for (int i = 0; i < 20'000 && !world_.state.open.empty(); ++i) {
      world_.now += std::chrono::seconds(1);
      world_.apply_event_ok(model::Tick{});
      for (const model::RunId& run : RunIds(world_.state.open.begin(), world_.state.open.end()))
        world_.apply_event_ok(model::ReleaseRun{run, ""});
      for (const model::NodeId& node : live_nodes()) behave(node);
      for (const auto& [node, row] : model::State(world_.state).given_up)
        world_.apply_event_ok(testing_world::node_gone(node));
    }
    if (joining_) {
      world_.apply_event_ok(model::Tick{});
      EXPECT_EQ(map::device_count(world_.state.map), 12u) << "each host has its devices";
    }
    EXPECT_TRUE(world_.state.open.empty());
  }

  void check_replay() {
    model::State replayed;
    replayed.hosts_make_map = joining_;
    if (!joining_) replayed.map = world_.state.map;
    for (const model::Change& change : journal_) model::apply(replayed, change);
    EXPECT_EQ(replayed.map, world_.state.map);
    EXPECT_EQ(replayed.runs, world_.state.runs);
    EXPECT_EQ(replayed.attempts, world_.state.attempts);
    EXPECT_EQ(replayed.nodes, world_.state.nodes);
    EXPECT_EQ(replayed.open, world_.state.open);
    EXPECT_EQ(replayed.conditional, world_.state.conditional);
    EXPECT_EQ(replayed.hosts, world_.state.hosts);
    EXPECT_EQ(replayed.given_up, world_.state.given_up);
    EXPECT_EQ(replayed.limits, world_.state.limits);
  }

  int attempts() const { return static_cast<int>(world_.state.attempts.size()); }
  // By whether Lockstep has chosen their hosts.
  int attempts_placed(bool is_placed) const {
    return static_cast<int>(std::ranges::count_if(
        world_.state.attempts, [&](const auto& one) { return one.second.is_placed == is_placed; }));
  }
  int given_up() const { return static_cast<int>(given_up_.size()); }
  // By the causes of attempts' ends.
  int ended_by(model::Cause cause) const {
    return static_cast<int>(std::ranges::count_if(
        world_.state.attempts, [&](const auto& one) { return one.second.cause == cause; }));
  }

 private:
  using RunIds = std::vector<model::RunId>;

  int below(int bound) {
    return static_cast<int>(random_.below(static_cast<std::uint64_t>(bound)));
  }

  model::RunSpec any_spec() {
    auto spec = spec_of(below(2) == 0 ? 1 : 1 + below(4), 1 + below(3));
    if (below(4) == 0) spec.project = "other";
    if (below(8) == 0) spec.needs.cores = 1 + below(3);
    spec.retries = below(3);
    spec.rank_loss_retries = below(3);
    spec.timeout = std::chrono::seconds(20 + below(calm_ ? 600 : 200));
    spec.priority = below(3) - 1;
    const int kind = below(6);
    spec.run_class = kind == 0  ? model::RunClass::preemptible
                     : kind < 3 ? model::RunClass::debug
                                : model::RunClass::normal;
    spec.stays = below(8) == 0;
    if (spec.run_class == model::RunClass::debug) spec.nodes = 1;
    if (below(8) == 0) spec.not_before = world_.now + std::chrono::seconds(below(60));
    if (below(8) == 0 && !world_.state.runs.empty()) spec.after = {text(any_run())};
    return spec;
  }

  std::vector<model::NodeId> live_nodes() const {
    std::vector<model::NodeId> ids;
    for (const model::RunId& run : world_.state.open)
      if (const model::Attempt* attempt = model::live_attempt(world_.state, run))
        for (const model::Node* node : model::nodes_of(world_.state, attempt->id))
          if (node->state != model::NodeState::released) ids.push_back(node->id);
    return ids;
  }

  // Mostly a live attempt, sometimes an old one.
  model::NodeId any_node() {
    const auto live = live_nodes();
    if (!live.empty() && below(10) > 0)
      return live[static_cast<std::size_t>(below(static_cast<int>(live.size())))];
    auto it = world_.state.nodes.begin();
    std::advance(it, below(static_cast<int>(world_.state.nodes.size())));
    return it->first;
  }

  model::RunId any_run() {
    auto it = world_.state.runs.begin();
    std::advance(it, below(static_cast<int>(world_.state.runs.size())));
    return it->first;
  }

  model::NodeReport any_report(const model::NodeId& node) {
    auto word = world_.running(node);
    word.state = static_cast<model::NodeState>(below(6));
    if (word.state < model::NodeState::running || below(4) == 0) word.ranks.clear();
    for (model::Rank& rank : word.ranks) {
      rank.state = static_cast<model::RankState>(below(6) < 4 ? 0 : 1 + below(2));
      rank.code = below(3) == 0 ? 9 : 0;
      rank.signalled_by_agent = below(4) == 0;
      if (below(2) == 0) rank.ended = world_.now - std::chrono::seconds(below(5));
      rank.step = below(100) - 1;
      if (below(3) == 0) rank.activity = static_cast<model::Activity>(below(5));
      if (below(30) == 0) rank.stalled_since = world_.now - std::chrono::minutes(30);
    }
    if (below(3) == 0) word.last_checkpoint = world_.now - std::chrono::seconds(below(60) - 5);
    return word;
  }

  bool is_of_external_run(const model::NodeId& node) const {
    return model::is_external(world_.state.runs.at(node.attempt.run));
  }

  // An agent of one of three jobs, with one of four ranks.
  model::AttachNode any_attachment() {
    model::AttachNode agent;
    agent.job = std::string(1, static_cast<char>('x' + below(3)));
    agent.launcher = "torchrun";
    agent.spec = spec_of(4, 1);
    agent.agent = {.id = std::to_string(below(1000)), .machine = any_host()};
    agent.ranks = {{.rank = below(4)}};
    return agent;
  }

  model::NodeReport external_report(const model::NodeId& node) {
    model::NodeReport report;
    report.node = node;
    report.state = model::NodeState::running;
    report.ranks = world_.state.nodes.at(node).ranks;
    for (model::Rank& rank : report.ranks) {
      if (rank.state != model::RankState::running || below(4) > 0) continue;
      rank.state = below(3) == 0 ? model::RankState::killed : model::RankState::exited;
      rank.ended = world_.now;
    }
    return report;
  }

  // The report of a correct agent, by its command.
  model::NodeReport honest_report(const model::NodeId& node) {
    if (is_of_external_run(node)) return external_report(node);
    switch (model::command_for(world_.state, {"", node}).kind) {
      case model::CommandKind::none:
        if (world_.state.nodes.at(node).state < model::NodeState::running)
          return world_.report(node, model::NodeState::ready);
        [[fallthrough]];
      case model::CommandKind::start:
        return below(calm_ ? 30 : 3) == 0 ? world_.ended(node, model::RankState::exited, 0)
                                          : saving(node);
      case model::CommandKind::stop:
      case model::CommandKind::leave:
        break;
    }
    auto word = world_.ended(node, model::RankState::killed, 15, true);
    if (world_.state.nodes.at(node).ranks.empty()) word.ranks.clear();
    word.state = model::NodeState::stopping;
    return word;
  }

  model::NodeReport saving(const model::NodeId& node) {
    auto word = world_.running(node);
    if (below(2) == 0) word.last_checkpoint = world_.now;
    return word;
  }

  void behave(const model::NodeId& node) {
    if (model::command_for(world_.state, {"", node}).kind == model::CommandKind::leave)
      world_.apply_event_ok(testing_world::node_gone(node));
    else
      world_.apply_event_ok(honest_report(node));
  }

  std::string any_host() { return std::string(1, static_cast<char>('a' + below(4))); }
  // An engine names its own hosts only.
  std::string any_host_of_engine() {
    return has_two_engines_ ? std::string(1, static_cast<char>('c' + below(2))) : any_host();
  }

  int credential_of(const std::string& host) const {
    const auto row = world_.state.hosts.find(host);
    return row == world_.state.hosts.end() ? 0 : row->second.credential;
  }

  // Some tokens are old, and some calls repeat an earlier one.
  model::Event any_host_event() {
    const std::string host = any_host();
    const int kind = below(14);
    if (kind >= 10)
      return model::HostsSeen{below(4) == 0
                                  ? std::map<std::string, std::string>{{host, "it is silent"}}
                                  : std::map<std::string, std::string>{}};
    if (kind < 3)
      return model::AdmitHost{host, below(3) == 0 ? "far" : "",
                              std::max(0, credential_of(host) - below(2)),
                              std::string(64, static_cast<char>('a' + below(2))), "m"};
    if (kind < 8) return model::DescribeHost{host, testing_world::facts_of(host, 1 + below(4))};
    if (below(3) == 0) return model::HostDead{host, "chaos"};
    if (below(3) == 0) return model::LabelHost{host, {{"rack", below(2) == 0 ? "a" : ""}}, "chaos"};
    return model::RemoveHost{host, "chaos", kind == 9};
  }

  void join_for_good(const std::string& host) {
    world_.apply_event_ok(
        model::AdmitHost{host, "", credential_of(host), std::string(64, 'c'), "m"});
    world_.apply_event_ok(model::DescribeHost{host, testing_world::facts_of(host, 3)});
  }

  model::NodeSeen any_sight() {
    return {any_node(),
            {.phase = static_cast<model::NodePhase>(below(3)),
             .reason = "chaos",
             .handle = std::to_string(below(3)),
             .host = engine_places_ && below(2) == 0 ? any_host_of_engine() : ""}};
  }

  // The kinds 22 to 29.
  std::optional<model::Event> any_change_of_user(int kind) {
    switch (kind) {
      case 29:
        return model::SetWeight{"demo", below(5)};
      case 26:
        return model::SetHost{std::string(1, static_cast<char>('a' + below(4))),
                              static_cast<model::HostState>(below(4)), "chaos", ""};
      case 27:
        return model::SetHost{std::string(1, static_cast<char>('a' + below(4))),
                              model::HostState::open, "", ""};
      case 28:
        return model::SetLimit{
            {below(2) == 0 ? model::LimitScope::project : model::LimitScope::user, "demo"},
            below(3) == 0 ? std::nullopt : std::optional(12 - below(6))};
      case 22:
        return model::HoldRun{any_run(), "chaos", "to see"};
      case 23:
      case 24:
        return model::ReleaseRun{any_run(), "chaos"};
      case 25:
        if (below(3) == 0)
          return model::AnnotateRun{
              any_run(), {{"stage", below(2) == 0 ? "" : format("{}", below(9))}}, "chaos"};
        if (below(2) == 0)
          return model::ExtendRun{any_run(), std::chrono::seconds(below(300)), "chaos"};
        return model::SetPriority{any_run(), below(5) - 2, "chaos"};
      default:
        return std::nullopt;
    }
  }

  model::Event any_event() {
    if (joining_ && below(8) == 0) return any_host_event();
    if (external_ && below(12) == 0) return any_attachment();
    if (world_.state.runs.empty() || below(12) == 0) return model::SubmitRun{any_spec(), {}};
    if (world_.state.nodes.empty()) return model::Tick{};
    if (calm_ && below(6) > 0) {
      const model::NodeId node = any_node();
      if (model::command_for(world_.state, {"", node}).kind == model::CommandKind::leave)
        return testing_world::node_gone(node);
      return honest_report(node);
    }
    const int kind = below(30);
    if (auto change = any_change_of_user(kind)) return *change;
    switch (kind) {
      case 21:
        return testing_world::agent_gone(any_node());
      case 19:
        return any_sight();
      case 20:
        return model::ResumeRun{any_run()};
      case 0:
        return model::StopRun{any_run(), "chaos"};
      case 1:
        return testing_world::not_started(any_node(), "chaos");
      case 2:
        return model::DaemonStarted{};
      case 3:
      case 4:
      case 5:
        return testing_world::node_gone(any_node());
      case 6:
      case 7:
        return any_report(any_node());
      case 8:
      case 9:
      case 10:
        return model::Tick{
            .listening_since = {},
            .on_time_since = below(4) == 0 ? world_.now : Time{},
            .silent_hosts = below(3) == 0 ? std::set{any_host()} : std::set<std::string>{}};
      default:
        return honest_report(any_node());
    }
  }

  void check_effect(const model::Effect& effect) {
    if (const auto* submit = std::get_if<model::SubmitGang>(&effect)) {
      for (const model::Node* node : model::nodes_of(world_.state, submit->attempt)) {
        EXPECT_TRUE(launched_.insert(node->id).second) << "launched twice: " << text(node->id);
        check_devices_are_free(*node);
      }
    }
    if (const auto* kill = std::get_if<model::KillNode>(&effect)) {
      EXPECT_TRUE(launched_.contains(kill->node)) << "killed without a launch";
    }
  }

  void check_devices_are_free(const model::Node& node) const {
    for (const auto& [id, given_up] : world_.state.given_up)
      EXPECT_TRUE(given_up.devices.host != node.host ||
                  std::ranges::find_first_of(given_up.devices.devices, node.devices) ==
                      given_up.devices.devices.end())
          << text(node.id) << " gets a device of " << text(id) << ", which was given up";
  }

  void check() {
    std::set<std::pair<std::string, int>> held;
    std::map<model::RunId, int> live;
    for (const auto& [id, attempt] : world_.state.attempts)
      if (attempt.state != model::AttemptState::ended) check_live(attempt, ++live[id.run], held);
    for (const auto& [id, run] : world_.state.runs) check_run(run, live.contains(id));
    for (const auto& [id, node] : world_.state.given_up) given_up_.insert(id);
    check_queue();
  }

  sched::Plan plan_of(const std::vector<sched::PendingRun>& wants,
                      std::vector<sched::Allocation> held) const {
    model::HostsByPlacement hosts = hosts_by_placement(world_.state, world_.state.map);
    std::optional<sched::EngineHosts> engine;
    if (engine_places_) engine = {hosts.by_engine, world_.state.settings.slurm_jobs_max};
    for (auto& [id, allocation] : given_up_allocations_of(world_.state.given_up)) {
      std::erase_if(allocation.devices, [&](const model::HostDevices& devices) {
        return map::find_host(hosts.by_engine, devices.host) != nullptr;
      });
      held.push_back(std::move(allocation));
    }
    return sched::schedule_once(hosts.by_lockstep, chaos_policy(), wants, held, world_.now,
                                operator_settings_of(world_.state.hosts, world_.state.limits),
                                joining_ ? sched::MapGrowth::hosts_join : sched::MapGrowth::none,
                                engine);
  }

  // A pass after this event would give the same result.
  void check_queue() {
    std::vector<sched::PendingRun> wants;
    std::vector<sched::Allocation> held;
    for (const model::RunId& id : world_.state.open) {
      const model::Run& run = world_.state.runs.at(id);
      if (model::waits_for_devices(run)) wants.push_back(pending_run_of(run));
      const model::Attempt* attempt = model::live_attempt(world_.state, id);
      if (!attempt || model::is_external(run)) continue;
      auto nodes = model::nodes_of(world_.state, attempt->id);
      std::erase_if(
          nodes, [&](const model::Node* node) { return world_.state.given_up.contains(node->id); });
      held.push_back(allocation_of(run, *attempt, nodes, chaos_policy()));
    }
    const sched::Plan plan = plan_of(wants, std::move(held));
    EXPECT_TRUE(plan.placements.empty()) << "one could have started";
    EXPECT_TRUE(plan.evictions.empty() && plan.moves.empty()) << "one could have been asked to go";
    for (const sched::WaitingRun& waiting : plan.waiting)
      EXPECT_EQ(world_.state.runs.at(waiting.run).reason, stored_reason(waiting));
    EXPECT_EQ(decider_.scheduler().waiting(), plan.waiting);
  }

  void check_live(const model::Attempt& attempt, int count,
                  std::set<std::pair<std::string, int>>& held) {
    const model::Run& run = world_.state.runs.at(attempt.id.run);
    EXPECT_EQ(count, 1) << "two live attempts of " << text(run.id);
    EXPECT_EQ(attempt.id.epoch, run.epoch);
    if (model::is_external(run)) return;
    const auto nodes = model::nodes_of(world_.state, attempt.id);
    EXPECT_EQ(std::ssize(nodes), run.spec.nodes) << "half a gang";
    EXPECT_TRUE(has_two_engines_ || attempt.is_placed == !engine_places_);
    EXPECT_TRUE(!has_two_engines_ || attempt.engine == (attempt.is_placed ? "local" : "slurm"));
    std::set<std::string> hosts;
    for (const model::Node* node : nodes) {
      EXPECT_TRUE(hosts.insert(node->host).second || engine_places_) << "two nodes on one host";
      EXPECT_EQ(std::ssize(node->devices), run.spec.devices);
      if (attempt.is_placed) check_devices_exist(*node);
      EXPECT_TRUE(launched_.contains(node->id));
      EXPECT_TRUE(!node->unreachable_since || (node->state > model::NodeState::allocated &&
                                               node->state < model::NodeState::released))
          << text(node->state);
      for (int device : node->devices)
        EXPECT_TRUE(!attempt.is_placed || held.emplace(node->host, device).second)
            << "a device is held twice";
    }
    for (const model::HostDevices& slice : attempt.move_destination)
      for (int device : slice.devices)
        EXPECT_TRUE(held.emplace(slice.host, device).second) << "kept for two";
    EXPECT_EQ(attempt.cause == model::Cause::moved, !attempt.move_destination.empty());
    EXPECT_FALSE(model::is_preemption(attempt.cause) && attempt.created == attempt.draining)
        << "in vain";
    EXPECT_EQ(attempt.state == model::AttemptState::draining, attempt.cause != model::Cause::none);
    EXPECT_EQ(attempt.cause == model::Cause::hung,
              attempt.reason.find(" hangs: ") != std::string::npos);
  }

  // A node of a host that was removed as lost has none.
  void check_devices_exist(const model::Node& node) {
    const map::Host* host = map::find_host(world_.state.map, node.host);
    if (!host || node.state == model::NodeState::released) return;
    EXPECT_LT(node.devices.back(), std::ssize(map::devices(*host)))
        << text(node.id) << " holds a device that its host does not have";
  }

  void check_run(const model::Run& run, bool live) {
    EXPECT_EQ(model::is_final(run.state), !world_.state.open.contains(run.id));
    EXPECT_EQ(model::is_final(run.state), run.ended.has_value());
    EXPECT_FALSE(model::is_final(run.state) && live) << text(run.id) << " ended and holds devices";
    const bool active =
        run.state == model::RunState::starting || run.state == model::RunState::running;
    EXPECT_EQ(live, active) << text(run.id) << " is " << text(run.state);
    EXPECT_TRUE(run.state == model::RunState::queued || !run.held) << text(run.id) << " is held";
    EXPECT_TRUE(active || !run.reason.empty()) << text(run.id) << " is " << text(run.state);
    EXPECT_LE(run.losses, run.spec.rank_loss_retries);
    EXPECT_LE(run.user_exits, run.spec.retries);
    EXPECT_LE(run.moves, model::kMovesMax);
    EXPECT_GE(run.time_used.count(), 0);
    auto& version = versions_[run.id];
    EXPECT_GE(run.version, version);
    version = run.version;
  }

  Random random_;
  bool external_ = false;
  const bool calm_;
  const bool joining_;
  const bool has_two_engines_;
  const bool engine_places_;  // a part of the hosts, or all
  static map::ClusterMap with_cores(map::ClusterMap map) {
    for (map::Host& host : map.pods[0].leaves[0].hosts) host.cores = 4;
    return map;
  }

  // The last two are those of an engine that chooses.
  static void divide_hosts(model::State& state) {
    state.engine = "local,slurm";
    state.placing_engine = "slurm";
    auto& pods = state.map.pods;
    pods.push_back(pods[0]);
    pods[0].engine = "local";
    pods[1].engine = "slurm";
    auto& here = pods[0].leaves[0].hosts;
    auto& there = pods[1].leaves[0].hosts;
    here.erase(here.begin() + 2, here.end());
    there.erase(there.begin(), there.begin() + 2);
  }

  World new_world() const {
    World world(joining_ ? map::ClusterMap{} : with_cores(map_of(4, 3)));
    world.state.hosts_make_map = joining_;
    if (engine_places_) world.state.placing_engine = world.state.engine;
    if (has_two_engines_) divide_hosts(world.state);
    world.state.settings.slurm_jobs_max = 8;
    return world;
  }

  World world_ = new_world();
  Decider decider_{world_.state, chaos_policy()};
  std::vector<model::Change> journal_;
  std::set<model::NodeId> launched_;
  std::set<model::NodeId> given_up_;
  std::map<model::RunId, std::int64_t> versions_;
};

// In ten parts, so that a build in which each event is slow can run one.
class StepProperties : public testing::TestWithParam<std::uint64_t> {};

TEST_P(StepProperties, HoldWhateverHappensAndEveryRunEnds) {
  int attempts = 0, moved = 0, paused = 0, evicted = 0, given_up = 0;
  for (std::uint64_t seed = GetParam() * 15 + 1; seed <= GetParam() * 15 + 15; ++seed) {
    SCOPED_TRACE(seed);
    Chaos chaos(seed, Chaos::Hosts::declared);
    for (int i = 0; i < 250; ++i) chaos.step_once();
    chaos.check_replay();
    chaos.settle();
    attempts += chaos.attempts();
    moved += chaos.ended_by(model::Cause::moved);
    paused += chaos.ended_by(model::Cause::paused);
    evicted += chaos.ended_by(model::Cause::evicted);
    given_up += chaos.given_up();
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(attempts, 100);  // the events do reach deep
  EXPECT_GT(moved + paused, 0);
  EXPECT_GT(evicted, 0);
  EXPECT_GT(given_up, 0);
}

TEST_P(StepProperties, HoldWhileHostsJoinChangeAndLeave) {
  int attempts = 0, lost = 0;
  for (std::uint64_t seed = GetParam() * 6 + 1; seed <= GetParam() * 6 + 6; ++seed) {
    SCOPED_TRACE(seed);
    Chaos chaos(seed, Chaos::Hosts::joining);
    for (int i = 0; i < 300; ++i) chaos.step_once();
    chaos.check_replay();
    chaos.settle();
    attempts += chaos.attempts();
    lost += chaos.ended_by(model::Cause::node_lost);
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(attempts, 50);
  EXPECT_GT(lost, 0);
}

TEST_P(StepProperties, HoldWhileTheEngineChoosesHosts) {
  Chaos chaos(GetParam() + 1, Chaos::Hosts::chosen_by_engine);
  for (int i = 0; i < 300; ++i) chaos.step_once();
  chaos.check_replay();
  chaos.settle();
  EXPECT_GT(chaos.attempts(), 10);
  EXPECT_GT(chaos.ended_by(model::Cause::launch_failed) + chaos.ended_by(model::Cause::node_lost),
            0);
}

TEST_P(StepProperties, HoldWhileAnEngineChoosesSomeOfTheHosts) {
  int placed = 0, unplaced = 0;
  for (std::uint64_t seed = GetParam() * 6 + 1; seed <= GetParam() * 6 + 6; ++seed) {
    SCOPED_TRACE(seed);
    Chaos chaos(seed, Chaos::Hosts::chosen_by_both);
    for (int i = 0; i < 300; ++i) chaos.step_once();
    chaos.check_replay();
    chaos.settle();
    placed += chaos.attempts_placed(true);
    unplaced += chaos.attempts_placed(false);
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(placed, 20);
  EXPECT_GT(unplaced, 20);
}

TEST_P(StepProperties, HoldWhileExternalRunsComeAndGo) {
  int external = 0;
  for (std::uint64_t seed = GetParam() * 4 + 1; seed <= GetParam() * 4 + 4; ++seed) {
    SCOPED_TRACE(seed);
    Chaos chaos(seed, Chaos::Hosts::declared);
    chaos.add_external_runs();
    for (int i = 0; i < 250; ++i) chaos.step_once();
    chaos.check_replay();
    chaos.settle();
    external += chaos.external_runs();
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(external, 20);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StepProperties, testing::Range<std::uint64_t>(0, 10));

}  // namespace
}  // namespace lockstep::step
