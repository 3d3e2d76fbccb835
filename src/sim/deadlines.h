// Deadlines: by when the daemon must have done what it promises, counted from when nothing keeps it
// from that. They are looked at after its ticks.
//
// While anything but an agent or a rank is broken (the daemon was away or busy, its disk is full,
// its engine slow or blind, words get lost, killed processes do not end), no time counts. A clock
// that jumps excuses nothing. Agents that die or stand still are what it has to cope with.
#pragma once

#include <chrono>

#include "platform/core/model/state.h"
#include "sim/scene.h"
#include "sim/truth.h"

namespace lockstep::sim {

// Between two kills of a node, as docs/design/platform.md promises.
inline constexpr Duration kKillAgain = std::chrono::seconds(5);

class Deadlines {
 public:
  Deadlines(Scene& scene, const Truth& truth, const State& durable)
      : scene_(scene), truth_(truth), durable_(durable) {}

  // After a tick. `well`: nothing is broken just now.
  void check(bool well);

 private:
  void check_attempt(const Attempt& attempt, const Run& run);
  void check_orphans() const;
  void check_start(const Attempt& attempt);
  void check_silence(const Node& node);
  void check_kill(const Attempt& attempt, const Node& node);
  void check_time_out(const Attempt& attempt, const Run& run);
  void check_end(const Attempt& attempt);
  bool is_to_be_killed(const Attempt& attempt, const Node& node) const;
  bool is_left_behind(const Node& node) const;
  // How long ago that was, or how long all has been well.
  Duration since(Time moment) const;

  Scene& scene_;
  const Truth& truth_;
  const State& durable_;
  // On the timeline:
  Duration checked_{};  // the last time
  Duration well_{};     // since then
};

}  // namespace lockstep::sim
