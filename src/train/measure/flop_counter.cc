#include "train/measure/flop_counter.h"

#include <atomic>
#include <memory>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include "train/measure/flop_formulas.h"

namespace lockstep::train {
namespace {

std::atomic<bool> is_counting = false;
std::atomic<double> flops_counted = 0;
thread_local std::optional<at::CallbackHandle> own_count;

// The operator or the function of a backward in which a thread is.
struct Surroundings {
  bool is_counted = false;        // by the operator around
  bool records_no_graph = false;  // a backward without create_graph
};
thread_local Surroundings surroundings;

struct SurroundingsBefore : at::ObserverContext {
  Surroundings before;
};

std::unique_ptr<at::ObserverContext> enter_function(const at::RecordFunction& function) {
  Surroundings inside = surroundings;
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    inside.records_no_graph = !at::GradMode::is_enabled();
  } else {
    if (surroundings.is_counted) return nullptr;
    const auto flops = flops_of(function.name(), function.inputs());
    if (!flops) return nullptr;
    inside.is_counted = true;
    const bool is_repeated = surroundings.records_no_graph && at::GradMode::is_enabled();
    if (!is_repeated) flops_counted.fetch_add(*flops, std::memory_order_relaxed);
  }
  auto context = std::make_unique<SurroundingsBefore>();
  context->before = std::exchange(surroundings, inside);
  return context;
}

void leave_function(const at::RecordFunction&, at::ObserverContext* context) {
  if (context != nullptr) surroundings = static_cast<SurroundingsBefore*>(context)->before;
}

}  // namespace

bool begin_flop_count() {
  if (is_counting.exchange(true)) return false;
  flops_counted = 0;
  own_count = at::addThreadLocalCallback(
      at::RecordFunctionCallback(enter_function, leave_function)
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  return true;
}

std::optional<double> end_flop_count() {
  if (!own_count) return std::nullopt;
  at::removeCallback(*std::exchange(own_count, std::nullopt));
  const double counted = flops_counted;
  is_counting = false;
  return counted;
}

}  // namespace lockstep::train
