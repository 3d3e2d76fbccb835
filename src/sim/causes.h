// Causes: what befell each attempt, and of what it must therefore have ended, whatever befell the
// daemon meanwhile.
//
// An attempt that met nothing ends well, or because its time is up, or because its user stops it.
// One that met a single blow ends of that, and its reason names the place. Of one that met more, or
// whose words were lost, nothing is demanded.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "platform/core/model/state.h"
#include "sim/scene.h"

namespace lockstep::sim {

// What alone ends an attempt.
struct Blow {
  std::set<Cause> causes{};         // any of them may rightly be found
  std::string who{};                // is named in the reason
  Duration found{Duration::max()};  // if it goes on for longer, its time-out is no excuse
  Duration at{};                    // on the timeline; set when it befalls
};

class Causes {
 public:
  Causes(Scene& scene, const State& durable) : scene_(scene), durable_(durable) {}

  // Its first node is; one that is adopted was made long before its row.
  void launching(const AttemptName& attempt) {
    launched_.try_emplace(attempt, scene_.timeline.now());
  }
  void befalls(const AttemptName& attempt, Blow blow);
  // It has passed, and did no harm.
  void spare(const AttemptName& attempt) { blows_.erase(attempt); }
  // The daemon has found it already: whatever becomes of it now, the attempt ends of it. words:
  // that its reason has if it is no guess.
  bool is_found(const AttemptName& attempt, std::string_view words = {}) const;
  // Anything may come of it.
  void blur(const AttemptName& attempt) { blurred_.insert(attempt); }
  void rank_ended(const AttemptName& attempt);

  // It is about to be stored that this attempt has ended.
  void check(const Attempt& ended) const;

 private:
  const Attempt* known(const AttemptName& id) const;
  bool excuses(const Attempt& attempt, const Blow* blow) const;
  bool time_is_up(const Attempt& attempt) const;
  static bool is(const Attempt& attempt, const Blow& blow);

  Scene& scene_;
  const State& durable_;
  std::map<AttemptName, Blow> blows_;
  std::set<AttemptName> blurred_;
  std::map<AttemptName, Duration> launched_;   // on the timeline
  std::map<AttemptName, Duration> first_end_;  // of a rank, on the timeline
};

}  // namespace lockstep::sim
