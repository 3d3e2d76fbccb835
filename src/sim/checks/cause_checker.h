// CauseChecker records the faults of each attempt and checks the cause of its end, whatever
// happened to the daemon meanwhile.
//
// An attempt without a fault ends well, or at its time-out, or because its user stops it. An
// attempt with one fault ends because of it, and its reason names the location. An attempt with
// more faults, or with lost reports, may end for any cause.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "platform/core/model/state.h"
#include "sim/sim_context.h"

namespace lockstep::sim {

// A fault that ends an attempt if it is the only one.
struct InjectedFault {
  std::set<model::Cause> causes{};  // any of these causes is correct
  std::string reason_part{};        // is named in the reason
  Duration detection_time_max{
      Duration::max()};    // if the attempt lives longer, its time-out is no excuse
  Duration injected_at{};  // on the timeline; set by record_fault()
};

class CauseChecker {
 public:
  CauseChecker(SimContext& context, const model::State& durable)
      : context_(context), durable_(durable) {}

  // Call when the first node is launched; an adopted attempt was launched long before its row.
  void record_launch(const model::AttemptName& attempt) {
    launched_.try_emplace(attempt, context_.timeline.now());
  }
  void record_fault(const model::AttemptName& attempt, InjectedFault fault);
  // The fault is over and did no harm.
  void remove_fault(const model::AttemptName& attempt) { faults_.erase(attempt); }
  // True if the daemon has already detected the fault, so that the attempt ends because of it.
  // words: a part of the reason that shows that the daemon is certain.
  bool is_detected(const model::AttemptName& attempt, std::string_view words = {}) const;
  // The attempt may end for any cause.
  void allow_any_cause(const model::AttemptName& attempt) { any_cause_allowed_.insert(attempt); }
  void record_rank_end(const model::AttemptName& attempt);

  // Call when the end of the attempt is about to be stored.
  void check(const model::Attempt& ended) const;

 private:
  const model::Attempt* find_attempt(const model::AttemptName& id) const;
  bool is_excused(const model::Attempt& attempt, const InjectedFault* fault) const;
  bool time_is_up(const model::Attempt& attempt, Duration shorter) const;
  static bool matches(const model::Attempt& attempt, const InjectedFault& fault);

  SimContext& context_;
  const model::State& durable_;
  std::map<model::AttemptName, InjectedFault> faults_;
  std::set<model::AttemptName> any_cause_allowed_;
  std::map<model::AttemptName, Duration> launched_;        // on the timeline
  std::map<model::AttemptName, Duration> first_rank_end_;  // of a rank, on the timeline
};

}  // namespace lockstep::sim
