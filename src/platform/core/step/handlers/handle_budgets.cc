// Requests that change budgets.
#include "base/format.h"
#include "platform/core/step/budget/charges.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/handlers/event_handlers.h"

namespace lockstep::step {
namespace {

// One without a grant if the project has none yet.
budget::Budget budget_or_new(const Draft& draft, const std::string& project) {
  const budget::Budget* found = draft.budgets.find(project);
  return found ? *found : budget::Budget{.id = project};
}

Result<budget::Budget> require_budget(const Draft& draft, const std::string& project) {
  if (const budget::Budget* found = draft.budgets.find(project)) return *found;
  return Error{Code::not_found, format("the project '{}' has no budget; `lockstep budget show` "
                                       "lists those that have one",
                                       one_line(project))};
}

template <class Event>
budget::Signature signature_of(const Draft& draft, const Event& event) {
  return {.time = draft.now(), .by = one_line(event.by), .reason = one_line(event.reason)};
}

Result<void> check_amount(budget::DeviceTime amount) {
  if (amount > budget::DeviceTime(0) && amount <= budget::kAmountMax) return {};
  return Error{Code::invalid, format("amount: must be above zero, and at most {}",
                                     budget::in_device_minutes(budget::kAmountMax))};
}

}  // namespace

Result<void> handle_event(Draft& draft, const model::GrantBudget& event) {
  TRY(model::check_name("project", event.project));
  TRY(check_amount(event.amount));
  apply_entry(draft, TRY(budget::grant(budget_or_new(draft, event.project), event.amount,
                                       event.ends, signature_of(draft, event))));
  return {};
}

Result<void> handle_event(Draft& draft, const model::WithdrawBudget& event) {
  TRY(check_amount(event.amount));
  apply_entry(draft, TRY(budget::withdraw(TRY(require_budget(draft, event.project)), event.amount,
                                          signature_of(draft, event))));
  return {};
}

Result<void> handle_event(Draft& draft, const model::MoveBudget& event) {
  TRY(model::check_name("to", event.to));
  TRY(check_amount(event.amount));
  apply_entry(draft, TRY(budget::move(TRY(require_budget(draft, event.project)),
                                      budget_or_new(draft, event.to), event.amount,
                                      signature_of(draft, event))));
  return {};
}

// Its runs settle what they hold as they end.
Result<void> handle_event(Draft& draft, const model::LiftBudget& event) {
  budget::Budget budget = TRY(require_budget(draft, event.project));
  if (budget.available > budget::DeviceTime(0))
    apply_entry(
        draft,
        TRY(budget::withdraw(
            budget, budget.available,
            {.time = draft.now(), .by = one_line(event.by), .reason = "the budget is lifted"})));
  draft.budgets.edit(event.project).limited = false;
  return {};
}

Result<void> handle_event(Draft& draft, const model::SetRate& event) {
  TRY(model::check_name("kind", event.kind));
  if (event.weight_percent < 1 || event.weight_percent > budget::kWeightMax)
    return Error{Code::invalid,
                 format("weight: must be from 0.01 to {}", budget::kWeightMax / 100)};
  draft.rates.edit_or_add(event.kind).weight_percent = event.weight_percent;
  return {};
}

}  // namespace lockstep::step
