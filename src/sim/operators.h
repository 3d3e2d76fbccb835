// Operators: who hold runs and bring them forward, close hosts and limit projects and users, and
// take all that back again. What they do is chosen by the seed, as faults are.
//
// To add something: a member function that does it and plans that it is taken back, and a line in
// kinds().
#pragma once

#include <functional>
#include <span>
#include <string>

#include "sim/daemon.h"
#include "sim/dice.h"
#include "sim/truth.h"

namespace lockstep::sim {

class Operators {
 public:
  Operators(Scene& scene, Daemon& daemon, Truth& truth, const State& durable, const Map& map,
            std::uint64_t seed)
      : scene_(scene),
        daemon_(daemon),
        truth_(truth),
        durable_(durable),
        map_(map),
        dice_(seed, "operators"),
        orphan_dice_(seed, "orphans") {}

  void begin();
  // They want nothing more, and take back what they did, as soon as the daemon obeys.
  void cease();

 private:
  struct Kind {
    const char* name;
    Duration mean;  // between two of them
    void (Operators::*act)();
  };
  static std::span<const Kind> kinds();
  void plan(const Kind& kind);

  void hold_a_run();
  void set_a_priority();
  void close_a_host();
  void limit_a_project();
  void limit_a_user();
  void weigh_a_project();

  void see_to_orphans_later();
  void see_to_an_orphan();
  void stop_orphans(const RunId& run);
  void adopt_orphans(const RunId& run);

  bool ask(const Event& event, const std::string& what);
  void limit(const LimitId& id);
  // Takes something back, again and again until the daemon obeys.
  void undo_after(Duration duration, const Event& event, const std::string& what);
  void take_all_back();

  Scene& scene_;
  Daemon& daemon_;
  Truth& truth_;
  const State& durable_;
  const Map& map_;
  Dice dice_;
  Dice orphan_dice_;
  bool ceased_ = false;
};

}  // namespace lockstep::sim
