#include "comm/group/fault.h"

#include <utility>

#include "base/mutex.h"

namespace lockstep {
namespace {

struct Listening {
  Mutex mutex;  // guards what follows
  FaultListener listener LS_GUARDED_BY(mutex);
  std::optional<GroupFault> first LS_GUARDED_BY(mutex);
};

Listening& listening() {
  static auto* const one = new Listening;  // never destroyed: groups may outlive statics
  return *one;
}

}  // namespace

void listen_to_faults(FaultListener listener) {
  Lock lock(listening().mutex);
  listening().listener = std::move(listener);
}

void tell_fault(const GroupFault& fault) {
  FaultListener listener;
  {
    Lock lock(listening().mutex);
    listener = listening().listener;
    if (listener && !listening().first) listening().first = fault;
  }
  if (listener) listener(fault);
}

std::optional<GroupFault> current_fault() {
  Lock lock(listening().mutex);
  return listening().first;
}

void forget_faults() {
  Lock lock(listening().mutex);
  listening().first.reset();
}

}  // namespace lockstep
