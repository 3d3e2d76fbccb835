// World: the real controller over simulated hosts, with users, operators and faults from one seed.
//
//   const Verdict verdict = World({.seed = 1234}).run();
//
// It asks, obeys and breaks things, and takes no decision that belongs to the platform. The same
// setup gives the same world, to the last event: a failing seed is replayed with a trace by
// `lockstep-sim --seed 1234`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "sim/deadlines.h"
#include "sim/faults.h"
#include "sim/invariants.h"
#include "sim/operators.h"
#include "sim/promises.h"
#include "sim/sim_history.h"
#include "sim/users.h"

namespace lockstep::sim {

struct WorldSetup {
  std::uint64_t seed = 1;
  TraceSink trace{};
  std::optional<Map> map{};             // absent: one chosen by the seed
  std::function<Duration()> absence{};  // of a daemon that died; empty: chosen by the seed
  // What tests put between the controller and the simulated store or engine, to see that it is
  // found out. What is returned must outlive the world.
  std::function<Store&(Store&)> wrap_store{};
  std::function<Engine&(Engine&, Hosts&)> wrap_engine{};
};

struct Verdict {
  std::optional<std::string> violation;  // the first, with its time
  std::int64_t events = 0;
  std::int64_t commits = 0;
  int deaths = 0;  // of the daemon
  int runs = 0;
  int attempts = 0;
  int succeeded = 0;

  bool operator==(const Verdict&) const = default;
};

class World {
 public:
  // What is logged goes to the trace for as long as the world is there; there is one at a time.
  explicit World(const WorldSetup& setup);
  ~World();
  World(const World&) = delete;  // its parts point to one another
  World& operator=(const World&) = delete;

  // Users, operators and faults for a while, then none of them until every run has ended.
  Verdict run();

  // For stories of one's own, without the seed's users and faults: begin(); then time passes until
  // `done`, a violation, or `most`, which is false; at last settle(), as run() ends.
  Scene& scene() { return scene_; }
  Life& life() { return life_; }
  Daemon& daemon() { return daemon_; }
  Truth& truth() { return truth_; }
  Hosts& hosts() { return hosts_; }
  Network& network() { return network_; }
  SimEngine& engine() { return engine_; }
  const State& durable() const { return durable_; }
  void begin();
  bool pass_time(Duration most, const std::function<bool()>& done);
  void settle();
  Verdict verdict() const;

 private:
  bool at_rest() const;
  bool is_well();
  void after_tick();
  void after_event();

  const std::uint64_t seed_;
  Scene scene_;
  State durable_;
  Map map_;
  Life life_{scene_};
  Truth truth_;
  Training training_;
  Network network_;
  Hosts hosts_;
  SimStore store_{scene_, life_, truth_, durable_};
  SimHistory history_;
  SimEngine engine_;
  Daemon daemon_;
  Faults faults_;
  Users users_;
  Operators operators_;
  Invariants invariants_;
  Deadlines deadlines_{scene_, truth_, durable_};
  Promises promises_;
  std::int64_t checked_ = -1;  // the commits that were checked
  int replaced_ = 0;           // of the store, at the last event
  std::int64_t judged_ = -1;   // likewise, after a tick
  int ticks_ = 0;
  int deaths_ = 0;             // of the daemon, at the last tick
  std::int64_t refusals_ = 0;  // of the store, likewise
};

}  // namespace lockstep::sim
