#include "comm/group/fault.h"

#include <utility>

#include "base/mutex.h"

namespace lockstep {
namespace {

struct Listening {
  Mutex mutex;  // guards what follows
  FaultListener listener LS_GUARDED_BY(mutex);
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
  }
  if (listener) listener(fault);
}

}  // namespace lockstep
