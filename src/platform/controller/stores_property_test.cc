// A daemon whose store is moved away and restored from older copies at random, while agents
// continue. No device is used twice, no run is trained by two programs, no name or number is
// reused. No node that the store does not know is ended unless an operator asks.
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/log.h"
#include "platform/controller/controller.h"
#include "platform/store/memory_history_for_test.h"
#include "platform/store/memory_store_for_test.h"

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kSeeds = 60;
constexpr int kSteps = 400;
constexpr int kStepsToRest = 4000;

class StoppedClock : public Clock, public SteadyClock {
 public:
  static constexpr Time kBeginning = Time(std::chrono::hours(24 * 365 * 50));
  Time now() const override { return time; }
  Duration since_boot() const override { return time - kBeginning; }
  std::string boot_id() const override { return "boot"; }
  Time time = kBeginning;
};

class CountingHistory : public store::MemoryHistory {
 public:
  std::string new_generation() override { return format("{:016x}", ++made_); }

 private:
  int made_ = 0;
};

map::ClusterMap map_of_three_hosts() {
  map::ClusterMap map;
  map::Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
  for (auto id : {"a", "b", "c"}) {
    map::Host& host = leaf.hosts.emplace_back();
    host.id = id;
    for (int number : {0, 1})
      host.islands.emplace_back().devices.push_back({map::DeviceKind::gpu, number, {}, false});
  }
  return map;
}

// One agent with its ranks.
struct Agent {
  enum class Phase { waiting, running, ended };
  host::LaunchSpec launch;
  Phase phase = Phase::waiting;
  bool stopped = false;  // by command
  bool lost = false;     // a rank was killed from outside
};

class World : public engine::Engine {
 public:
  explicit World(int seed) : dice_(static_cast<unsigned>(seed)), seed_(seed) {
    use(std::make_unique<store::MemoryStore>());
  }

  void live() {
    for (int step = 0; step < kSteps && !failed(); ++step) {
      anything();
      go_on();
    }
    for (int step = 0; step < kStepsToRest && !failed() && !at_rest(); ++step) {
      std::set<model::RunId> runs;
      for (const auto& [name, orphan] : orphans()) runs.insert(name.id.attempt.run);
      for (const model::RunId& run : runs) handle_orphan(run);
      go_on();
    }
    EXPECT_TRUE(failed() || at_rest()) << "seed " << seed_ << ": some run never ends";
  }

  // --- The engine ---

  std::string_view name() const override { return "fake"; }
  void submit(engine::Gang gang) override {
    for (const engine::NodePlacement& node : gang.nodes)
      start(engine::launch_spec(gang, node, "/home/daemon"));
  }
  void start(const host::LaunchSpec& launch) {
    const model::NodeName name{launch.generation, model::parse_node_id(launch.node).value()};
    if (launched_.contains(name)) return;
    const auto known = folders_.emplace(name, launch.node_folder);
    EXPECT_TRUE(known.first->second == launch.node_folder);
    for (const auto& [other, agent] : agents_) {
      if (agent.phase == Agent::Phase::ended) continue;
      for (int device : launch.devices) {
        const bool shared = agent.launch.host == launch.host &&
                            std::ranges::count(agent.launch.devices, device) > 0;
        EXPECT_FALSE(shared) << where() << text(name) << " and " << text(other)
                             << " use one device";
      }
      EXPECT_TRUE(other.attempt() == name.attempt() ||
                  agent.launch.checkpoint_folder != launch.checkpoint_folder)
          << where() << text(name) << " and " << text(other) << " train one run";
    }
    agents_.emplace(name, Agent{.launch = launch});
    launched_.emplace(name, launch);
  }
  void kill(const model::NodeName& name) override {
    EXPECT_TRUE(model::has_node(controller_->state(), name) ||
                wanted_.contains(name.id.attempt.run))
        << where() << text(name) << " is killed unasked";
    agents_.erase(name);
  }
  Result<engine::EngineList> list() override {
    engine::EngineList listed;
    for (const auto& [name, agent] : agents_)
      listed.nodes.push_back({.node = name,
                              .record = std::make_shared<engine::LaunchRecord>(
                                  engine::launch_record(launched_.at(name)))});
    return listed;
  }

 private:
  int any(int below) { return static_cast<int>(dice_() % static_cast<unsigned>(below)); }
  static bool failed() { return ::testing::Test::HasFailure(); }
  std::string where() const { return format("seed {}: ", seed_); }
  const std::map<model::NodeName, model::Orphan>& orphans() const {
    return controller_->state().orphans;
  }
  bool at_rest() const { return controller_->state().open.empty() && agents_.empty(); }

  void restart() {
    controller_.reset();
    controller_ = Controller::open({*store_, history_, *this, clock_, clock_, keys_,
                                    map_of_three_hosts(), "/nowhere"})
                      .value();
  }
  void use(std::unique_ptr<store::MemoryStore> store) {
    store_ = std::move(store);
    wanted_.clear();
    restart();
  }

  void anything() {
    switch (any(12)) {
      case 0:
      case 1:
      case 2:
        return submit();
      case 3:
        return restart();
      case 4:
        if (copies_.size() < 8) copies_.push_back(*store_);
        return;
      case 5:
        if (any(4) == 0) use(std::make_unique<store::MemoryStore>());
        return;
      case 6:
        if (any(2) == 0 && !copies_.empty()) use(std::make_unique<store::MemoryStore>(some_copy()));
        return;
      case 7:
        clock_.time += seconds(any(20));
        return;
      case 8:
      case 9:
        if (!orphans().empty()) handle_orphan(orphans().begin()->first.id.attempt.run);
        return;
      default:
        return end_some_rank();
    }
  }

  const store::MemoryStore& some_copy() {
    return copies_[static_cast<std::size_t>(any(static_cast<int>(copies_.size())))];
  }

  void submit() {
    model::RunSpec spec;
    spec.project = any(2) ? "demo" : "act";
    spec.command = {format("program-{}", ++submitted_)};
    spec.nodes = 1 + any(2);
    spec.devices = 1 + any(2);
    spec.timeout = minutes(1 + any(10));
    spec.checkpoint_folder = format("/nowhere/{}", submitted_);
    const auto run = controller_->submit(spec, {});
    ASSERT_TRUE(run) << where() << run.error().message;
    EXPECT_TRUE(numbers_.insert(*run).second) << where() << text(*run) << " is given again";
  }

  void handle_orphan(model::RunId run) {
    if (any(2)) {
      wanted_.insert(run);
      EXPECT_TRUE(controller_->apply_operator_event(model::StopOrphan{run, "root"}));
    } else {
      (void)controller_->apply_operator_event(
          model::AdoptOrphan{run, "root"});  // refused if it conflicts
    }
  }

  void end_some_rank() {
    if (agents_.empty()) return;
    auto agent = std::next(agents_.begin(), any(static_cast<int>(agents_.size())));
    if (agent->second.phase != Agent::Phase::running) return;
    agent->second.phase = Agent::Phase::ended;
    agent->second.lost = any(2) == 0;
  }

  // Some of the agents call, and time passes.
  void go_on() {
    std::vector<model::NodeName> names;
    for (const auto& [name, agent] : agents_)
      if (any(4)) names.push_back(name);
    for (const model::NodeName& name : names) call(name);
    clock_.time += milliseconds(200 + any(2000));
    controller_->tick();
    while (controller_->execute_effects()) {
    }
    for (auto& [name, agent] : agents_)
      if (agent.phase == Agent::Phase::running && any(60) == 0) agent.phase = Agent::Phase::ended;
  }

  void call(const model::NodeName& name) {
    Agent& agent = agents_.at(name);
    const auto command = controller_->report(report_of(name, agent));
    ASSERT_TRUE(command) << where() << command.error().message;
    if (!agents_.contains(name)) return;
    const bool leaves = command->kind == model::CommandKind::leave;
    EXPECT_FALSE(leaves && command->orphaned) << where() << text(name) << " is sent away";
    if (command->kind == model::CommandKind::start && agent.phase == Agent::Phase::waiting)
      agent.phase = Agent::Phase::running;
    if (command->kind == model::CommandKind::stop) {
      agent.stopped = agent.stopped || agent.phase != Agent::Phase::ended;
      agent.phase = Agent::Phase::ended;
    }
    if (leaves) agents_.erase(name);
  }

  static model::NodeReport report_of(const model::NodeName& name, const Agent& agent) {
    model::NodeReport report;
    report.node = name.id;
    report.generation = name.generation;
    report.address = "10.0.0.1";
    report.master_port = 4000;
    report.rendezvous_port = 5000;
    report.state = agent.stopped                          ? model::NodeState::stopping
                   : agent.phase == Agent::Phase::waiting ? model::NodeState::ready
                                                          : model::NodeState::running;
    if (agent.phase == Agent::Phase::waiting) return report;
    for (std::size_t local = 0; local < agent.launch.devices.size(); ++local) {
      model::Rank& rank = report.ranks.emplace_back();
      rank.local_rank = static_cast<int>(local);
      rank.rank = agent.launch.first_rank + rank.local_rank;
      if (agent.phase == Agent::Phase::running) continue;
      rank.state =
          agent.lost || agent.stopped ? model::RankState::killed : model::RankState::exited;
      rank.code = agent.lost ? 9 : agent.stopped ? 15 : 0;
      rank.signalled_by_agent = agent.stopped;
    }
    return report;
  }

  std::mt19937 dice_;
  const int seed_;
  StoppedClock clock_;
  CountingHistory history_;
  const host::Keys keys_ =
      host::Keys::from_values(net::Secret::from_hex(std::string(64, '5')).value(), "token");
  std::unique_ptr<store::MemoryStore> store_;
  std::vector<store::MemoryStore> copies_;
  std::map<model::NodeName, Agent> agents_;
  std::map<model::NodeName, host::LaunchSpec> launched_;
  std::map<model::NodeName, std::string> folders_;  // of all nodes ever launched
  std::set<model::RunId> numbers_;                  // that were ever given
  std::set<model::RunId> wanted_;                   // orphans that this store was asked to stop
  int submitted_ = 0;
  std::unique_ptr<Controller> controller_;
};

TEST(StoreMode, MayBeMovedAndPutBackUnderRunsThatGoOn) {
  set_log_sink([](LogLevel, std::string_view) {});
  const char* seeds = std::getenv("LOCKSTEP_TEST_SEEDS");
  const int most = seeds ? std::atoi(seeds) : kSeeds;
  for (int seed = 1; seed <= most && !HasFailure(); ++seed) World(seed).live();
  set_log_sink({});
}

}  // namespace
}  // namespace lockstep::controller
