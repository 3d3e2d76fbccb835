#include "sim/world.h"

#include "base/log.h"

namespace lockstep::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr Duration kTrouble = minutes(30);  // users and faults
constexpr Duration kRest = hours(6);        // at most, until every run has ended without them
constexpr int kLookAnyway = 64;             // events
constexpr int kJudgeAnyway = 16;            // ticks
constexpr int kRunsLeast = 8;
constexpr int kRunsMost = 20;

// One or two pods with four to eight hosts in all, alike or not.
Map any_map(Dice dice) {
  Map map;
  const int pods = dice.from_to(1, 2);
  const int devices = dice.from_to(2, 4);
  for (int pod = 0; pod < pods; ++pod) {
    Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
    const int count = dice.from_to(4 / pods, 8 / pods);
    for (int i = 0; i < count; ++i) {
      Host& host = leaf.hosts.emplace_back();
      host.id = format("{}{}", static_cast<char>('a' + pod), i);
      const int more = dice.percent(20) ? 1 : 0;
      for (int number = 0; number < devices + more; ++number)
        host.islands.emplace_back().devices.push_back({DeviceKind::gpu, number, {}, false});
    }
  }
  return map;
}

// The daemon's, where checkpoints come sooner: runs take a minute or so.
SchedulingPolicy simulated_policy() {
  SchedulingPolicy policy = step_policy();
  policy.checkpoint_interval = std::chrono::seconds(20);
  policy.restart_time = std::chrono::seconds(5);
  policy.overhead = std::chrono::seconds(30);  // most agents take less
  return policy;
}

// Secrets that nobody has to keep.
Keys simulated_keys() {
  return Keys::of(Secret::from_hex(std::string(2 * Secret::kBytes, '5')).value(), "token");
}

}  // namespace

World::World(const WorldSetup& setup)
    : seed_(setup.seed),
      scene_(setup.trace),
      map_(setup.map ? *setup.map : any_map(Dice(setup.seed, "map"))),
      truth_(scene_, durable_, map_, simulated_policy().checkpoint_interval),
      training_(scene_, truth_, setup.seed),
      network_(scene_, truth_, setup.seed,
               {[this](const NodeReport& report) { return daemon_.report(report); },
                [this](auto act) { daemon_.when_free(std::move(act)); }}),
      hosts_(map_, {scene_, network_, training_, truth_}, setup.seed),
      history_(life_, setup.seed),
      engine_({scene_, life_, hosts_, network_, truth_}, setup.seed),
      daemon_(
          scene_, life_,
          {setup.wrap_store ? setup.wrap_store(store_) : store_, history_,
           setup.wrap_engine ? setup.wrap_engine(engine_, hosts_) : engine_, scene_.clock,
           scene_.clock, simulated_keys(), map_, "/sim", simulated_policy()},
          setup.absence ? setup.absence : [this] { return faults_.absence(); }),
      faults_({scene_, life_, daemon_, store_, engine_, hosts_, network_, truth_}, setup.seed),
      users_(scene_, daemon_, truth_, setup.seed),
      operators_(scene_, daemon_, truth_, durable_, map_, setup.seed),
      invariants_(scene_, truth_, simulated_policy()),
      promises_(scene_, map_, simulated_policy().overhead) {
  set_log_sink([this](LogLevel, std::string_view line) { scene_.tell("log", "{}", line); });
}

World::~World() { set_log_sink({}); }

void World::begin() {
  daemon_.on_tick([this] { after_tick(); });
  daemon_.start();
}

Verdict World::run() {
  Dice dice(seed_, "world");
  begin();
  faults_.begin();
  operators_.begin();
  users_.begin(dice.from_to(kRunsLeast, kRunsMost), kTrouble);
  pass_time(kTrouble, [] { return false; });
  settle();
  return verdict();
}

void World::settle() {
  if (scene_.violation()) return;
  faults_.cease();
  operators_.cease();
  if (!pass_time(kRest, [this] { return at_rest(); }) && !scene_.violation())
    for (const RunId& run : durable_.open)
      scene_.violate(format("{} has not ended {} after the last fault; it is {}: {}", text(run),
                            text(kRest), text(durable_.runs.at(run).state),
                            durable_.runs.at(run).reason));
  truth_.judge_the_end();
}

bool World::at_rest() const {
  return daemon_.serves() && durable_.open.empty() && hosts_.nodes().empty();
}

bool World::pass_time(Duration most, const std::function<bool()>& done) {
  const Duration until = scene_.timeline.now() + most;
  while (!done()) {
    if (!scene_.timeline.step(until)) return false;
    after_event();
    if (scene_.violation()) return false;
  }
  return true;
}

// Nothing keeps the daemon from what it promises, or did so since its last tick.
bool World::is_well() {
  const bool died = std::exchange(deaths_, life_.deaths()) != life_.deaths();
  const bool refused = std::exchange(refusals_, store_.refusals()) != store_.refusals();
  return !died && !refused && !store_.full() && engine_.is_well() && network_.is_well() &&
         hosts_.kills_at_once();
}

// Time passing starts nobody: that too is looked at now and then.
void World::after_tick() {
  const bool committed = std::exchange(judged_, store_.commits()) != store_.commits();
  if (!store_.full() && (committed || ++ticks_ % kJudgeAnyway == 0)) {
    invariants_.check_queue(*daemon_.state());
    promises_.check(*daemon_.state(), *daemon_.queue());
  }
  const bool well = is_well();
  promises_.check_latest(*daemon_.state(), *daemon_.queue(), well);
  deadlines_.check(well);
}

// The controller's rows change with a commit only; now and then it is seen that this is so.
void World::after_event() {
  const State* state = daemon_.state();
  if (std::exchange(replaced_, store_.replaced()) != store_.replaced())
    invariants_.store_replaced();
  if (!state) return;
  const bool committed = std::exchange(checked_, store_.commits()) != store_.commits();
  if (committed || scene_.timeline.steps() % kLookAnyway == 0) invariants_.check(*state, durable_);
}

Verdict World::verdict() const {
  Verdict verdict;
  verdict.violation = scene_.violation();
  verdict.events = scene_.timeline.steps();
  verdict.commits = store_.commits();
  verdict.deaths = life_.deaths();
  verdict.runs = static_cast<int>(durable_.runs.size());
  verdict.attempts = static_cast<int>(durable_.attempts.size());
  for (const auto& [id, run] : durable_.runs) verdict.succeeded += run.state == RunState::succeeded;
  return verdict;
}

}  // namespace lockstep::sim
