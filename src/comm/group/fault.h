// GroupFault: the reason that ended a group without a request of a rank's program: a lost
// connection, or a wait that reached its time-out. It has the global rank at fault.
//
// This layer does not know the agent. A program with an agent sets a listener, which informs it
// (train/faults.h).
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace lockstep::comm {

struct GroupFault {
  enum class Kind { connection_lost, timed_out };
  Kind kind = Kind::connection_lost;
  int rank = -1;  // -1: unknown
  std::string text;
};

using FaultListener = std::function<void(const GroupFault&)>;

// One for the process; null: none. It is called on any thread, before the calls of the group end
// with the error, and must not wait.
void set_fault_listener(FaultListener listener);
void notify_fault_listener(const GroupFault& fault);

// The first fault that the listener received since the last clear_faults(). A rank that therefore
// leaves its other groups reports the fault there, so that their ranks name the same rank.
std::optional<GroupFault> first_fault();
void clear_faults();

}  // namespace lockstep::comm
