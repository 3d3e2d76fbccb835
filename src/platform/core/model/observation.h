// Observation: what an engine knows of one node. It is the engine's part of an event.
#pragma once

#include <string>

#include "text/record.h"

namespace lockstep::model {

// pending: a system outside of Lockstep has it in its own queue. starting: its agent is being
// started. present: it has at least one process. gone: it has no process, and never will.
enum class NodePhase { pending, starting, present, gone };
constexpr auto enum_names(NodePhase) {
  return names<NodePhase>({{NodePhase::pending, "pending"},
                           {NodePhase::starting, "starting"},
                           {NodePhase::present, "present"},
                           {NodePhase::gone, "gone"}});
}

// Whose fault the end of a node is, as far as its engine knows. preemption: the engine took the
// devices back, and no part failed. refusal: a rule of the host or the engine does not allow the
// run, so another attempt would end in the same way.
enum class EndBlame { unknown, host, engine, preemption, refusal };
constexpr auto enum_names(EndBlame) {
  return names<EndBlame>({{EndBlame::unknown, "unknown"},
                          {EndBlame::host, "host"},
                          {EndBlame::engine, "engine"},
                          {EndBlame::preemption, "preemption"},
                          {EndBlame::refusal, "refusal"}});
}

struct Observation {
  NodePhase phase = NodePhase::present;
  // For a present node. False: its agent was started and is certainly not among its processes. May
  // be false for an agent that has just been started.
  bool has_agent = true;
  std::string reason{};                // for people: why it is pending or gone; empty: unknown
  EndBlame blame = EndBlame::unknown;  // if it is gone
  std::string handle{};                // the engine's own name of it, such as a job's id
  std::string incarnation{};           // of its agent, if the engine knows it
  // The rest is no part of the report of a host service.
  std::string host{};          // if the engine has chosen it; empty: unknown
  bool out_of_memory = false;  // it is gone because it used more than it was given

  bool operator==(const Observation&) const = default;

  static constexpr auto fields() {
    return record<Observation>(
        required(field("phase", &Observation::phase, "how far the node is")),
        field("has_agent", &Observation::has_agent, "its agent may be among its processes"),
        field("reason", &Observation::reason, "why it is pending or gone; empty: unknown"),
        field("blame", &Observation::blame, "whose fault its end is"),
        field("handle", &Observation::handle, "the engine's own name of it"),
        field("incarnation", &Observation::incarnation, "of its agent, if known"));
  }
};

// Empty: it is not pending.
inline std::string pending_reason_of(const Observation& seen) {
  if (seen.phase != NodePhase::pending) return "";
  return seen.reason.empty() ? "no reason is known" : seen.reason;
}

}  // namespace lockstep::model
