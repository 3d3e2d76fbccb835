#include "platform/server/calls/budget_calls.h"

#include <cmath>
#include <ranges>
#include <string_view>

#include "platform/core/budget/warning.h"
#include "platform/core/step/budget/personal.h"

namespace lockstep::server {
namespace {

using budget::DeviceTime;
using std::chrono::hours;

constexpr Duration kForecastBase = hours(7 * 24);

Result<DeviceTime> amount_of(double minutes) {
  const double most = api::device_minutes(budget::kAmountMax);
  if (minutes > 0 && minutes <= most)
    return DeviceTime(static_cast<std::int64_t>(std::llround(minutes * 60e6)));
  return Error{Code::invalid, format("minutes: must be above zero, and at most {}", most)};
}

std::string warning_of(const budget::Budget& budget, int used) {
  if (!budget.limited || used < budget::kWarningPercent) return "";
  return format("{}{} % of the budget of {} is used",
                used >= budget::kUrgentPercent ? "urgent: " : "", used, budget.id);
}

// When nothing is available at so much a day, if that is before the last grant ends.
std::optional<Time> runs_out(const budget::Budget& budget, DeviceTime a_day, Time now) {
  if (!budget.limited || budget.grants.empty() || a_day <= DeviceTime(0)) return std::nullopt;
  const double days = static_cast<double>((budget.available + budget.held).count()) /
                      static_cast<double>(a_day.count());
  const double until_end =
      in_seconds(budget.grants.back().ends - now) / in_seconds(Duration(hours(24)));
  if (days >= until_end) return std::nullopt;
  return now + from_seconds(days * in_seconds(Duration(hours(24))));
}

Result<std::vector<store::UsageColumn>> columns_of(const std::string& by) {
  std::vector<store::UsageColumn> columns;
  for (const auto part : std::views::split(by, ',')) {
    auto column = parse_name<store::UsageColumn>(std::string_view(part.begin(), part.end()));
    if (!column) return std::move(column).error().with_context("by");
    columns.push_back(*column);
  }
  return columns;
}

api::PostingView posting_view(const store::StoredPosting& stored) {
  const budget::Posting& posting = stored.posting;
  return {.id = stored.id,
          .time = posting.signature.time,
          .kind = posting.kind,
          .from = posting.from,
          .from_project = posting.from_project,
          .to = posting.to,
          .to_project = posting.to_project,
          .minutes = api::device_minutes(posting.amount),
          .by = posting.signature.by,
          .reason = posting.signature.reason,
          .attempt = posting.signature.attempt};
}

}  // namespace

bool BudgetCalls::may_read(const Principal& caller, const std::string& project) const {
  return identity::can_read(context_.accounts().directory(), caller.bearer, project);
}

Result<api::BudgetView> BudgetCalls::view_of(const budget::Budget& budget) const {
  const Time now = context_.now();
  const auto sums = TRY(
      context_.setup().budgets.usage({.projects = {{budget.id}}, .since = now - kForecastBase}));
  const DeviceTime recent = sums.empty() ? DeviceTime(0) : sums.front().charged;
  const DeviceTime a_day = recent / (kForecastBase / Duration(hours(24)));
  api::BudgetView view{.project = budget.id,
                       .limited = budget.limited,
                       .available_minutes = api::device_minutes(budget.available),
                       .held_minutes = api::device_minutes(budget.held),
                       .spent_minutes = api::device_minutes(budget.spent),
                       .used_percent = budget::used_percent(budget),
                       .grants = {},
                       .minutes_per_day = api::device_minutes(a_day),
                       .runs_out = runs_out(budget, a_day, now),
                       .warning = warning_of(budget, budget::used_percent(budget))};
  for (const budget::Grant& grant : budget.grants)
    view.grants.push_back({.ends = grant.ends,
                           .granted_minutes = api::device_minutes(grant.granted),
                           .left_minutes = api::device_minutes(grant.left)});
  return view;
}

Result<api::BudgetList> BudgetCalls::list(const RouteCall<api::kBudgets>& call) {
  api::BudgetList list;
  for (const auto& [project, budget] : context_.state().budgets)
    if (may_read(call.caller, project)) list.budgets.push_back(TRY(view_of(budget)));
  for (const auto& [kind, rate] : context_.state().rates)
    list.rates.push_back({kind, rate.weight_percent / 100.0});
  if (context_.state().settings.personal_refill > 0) list.buckets = buckets_for(call.caller);
  return list;
}

std::vector<api::BucketView> BudgetCalls::buckets_for(const Principal& caller) const {
  const model::State& state = context_.state();
  const budget::Refill refill = step::refill_of(state.settings);
  std::vector<api::BucketView> views;
  for (const auto& [name, project] : context_.accounts().directory().projects) {
    const auto budget = state.budgets.find(name);
    const bool has_budget = budget != state.budgets.end() && budget->second.limited;
    if (project.owner.empty() || has_budget || !may_read(caller, name)) continue;
    const auto used = state.buckets.find(name);
    const budget::Bucket bucket = used != state.buckets.end()
                                      ? used->second
                                      : budget::full_bucket(name, refill, context_.now());
    views.push_back(
        {.project = name,
         .available_minutes = api::device_minutes(budget::level_at(bucket, refill, context_.now())),
         .held_minutes = api::device_minutes(bucket.held),
         .spent_minutes = api::device_minutes(bucket.spent),
         .cap_minutes = api::device_minutes(refill.cap),
         .minutes_per_hour = api::device_minutes(refill.an_hour)});
  }
  return views;
}

template <const auto& kRoute>
Result<api::BudgetView> BudgetCalls::change(const RouteCall<kRoute>& call,
                                            const model::Event& event, const std::string& what) {
  const std::string& project = call.path_parameters.front();
  const auto& budgets = context_.state().budgets;
  const auto found = budgets.find(project);
  CallContext::Details details{.target = project, .project = project, .after = what};
  if (found != budgets.end()) details.before = budget::in_device_minutes(found->second.available);
  TRY(context_.controller().apply_operator_event(event, context_.record(call, details)));
  return view_of(budgets.at(project));
}

Result<api::BudgetView> BudgetCalls::grant(const RouteCall<api::kGrantBudget>& call) {
  const std::string& project = call.path_parameters.front();
  TRY(identity::require_project(context_.accounts().directory(), project));
  const DeviceTime amount = TRY(amount_of(call.request.minutes));
  return change(call,
                model::GrantBudget{.project = project,
                                   .amount = amount,
                                   .ends = call.request.ends,
                                   .by = call.caller.name,
                                   .reason = call.request.reason},
                "granted " + budget::in_device_minutes(amount));
}

Result<api::BudgetView> BudgetCalls::withdraw(const RouteCall<api::kWithdrawBudget>& call) {
  const DeviceTime amount = TRY(amount_of(call.request.minutes));
  return change(call,
                model::WithdrawBudget{.project = call.path_parameters.front(),
                                      .amount = amount,
                                      .by = call.caller.name,
                                      .reason = call.request.reason},
                "withdrew " + budget::in_device_minutes(amount));
}

Result<api::BudgetView> BudgetCalls::move(const RouteCall<api::kMoveBudget>& call) {
  const std::string& to = call.request.to;
  if (!may_read(call.caller, to)) return identity::no_such_project(to);
  TRY(identity::require_project(context_.accounts().directory(), to));
  const DeviceTime amount = TRY(amount_of(call.request.minutes));
  return change(call,
                model::MoveBudget{.project = call.path_parameters.front(),
                                  .to = to,
                                  .amount = amount,
                                  .by = call.caller.name,
                                  .reason = call.request.reason},
                format("moved {} to {}", budget::in_device_minutes(amount), to));
}

Result<api::BudgetView> BudgetCalls::lift(const RouteCall<api::kLiftBudget>& call) {
  return change(call,
                model::LiftBudget{.project = call.path_parameters.front(), .by = call.caller.name},
                "lifted");
}

// The budget of a project that was removed stays readable.
Result<api::PostingList> BudgetCalls::postings(const RouteCall<api::kPostings>& call) {
  const std::string& project = call.path_parameters.front();
  if (!context_.state().budgets.contains(project))
    TRY(identity::require_project(context_.accounts().directory(), project));
  auto found = TRY(context_.setup().budgets.list_postings(
      {.project = project, .before = call.query.before, .limit = call.query.limit + 1}));
  api::PostingList list{.postings = {},
                        .more = found.size() > static_cast<std::size_t>(call.query.limit)};
  if (list.more) found.pop_back();
  for (const store::StoredPosting& posting : found) {
    list.postings.push_back(posting_view(posting));
    // The other project of a move may be one that the caller may not read.
    for (std::string* other :
         {&list.postings.back().from_project, &list.postings.back().to_project})
      if (!other->empty() && !may_read(call.caller, *other)) *other = "another project";
  }
  return list;
}

Result<api::BudgetList> BudgetCalls::set_rate(const RouteCall<api::kSetRate>& call) {
  const double percent = call.request.weight * 100;
  if (!(percent >= 1 && percent <= budget::kWeightMax))
    return Error{Code::invalid,
                 format("weight: must be from 0.01 to {}", budget::kWeightMax / 100)};
  TRY(context_.controller().apply_operator_event(
      model::SetRate{.kind = call.request.kind,
                     .weight_percent = static_cast<int>(std::lround(percent))},
      context_.record(
          call, {.target = call.request.kind, .after = format("weight {}", call.request.weight)})));
  RouteCall<api::kBudgets> all{.caller = call.caller, .path_parameters = {}};
  return list(all);
}

Result<api::UsageList> BudgetCalls::usage(const RouteCall<api::kUsage>& call) {
  const api::UsageQuery& query = call.query;
  store::UsageFilter filter{
      .projects =
          Reader(context_.accounts().directory(), call.caller.bearer, context_.state()).projects(),
      .user = query.user,
      .since = query.since,
      .until = query.until,
      .by = TRY(columns_of(query.by))};
  if (query.project) {
    if (!may_read(call.caller, *query.project)) return identity::no_such_project(*query.project);
    filter.projects = {*query.project};
  }
  api::UsageList list;
  for (store::UsageSum& sum : TRY(context_.setup().budgets.usage(filter)))
    list.rows.push_back({.project = std::move(sum.project),
                         .user = std::move(sum.user),
                         .month = std::move(sum.month),
                         .kind = std::move(sum.kind),
                         .attempts = sum.attempts,
                         .used_minutes = api::device_minutes(sum.used),
                         .charged_minutes = api::device_minutes(sum.charged)});
  return list;
}

}  // namespace lockstep::server
