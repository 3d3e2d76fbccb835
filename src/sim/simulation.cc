#include "sim/simulation.h"

#include <numeric>

#include "base/log.h"
#include "sim/world/machine_map.h"

namespace lockstep::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr Duration kFaultTime = minutes(30);  // users and faults
constexpr Duration kRestTimeMax = hours(6);   // at most, until every run has ended without them
constexpr int kEventsBetweenChecks = 64;      // events
constexpr int kTicksBetweenQueueChecks = 16;  // ticks
constexpr int kRunsMin = 8;
constexpr int kRunsMax = 20;
constexpr std::uint64_t kJoiningSeeds = 4;  // each fourth seed has hosts that join
// Seeds whose engine chooses all hosts, or some, and that have a bound of jobs that counts.
constexpr int kPercentOfPlacingEngines = 20;  // of the seeds without joining hosts
constexpr int kPercentOfBothEngines = 20;     // of the rest of these
constexpr int kPercentOfFewJobs = 50;
// The names of SimEngine and PlacingEngine.
constexpr std::string_view kPlainEngine = "simulated";
constexpr std::string_view kClusterEngine = "shared";

// One or two pods with four to eight hosts in all, of one kind or of several.
map::ClusterMap any_map(SeededRandom random) {
  map::ClusterMap map;
  const int pods = random.from_to(1, 2);
  const int devices = random.from_to(2, 4);
  for (int pod = 0; pod < pods; ++pod) {
    map::Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
    const int count = random.from_to(4 / pods, 8 / pods);
    for (int i = 0; i < count; ++i) {
      std::vector<int> numbers(static_cast<std::size_t>(devices + (random.percent(20) ? 1 : 0)));
      std::iota(numbers.begin(), numbers.end(), 0);
      leaf.hosts.push_back(host_with(format("{}{}", static_cast<char>('a' + pod), i), numbers));
    }
  }
  return map;
}

// A pod of each engine. Some runs fit only on the hosts of one of them.
map::ClusterMap any_map_of_two_engines(SeededRandom random) {
  map::ClusterMap map;
  for (const std::string_view engine : {kPlainEngine, kClusterEngine}) {
    map::Pod& pod = map.pods.emplace_back();
    pod.engine = engine;
    map::Leaf& leaf = pod.leaves.emplace_back();
    const int devices = random.from_to(2, 4), count = random.from_to(2, 4);
    for (int i = 0; i < count; ++i) {
      std::vector<int> numbers(static_cast<std::size_t>(devices));
      std::iota(numbers.begin(), numbers.end(), 0);
      leaf.hosts.push_back(
          host_with(format("{}{}", engine == kPlainEngine ? 'a' : 'b', i), numbers));
      leaf.hosts.back().labels.emplace("engine", engine);
    }
  }
  return map;
}

map::ClusterMap map_of_engine(map::ClusterMap map, std::string_view engine) {
  std::erase_if(map.pods, [&](const map::Pod& pod) { return pod.engine != engine; });
  return map;
}

// All machines of a cluster whose hosts join. They hold any run that a simulated user submits.
map::ClusterMap any_machines(SeededRandom random) {
  map::ClusterMap map;
  const int pods = random.from_to(1, 2);
  for (int pod = 0; pod < pods; ++pod) {
    map::Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
    const int count = pod == 0 ? random.from_to(5, 6) : random.from_to(1, 2);
    for (int i = 0; i < count; ++i) {
      std::vector<int> numbers(static_cast<std::size_t>(random.from_to(3, 5)));
      std::iota(numbers.begin(), numbers.end(), 0);
      leaf.hosts.push_back(host_with(format("{}{}", static_cast<char>('a' + pod), i), numbers));
    }
  }
  return map;
}

// In seeds that a test or the setup does not decide.
bool do_hosts_join(const SimulationSetup& setup) {
  if (setup.hosts_join) return *setup.hosts_join;
  return !setup.map && !setup.wrap_engine && !setup.chosen_by && setup.seed % kJoiningSeeds == 0;
}

ChosenBy chosen_by(const SimulationSetup& setup) {
  if (setup.chosen_by) return *setup.chosen_by;
  if (setup.map || setup.wrap_engine || do_hosts_join(setup)) return ChosenBy::lockstep;
  if (SeededRandom(setup.seed, "who places").percent(kPercentOfPlacingEngines))
    return ChosenBy::engine;
  return SeededRandom(setup.seed, "both place").percent(kPercentOfBothEngines) ? ChosenBy::both
                                                                               : ChosenBy::lockstep;
}

model::Settings settings_of(const SimulationSetup& setup) {
  model::Settings settings = setup.settings;
  SeededRandom random(setup.seed, "jobs of the engine");
  if (chosen_by(setup) != ChosenBy::lockstep && random.percent(kPercentOfFewJobs))
    settings.slurm_jobs_max = random.from_to(2, 6);
  return settings;
}

map::ClusterMap map_of(const SimulationSetup& setup) {
  if (setup.map) return *setup.map;
  if (do_hosts_join(setup)) return any_machines(SeededRandom(setup.seed, "machines"));
  const SeededRandom random(setup.seed, "map");
  return chosen_by(setup) == ChosenBy::both ? any_map_of_two_engines(random) : any_map(random);
}

// The daemon's policy with shorter checkpoint intervals, since runs take about a minute.
sched::SchedulingPolicy simulated_policy() {
  sched::SchedulingPolicy policy = step::step_policy();
  policy.checkpoint_interval = std::chrono::seconds(20);
  policy.restart_time = std::chrono::seconds(5);
  policy.overhead = std::chrono::seconds(30);  // most agents take less
  return policy;
}

// Fixed secrets, because the simulation has none to protect.
host::Keys simulated_keys() {
  return host::Keys::from_values(
      net::Secret::from_hex(std::string(2 * net::Secret::kBytes, '5')).value(), "token");
}

}  // namespace

Simulation::Simulation(const SimulationSetup& setup)
    : seed_(setup.seed),
      hosts_join_(do_hosts_join(setup)),
      chosen_by_(chosen_by(setup)),
      settings_(settings_of(setup)),
      context_(setup.trace),
      map_(map_of(setup)),
      hosts_of_cluster_(chosen_by_ == ChosenBy::both ? map_of_engine(map_, kClusterEngine) : map_),
      truth_(context_, durable_, simulated_policy().checkpoint_interval),
      training_(context_, truth_, setup.seed),
      network_(context_, truth_, setup.seed,
               [this](const model::NodeReport& report) { return daemon_.report(report); }),
      hosts_(map_, {context_, network_, training_, truth_}, setup.seed),
      history_(crash_points_, setup.seed),
      engine_({context_, crash_points_, hosts_, network_, truth_}, setup.seed),
      joined_engine_(context_, crash_points_, truth_, setup.settings.host_silent_after),
      cluster_(hosts_of_cluster_, {context_, hosts_, truth_, engine_.faults()}, setup.seed),
      placing_engine_({context_, crash_points_, cluster_, truth_, engine_.faults()}, setup.seed),
      both_engines_(chosen_by_ == ChosenBy::both ? make_both_engines() : nullptr),
      daemon_(
          context_, crash_points_, controller_setup(setup),
          setup.downtime ? setup.downtime : [this] { return faults_.downtime(); }),
      joined_hosts_({context_, crash_points_, daemon_, joined_engine_, network_, hosts_, truth_,
                     engine_.faults(), durable_},
                    map_, setup.seed),
      faults_({context_, crash_points_, daemon_, store_, engine_, hosts_, network_, truth_},
              setup.seed),
      host_faults_(context_, hosts_, joined_hosts_, truth_, setup.seed),
      cluster_faults_({context_, crash_points_, daemon_, cluster_, placing_engine_, truth_},
                      setup.seed),
      people_(context_, durable_, setup.seed),
      users_(context_, daemon_, people_, truth_, setup.seed),
      operators_(context_, daemon_, truth_, durable_, map_, setup.seed),
      budgets_(context_, daemon_, setup.seed),
      invariants_(context_, truth_, simulated_policy()),
      promises_(context_, simulated_policy().overhead) {
  durable_.hosts_make_map = hosts_join_;
  if (has_placing_engine()) durable_.engine = engine_of_daemon().name();
  durable_.placing_engine = placing_engine_name();
  durable_.settings = settings_;
  if (has_placing_engine()) truth_.placement().set_cluster(cluster_, placing_engine_name());
  if (!hosts_join_) durable_.map = map_;
  truth_.hosts().set_engine([this] { return joined_engine_.of_daemon().list().value(); });
  set_log_sink([this](LogLevel, std::string_view line) { context_.trace("log", "{}", line); });
}

Simulation::~Simulation() { set_log_sink({}); }

// They see different hosts.
std::unique_ptr<engine::CompositeEngine> Simulation::make_both_engines() {
  engine_.leave_out(hosts_of_cluster_);
  return engine::CompositeEngine::create(
             {{engine_, map_of_engine(map_, kPlainEngine)}, {placing_engine_, hosts_of_cluster_}})
      .value();
}

std::string Simulation::placing_engine_name() const {
  return has_placing_engine() ? std::string(placing_engine_.name()) : "";
}

engine::Engine& Simulation::engine_of_daemon() {
  if (both_engines_) return *both_engines_;
  if (has_placing_engine()) return placing_engine_;
  return hosts_join_ ? static_cast<engine::Engine&>(joined_engine_) : engine_;
}

controller::ControllerSetup Simulation::controller_setup(const SimulationSetup& setup) {
  engine::Engine& engine = engine_of_daemon();
  return {.store = setup.wrap_store ? setup.wrap_store(store_) : store_,
          .history = history_,
          .engine = setup.wrap_engine ? setup.wrap_engine(engine, hosts_) : engine,
          .clock = context_.clock,
          .steady = context_.clock,
          .keys = simulated_keys(),
          .map = hosts_join_ ? map::ClusterMap() : map_,
          .home = "/sim",
          .policy = simulated_policy(),
          .settings = settings_,
          .hosts_make_map = hosts_join_,
          .placing_engine = placing_engine_name()};
}

void Simulation::begin() {
  daemon_.on_tick([this] { after_tick(); });
  daemon_.start();
  if (hosts_join_) joined_hosts_.begin();
  if (has_placing_engine()) cluster_.begin();
}

SimulationOutcome Simulation::run() {
  SeededRandom random(seed_, "world");
  begin();
  faults_.begin();
  if (hosts_join_) host_faults_.begin();
  if (has_placing_engine()) cluster_faults_.begin();
  operators_.begin();
  budgets_.begin();
  people_.begin(kFaultTime);
  users_.begin(random.from_to(kRunsMin, kRunsMax), kFaultTime);
  advance(kFaultTime, [] { return false; });
  run_to_rest();
  people_.checker().check_runs();
  return result();
}

void Simulation::run_to_rest() {
  if (context_.violation()) return;
  faults_.stop_and_undo();
  host_faults_.stop();
  cluster_faults_.stop_and_undo();
  if (hosts_join_) joined_hosts_.come_to_rest();
  cluster_.come_to_rest();
  operators_.stop_and_undo();
  budgets_.stop_and_undo();
  if (!advance(kRestTimeMax, [this] { return is_idle(); }) && !context_.violation())
    for (const model::RunId& run : durable_.open)
      context_.report_violation(format(
          "{} has not ended {} after the last fault; it is {}: {}", text(run), text(kRestTimeMax),
          text(durable_.runs.at(run).state), durable_.runs.at(run).reason));
  truth_.check_final_state();
}

bool Simulation::is_idle() const {
  return daemon_.is_serving() && durable_.open.empty() && hosts_.nodes().empty() &&
         !cluster_.has_live_jobs();
}

bool Simulation::advance(Duration most, const std::function<bool()>& done) {
  const Duration until = context_.timeline.now() + most;
  while (!done()) {
    if (!context_.timeline.step(until)) return false;
    after_event();
    if (context_.violation()) return false;
  }
  return true;
}

// No fault hinders the daemon now, or did so since its last tick.
bool Simulation::is_well() {
  const bool died = std::exchange(crashes_, crash_points_.crashes()) != crash_points_.crashes();
  const bool refused = std::exchange(refusals_, store_.refusals()) != store_.refusals();
  return !died && !refused && !store_.full() && is_engine_well() && network_.is_well() &&
         hosts_.kills_at_once();
}

bool Simulation::is_engine_well() const {
  if (has_placing_engine() && !placing_engine_.is_well()) return false;
  if (chosen_by_ == ChosenBy::engine) return true;
  return hosts_join_ ? joined_hosts_.is_well() && !engine_.faults().any() : engine_.is_well();
}

// Time alone makes no run start; this is checked every few ticks, too.
void Simulation::after_tick() {
  const bool committed =
      std::exchange(queue_checked_commits_, store_.commits()) != store_.commits();
  if (!store_.full() && (committed || ++ticks_ % kTicksBetweenQueueChecks == 0)) {
    invariants_.check_queue(*daemon_.state());
    promises_.check(*daemon_.state(), *daemon_.queue());
    truth_.placement().check_queue(*daemon_.state());
  }
  const bool well = is_well();
  promises_.check_latest_starts(*daemon_.state(), *daemon_.queue(), well);
  deadlines_.check(well);
  truth_.placement().check_quiet(well);
}

// The controller's rows must change only with a commit; this is checked every few events.
void Simulation::after_event() {
  const model::State* state = daemon_.state();
  if (std::exchange(store_replacements_, store_.replaced()) != store_.replaced())
    invariants_.store_replaced();
  if (!state) return;
  const bool committed = std::exchange(checked_commits_, store_.commits()) != store_.commits();
  if (committed || context_.timeline.steps() % kEventsBetweenChecks == 0)
    invariants_.check(*state, durable_);
}

SimulationOutcome Simulation::result() const {
  SimulationOutcome outcome;
  outcome.violation = context_.violation();
  outcome.events = context_.timeline.steps();
  outcome.commits = store_.commits();
  outcome.crashes = crash_points_.crashes();
  outcome.runs = static_cast<int>(durable_.runs.size());
  outcome.attempts = static_cast<int>(durable_.attempts.size());
  for (const auto& [id, run] : durable_.runs)
    outcome.succeeded += run.state == model::RunState::succeeded;
  return outcome;
}

}  // namespace lockstep::sim
