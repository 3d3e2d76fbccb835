#include "comm/torch/record_function/call_event.h"

#include <vector>

#include <ATen/core/ivalue.h>

namespace lockstep::comm {

// Profilers observe all scopes. Our own labels observe USER_SCOPE always (scope_labels.h), so
// another scope tells whether a profiler runs.
std::shared_ptr<CallEvent> CallEvent::begin(std::string_view operation, at::TensorList inputs) {
  if (!at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION)) return nullptr;
  return std::make_shared<CallEvent>("lockstep:" + std::string(operation), inputs);
}

CallEvent::CallEvent(const std::string& name, at::TensorList inputs)
    : profiler_(c10::ThreadLocalDebugInfo::current()) {
  const std::vector<c10::IValue> values(inputs.begin(), inputs.end());
  Lock lock(mutex_);
  function_._setAsync();
  function_.before(name, c10::ArrayRef<const c10::IValue>(values.data(), values.size()));
}

void CallEvent::end() {
  Lock lock(mutex_);
  if (ended_) return;
  ended_ = true;
  auto own = c10::ThreadLocalDebugInfo::current();
  c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(profiler_.lock());
  function_.end();
  c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(std::move(own));
}

}  // namespace lockstep::comm
