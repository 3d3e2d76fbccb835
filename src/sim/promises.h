// Promises: what runs that wait may count on, looked at after the daemon's ticks: no run waits
// longer than it has to, and what it is told of its place and its start is true.
//
// A run starts no later than it was ever told, unless what the bound counts on is broken: the
// daemon is away or cannot act, a host, a limit, a priority or a hold is changed, a run outlives
// its time limit, or a run comes that may pass it: one that was submitted, resumed or interrupted.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "platform/core/model/state.h"
#include "platform/core/step/queue.h"
#include "sim/scene.h"
#include "sim/turns.h"

namespace lockstep::sim {

class Promises {
 public:
  // overhead: that of the policy.
  Promises(Scene& scene, const Map& map, Duration overhead)
      : scene_(scene), turns_(map), overhead_(overhead) {}

  // After a tick that could be stored.
  void check(const State& state, const Queue& queue);
  // After each tick. `well`: nothing keeps the daemon from what it does.
  void check_latest(const State& state, const Queue& queue, bool well);

 private:
  void check_wishes(const Rows& rows, const Run& run);
  void check_order(const State& state, const std::vector<WaitingRun>& told,
                   const Standing& standing);
  void check_overtaking(const State& state, const std::vector<RunId>& order);
  void check_start(const std::vector<WaitingRun>& told, const Standing& standing);

  // What is looked at of a run between two ticks.
  struct Seen {
    bool waits = false;  // and is not held
    std::int64_t epoch = 0;
    int priority = 0;
    bool operator==(const Seen&) const = default;
  };
  // On the timeline.
  struct Promise {
    Duration latest{};
    Duration key{};      // the greatest of those that stand before it, and its own
    Duration longest{};  // limit of the others
  };
  Duration on_timeline(Time moment) const { return moment - scene_.clock.at(Duration(0)); }
  Duration key_of(const Run& run) const;
  bool is_broken(const State& state, bool well);
  bool outlives_end(const State& state);
  bool is_known(const Run& run) const;
  void note_comers(const State& state);
  void keep(const State& state);
  void promise(const State& state, const Queue& queue);

  Scene& scene_;
  const Turns turns_;
  const Duration overhead_;
  Duration checked_{};  // on the timeline
  std::map<RunId, Seen> seen_;
  std::map<std::string, HostState> hosts_;
  std::map<LimitId, LimitRow> limits_;
  std::map<AttemptId, Duration> ends_;  // on the timeline: the earliest that promises count on
  std::map<RunId, Promise> promises_;
};

}  // namespace lockstep::sim
