// CallEvent: a call of torch.distributed in torch's profilers, such as "lockstep:all_reduce", with
// the shapes of its inputs. As with Gloo and NCCL it is an asynchronous event of the calling
// thread, which may end on another one.
//
// A profiler's state belongs to a thread. The end of an event finds the state by that thread's
// ThreadLocalDebugInfo, which is set for that moment. If the profiler has stopped in between, its
// memory of the event is gone: then the event stays without an end. So it holds a weak reference.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "base/mutex.h"

namespace lockstep::comm {

class CallEvent {
 public:
  // Null if no profiler records this thread, which costs a look at a thread-local flag. Shared by
  // the waiter and the thread that completes the call.
  static std::shared_ptr<CallEvent> begin(std::string_view operation, at::TensorList inputs);
  CallEvent(const std::string& name, at::TensorList inputs);  // for begin()
  CallEvent(const CallEvent&) = delete;
  CallEvent& operator=(const CallEvent&) = delete;
  ~CallEvent() { end(); }

  // The first call counts. After each, the profiler may stop.
  void end();

 private:
  const std::weak_ptr<c10::ThreadLocalDebugInfo> profiler_;
  Mutex mutex_;  // guards what follows
  at::RecordFunction function_ LS_GUARDED_BY(mutex_){at::RecordScope::USER_SCOPE};
  bool ended_ LS_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::comm
