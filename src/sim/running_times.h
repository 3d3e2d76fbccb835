// Running times: how long the ranks of each attempt ran, as the world saw it. It says how much of
// its time-out a run may be charged for one: never for time in which some of the ranks had not
// begun, or all had ended; always for time in which the daemon knew that all ran.
//
// Between the two lies what the daemon cannot know: when agents start their ranks and it hears of
// it later, and how long those ran on that it lost sight of.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "platform/core/model/attempt.h"
#include "platform/core/model/event.h"
#include "platform/core/model/run.h"
#include "sim/scene.h"

namespace lockstep::sim {

// Within which all ranks run since their attempt was made, as docs/design/platform.md promises.
inline constexpr Duration kStart = std::chrono::minutes(5);

class RunningTimes {
 public:
  explicit RunningTimes(const Scene& scene) : scene_(scene) {}

  void rank_began(const AttemptName& attempt);
  void rank_ended(const AttemptName& attempt);
  // These words reached the daemon.
  void said(const NodeReport& report);
  // It took in those that arrived then, and they are durable.
  void taken(const NodeReport& report, Duration arrived);

  // What was taken in is forgotten, since the store is another one or an older copy.
  void forget_words();

  struct Bounds {
    Duration least{};
    Duration most{};
  };
  // Of an attempt that has ended.
  Bounds charge_for(const Attempt& attempt, const RunSpec& spec) const;
  // How long all its ranks had run when its end began; zero if they never did. If some began later
  // than they may, those that waited for them need not have known.
  Duration time_of(const Attempt& attempt, const RunSpec& spec) const;

 private:
  // On the timeline.
  struct Observed {
    int began = 0;        // ranks
    Duration first{};     // of them began
    Duration whole{};     // the last of them did
    Duration last_end{};  // of a rank
    std::optional<Duration> first_end{};
    std::map<int, Duration> known;  // nodes, and when it was first taken in that their ranks run
    Duration last_said{};           // anything but that ranks have ended
    Duration last_taken{};          // that ranks run
  };
  // When it began to drain.
  Duration draining_of(const Attempt& attempt) const;
  Duration most_of(const Observed& seen, const Attempt& attempt, const RunSpec& spec) const;
  Duration least_of(const Observed& seen, const Attempt& attempt, const RunSpec& spec) const;

  const Scene& scene_;
  std::map<AttemptName, Observed> observed_;
};

}  // namespace lockstep::sim
