#include "train/measure/data_time.h"

#include <memory>
#include <string_view>
#include <utility>

#include <ATen/record_function.h>

namespace lockstep::train {
namespace {

using std::chrono::steady_clock;

// Torch's name of the call has the class of the iterator behind it.
constexpr std::string_view kMark = "enumerate(DataLoader)#";

struct DataTime {
  bool is_observed = false;
  bool is_known = false;
  bool is_waiting = false;  // a data set may have a DataLoader of its own
  std::chrono::nanoseconds waited{};
};
thread_local DataTime data_time;

struct DataWait : at::ObserverContext {
  const steady_clock::time_point begun = steady_clock::now();
};

std::unique_ptr<at::ObserverContext> begin_data_wait(const at::RecordFunction& scope) {
  if (data_time.is_waiting || !std::string_view(scope.name()).starts_with(kMark)) return nullptr;
  data_time.is_waiting = true;
  return std::make_unique<DataWait>();
}

void end_data_wait(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr) return;
  data_time.is_waiting = false;
  data_time.is_known = true;
  data_time.waited += steady_clock::now() - static_cast<DataWait*>(context)->begun;
}

}  // namespace

std::optional<std::chrono::nanoseconds> take_data_time() {
  if (!std::exchange(data_time.is_observed, true))
    at::addThreadLocalCallback(at::RecordFunctionCallback(begin_data_wait, end_data_wait)
                                   .scopes({at::RecordScope::USER_SCOPE}));
  const auto waited = std::exchange(data_time.waited, {});
  return data_time.is_known ? std::optional(waited) : std::nullopt;
}

}  // namespace lockstep::train
