#include "comm/group/fault.h"

#include <utility>

#include "base/mutex.h"

namespace lockstep::comm {
namespace {

struct FaultListenerState {
  Mutex mutex;  // guards what follows
  FaultListener listener LS_GUARDED_BY(mutex);
  std::optional<GroupFault> first LS_GUARDED_BY(mutex);
};

FaultListenerState& fault_listener_state() {
  static auto* const one = new FaultListenerState;  // never destroyed: groups may outlive statics
  return *one;
}

}  // namespace

void set_fault_listener(FaultListener listener) {
  Lock lock(fault_listener_state().mutex);
  fault_listener_state().listener = std::move(listener);
}

void notify_fault_listener(const GroupFault& fault) {
  FaultListener listener;
  {
    Lock lock(fault_listener_state().mutex);
    listener = fault_listener_state().listener;
    if (listener && !fault_listener_state().first) fault_listener_state().first = fault;
  }
  if (listener) listener(fault);
}

std::optional<GroupFault> first_fault() {
  Lock lock(fault_listener_state().mutex);
  return fault_listener_state().first;
}

void clear_faults() {
  Lock lock(fault_listener_state().mutex);
  fault_listener_state().first.reset();
}

}  // namespace lockstep::comm
