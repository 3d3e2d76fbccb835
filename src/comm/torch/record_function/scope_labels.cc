#include "comm/torch/record_function/scope_labels.h"

#include <memory>
#include <thread>

#include <ATen/record_function.h>

#include "comm/flight/label.h"

namespace lockstep::comm {
namespace {

struct Scope : at::ObserverContext {
  explicit Scope(std::string_view name)
      : outer(FlightLabel::exchange(FlightLabel::encode(label_of_scope(name)))) {}
  const FlightLabel::Words outer;
  const std::thread::id thread = std::this_thread::get_id();
};

// An asynchronous event is itself a call, of this backend or another. The steps of torch.profiler
// name no part of a program.
bool is_no_label(const at::RecordFunction& function) {
  return function.isAsync() || std::string_view(function.name()).starts_with("ProfilerStep#");
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (is_no_label(function)) return nullptr;
  return std::make_unique<Scope>(function.name());
}

// A scope may end on another thread, whose label this code has not set.
void end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto& scope = static_cast<const Scope&>(*context);
  if (scope.thread == std::this_thread::get_id()) FlightLabel::exchange(scope.outer);
}

}  // namespace

std::string_view label_of_scope(std::string_view scope) {
  if (!scope.starts_with("FSDP::") || !scope.ends_with(')')) return scope;
  const auto open = scope.find('(');
  return open == std::string_view::npos ? scope : scope.substr(open + 1, scope.size() - open - 2);
}

void label_by_scopes() {
  [[maybe_unused]] static const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::USER_SCOPE}));
}

}  // namespace lockstep::comm
