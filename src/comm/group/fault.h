// GroupFault: what ended a group though no rank's program asked for it: a connection that was lost,
// or a wait that reached its bound. It names the rank that is at fault, by its number in the run.
//
// This layer knows no agent. A program that has one listens, and tells it (train/faults.h).
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace lockstep {

struct GroupFault {
  enum class Kind { connection_lost, timed_out };
  Kind kind = Kind::connection_lost;
  int rank = -1;  // -1: unknown
  std::string text;
};

using FaultListener = std::function<void(const GroupFault&)>;

// One for the process; null: none. It is called on any thread, before the calls of the group end
// with the error, and must not wait.
void listen_to_faults(FaultListener listener);
void tell_fault(const GroupFault& fault);

// The first that a listener was told since the last forget_faults(). A rank that leaves its other
// groups because of it says so there, so that their ranks name the same rank.
std::optional<GroupFault> current_fault();
void forget_faults();

}  // namespace lockstep
