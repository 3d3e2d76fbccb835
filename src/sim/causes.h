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

  void befalls(const AttemptId& attempt, Blow blow);
  // It has passed, and did no harm.
  void spare(const AttemptId& attempt) { blows_.erase(attempt); }
  // The daemon has found it already: whatever becomes of it now, the attempt ends of it. words:
  // that its reason has if it is no guess.
  bool is_found(const AttemptId& attempt, std::string_view words = {}) const;
  // Anything may come of it.
  void blur(const AttemptId& attempt) { blurred_.insert(attempt); }
  void rank_ended(const AttemptId& attempt);

  // It is about to be stored that this attempt has ended.
  void check(const Attempt& ended) const;

 private:
  bool excuses(const Attempt& attempt, const Blow* blow) const;
  bool time_is_up(const Attempt& attempt) const;
  static bool is(const Attempt& attempt, const Blow& blow);

  Scene& scene_;
  const State& durable_;
  std::map<AttemptId, Blow> blows_;
  std::set<AttemptId> blurred_;
  std::map<AttemptId, Duration> first_end_;  // of a rank, on the timeline
};

}  // namespace lockstep::sim
