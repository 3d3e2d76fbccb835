#include "platform/core/step/budget/charges.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/format.h"
#include "platform/core/step/budget/personal.h"
#include "platform/core/step/budget/rates.h"
#include "platform/core/step/ending/attempt_end.h"
#include "platform/core/step/starting/preconditions.h"

namespace lockstep::step {
namespace {

using budget::DeviceTime;

// A renewal holds at least this much, so that a run does not end every few seconds.
constexpr Duration kRenewalMin = std::chrono::minutes(10);

// The project's budget; null: its runs are not limited.
const budget::Budget* budget_of(const Draft& draft, const std::string& project) {
  const budget::Budget* found = draft.budgets.find(project);
  return found && found->limited ? found : nullptr;
}

// The rest of the project's budget, or of its personal bucket, for the run's next attempt. None:
// its runs are not limited.
std::optional<DeviceTime> available_to(const Draft& draft, const model::Run& run) {
  if (const budget::Budget* budget = budget_of(draft, run.id.project)) return budget->available;
  if (!may_use_bucket(draft, run)) return std::nullopt;
  return budget::level_at(bucket_of(draft, run.id.project), refill_of(draft.settings()),
                          draft.now());
}

int weight_in(const Draft& draft, const std::string& kind) {
  const budget::Rate* rate = draft.rates.find(kind);
  return rate ? rate->weight_percent : budget::Rate{}.weight_percent;
}

// engine: that of the attempt, in case it has not named the host.
std::string kind_on(const Draft& draft, const model::Run& run, const std::string& engine,
                    const std::string& host) {
  if (!host.empty()) return device_kind_of(draft.map(), host);
  return device_kind_without_host(
      draft.map(), [&](const map::Pod& pod) { return draft.engine_of(pod) == engine; }, run.spec,
      [&](const std::string& kind) { return weight_in(draft, kind); });
}

std::int64_t rate_of(const Draft& draft, const model::Run& run, const std::string& engine,
                     const model::HostDevices& node) {
  return std::ssize(node.devices) * weight_in(draft, kind_on(draft, run, engine, node.host));
}

int price_in(const Draft& draft, const model::Run& run) {
  return price_percent(draft.settings(), run.spec.run_class);
}

// From now on the run may still run for so long, and start-up and the end are not in its time-out.
DeviceTime amount_to_hold(const Draft& draft, const model::Run& run, std::int64_t rate,
                          Duration time_used) {
  const Duration left = std::max(model::time_limit(run) - time_used, Duration(0));
  const Duration window = std::min(left, draft.settings().budget_window);
  return budget::use_of(rate * price_in(draft, run) / 100, window);
}

// Its work since the last checkpoint is done again, and not by the fault of its program.
bool is_lost_to_cluster(model::Cause cause) {
  return cause == model::Cause::node_lost || cause == model::Cause::launch_failed ||
         (model::is_preemption(cause) && cause != model::Cause::budget);
}

Time charged_until(const model::Attempt& attempt, Time now) {
  if (!is_lost_to_cluster(attempt.cause)) return now;
  return std::clamp(attempt.last_checkpoint.value_or(attempt.charge->from), attempt.charge->from,
                    now);
}

budget::Signature signature_of(const Draft& draft, const model::AttemptId& attempt) {
  return {.time = draft.now(), .attempt = text(attempt)};
}

// Records the use of each kind of devices up to now.
void record_usage(Draft& draft, const model::Attempt& attempt, Time charged) {
  const model::Run& run = *draft.runs.find(attempt.id.run);
  const budget::Charge& charge = *attempt.charge;
  std::map<std::string, int> devices;
  for (const model::Node* node : draft.nodes_of(attempt.id))
    devices[kind_on(draft, run, attempt.engine, node->host)] +=
        static_cast<int>(node->devices.size());
  int starts = charge.from == attempt.created ? 1 : 0;
  for (const auto& [kind, count] : devices) {
    const std::int64_t rate = std::int64_t{count} * weight_in(draft, kind);
    draft.add_record(budget::UsagePart{
        .run = text(run.id),
        .epoch = attempt.id.epoch,
        .project = run.id.project,
        .user = run.origin.user,
        .kind = kind,
        .devices = count,
        .starts = std::exchange(starts, 0),
        .from = charge.from,
        .until = draft.now(),
        .used = budget::use_of(rate, draft.now() - charge.from),
        .charged = budget::use_of(rate * price_in(draft, run) / 100, charged - charge.from)});
  }
}

void settle_hold(Draft& draft, const model::Attempt& attempt, DeviceTime used) {
  const std::string& project = attempt.id.run.project;
  const DeviceTime held = attempt.charge->held;
  if (attempt.charge->personal) {
    const budget::Bucket bucket = bucket_of(draft, project);
    draft.buckets.edit_or_add(project) = budget::settle(
        bucket, refill_of(draft.settings()), std::min(held, bucket.held), used, draft.now());
  } else if (const budget::Budget* budget = draft.budgets.find(project)) {
    apply_entry(draft, budget::settle(*budget, std::min(held, budget->held), used,
                                      signature_of(draft, attempt.id)));
  }
}

// Up to now; the attempt holds nothing afterwards.
void settle_charge(Draft& draft, model::Attempt& attempt) {
  const model::Run& run = *draft.runs.find(attempt.id.run);
  const Time charged = charged_until(attempt, draft.now());
  budget::Charge& charge = *attempt.charge;
  if (draft.now() > charge.from) record_usage(draft, attempt, charged);
  const DeviceTime used =
      budget::use_of(charge.rate_percent * price_in(draft, run) / 100, charged - charge.from);
  draft.runs.edit(run.id).charged += used;
  if (charge.held > DeviceTime(0)) settle_hold(draft, attempt, used);
  charge.held = DeviceTime(0);
  charge.personal = false;
  charge.from = draft.now();
}

// For so long the amount lasts at the price; rounded up.
Duration lasting(DeviceTime amount, std::int64_t price) {
  if (price <= 0) return Duration::max();
  return Duration((amount.count() * 100 + price - 1) / price);  // kAmountMax leaves room
}

// Until the amount is used at the rate, and a window at most.
void hold_for(Draft& draft, model::Attempt& attempt, DeviceTime amount) {
  const model::Run& run = *draft.runs.find(attempt.id.run);
  budget::Charge& charge = *attempt.charge;
  const Duration window = draft.settings().budget_window;
  charge.until = draft.now() + window;
  const auto available = available_to(draft, run);
  if (!available || amount == DeviceTime(0)) return;
  charge.held = std::min(amount, *available);
  const std::int64_t price = charge.rate_percent * price_in(draft, run) / 100;
  charge.until = draft.now() + std::min(window, lasting(charge.held, price));
  if (const budget::Budget* budget = budget_of(draft, run.id.project))
    return apply_entry(draft,
                       budget::hold(*budget, charge.held, signature_of(draft, attempt.id)).value());
  charge.personal = true;
  const budget::Bucket bucket = bucket_of(draft, run.id.project);
  draft.buckets.edit_or_add(run.id.project) =
      budget::hold(bucket, refill_of(draft.settings()), charge.held, draft.now());
}

std::string used_up_reason(const Draft& draft, const std::string& project) {
  return format("the {} {} is used up",
                budget_of(draft, project) ? "budget of the project" : "personal bucket of",
                project);
}

}  // namespace

DeviceTime needed_budget(const Draft& draft, const model::Run& run, int weight_percent) {
  const std::int64_t rate = std::int64_t{model::rank_count(run.spec)} * weight_percent;
  return amount_to_hold(draft, run, rate, run.time_used);
}

// Runs of a project without a budget may use its bucket, or are not limited.
bool has_budget(const Draft& draft, const std::string& project, DeviceTime amount) {
  if (const budget::Budget* budget = budget_of(draft, project)) return budget->available >= amount;
  return budget::level_at(bucket_of(draft, project), refill_of(draft.settings()), draft.now()) >=
         amount;
}

int least_weight(const Draft& draft) { return least_weight(draft.map(), draft.rates.all()); }

void apply_entry(Draft& draft, const budget::Entry& entry) {
  for (const budget::Budget& budget : entry.budgets) draft.budgets.edit_or_add(budget.id) = budget;
  for (const budget::Posting& posting : entry.postings) draft.add_record(posting);
}

std::optional<DeviceTime> missing_budget(const Draft& draft, const model::Run& run,
                                         const std::vector<model::HostDevices>& devices) {
  return AvailableBudgets(draft).take(run, devices);
}

std::optional<DeviceTime> missing_budget(const Draft& draft, const model::Run& run) {
  if (!available_to(draft, run)) return std::nullopt;
  return missing_budget(draft, run, least_weight(draft));
}

std::optional<DeviceTime> missing_budget(const Draft& draft, const model::Run& run,
                                         int weight_percent) {
  const auto available = available_to(draft, run);
  if (!available) return std::nullopt;
  const DeviceTime amount = needed_budget(draft, run, weight_percent);
  return amount <= *available ? std::nullopt : std::optional(amount);
}

std::optional<DeviceTime> AvailableBudgets::take(const model::Run& run,
                                                 const std::vector<model::HostDevices>& devices) {
  const auto available = available_to(draft_, run);
  if (!available) return std::nullopt;
  std::int64_t rate = 0;
  for (const model::HostDevices& each : devices)
    rate += rate_of(draft_, run, draft_.engine_without_host(), each);
  const DeviceTime amount = amount_to_hold(draft_, run, rate, run.time_used);
  DeviceTime& taken = taken_[run.id.project];
  if (amount > *available - taken) return amount;
  taken += amount;
  return std::nullopt;
}

Result<void> choose_budget(const Draft& draft, model::Run& run, model::ProjectKind kind) {
  const bool has_bucket = draft.settings().personal_refill > 0 && !budget_of(draft, run.id.project);
  if (has_bucket) run.project_kind = kind;
  if (!may_use_bucket(draft, run)) return {};
  return check_fits_bucket(draft, run, needed_budget(draft, run, least_weight(draft)));
}

void wait_for_budget(Draft& draft, const model::RunId& id, DeviceTime amount) {
  model::Run& run = draft.runs.edit(id);
  run.awaits_budget = amount;
  set_wait_reason(draft, run);
}

std::string budget_wait_reason(const Draft& draft, const model::Run& run) {
  const budget::Budget* budget = budget_of(draft, run.id.project);
  if (!budget && may_use_bucket(draft, run))
    return bucket_wait_reason(draft, run.id.project, *run.awaits_budget);
  return format("needs {} of the budget of {}, which has {}; see `lockstep budget show {}`",
                budget::in_device_minutes(*run.awaits_budget), run.id.project,
                budget::in_device_minutes(budget ? budget->available : DeviceTime(0)),
                run.id.project);
}

void check_budget(Draft& draft, const model::RunId& id) {
  const model::Run& run = *draft.runs.find(id);
  if (!run.awaits_budget) return;
  const auto available = available_to(draft, run);
  if (available && *run.awaits_budget > *available) return;
  model::Run& ready = draft.runs.edit(id);
  ready.awaits_budget.reset();
  set_wait_reason(draft, ready);
}

void open_charge(Draft& draft, model::Attempt& attempt) {
  const model::Run& run = *draft.runs.find(attempt.id.run);
  budget::Charge& charge = attempt.charge.emplace();
  charge.from = draft.now();
  for (const model::Node* node : draft.nodes_of(attempt.id))
    charge.rate_percent += rate_of(draft, run, attempt.engine, {node->host, node->devices});
  hold_for(draft, attempt, amount_to_hold(draft, run, charge.rate_percent, run.time_used));
}

void charge_for_host(Draft& draft, const model::NodeId& id, const std::string& host) {
  const model::Node& node = *draft.nodes.find(id);
  const model::Attempt& known = *draft.attempts.find(id.attempt);
  const model::Run& run = *draft.runs.find(id.attempt.run);
  if (!known.charge) return;
  const std::int64_t more = rate_of(draft, run, known.engine, {host, node.devices}) -
                            rate_of(draft, run, known.engine, {"", node.devices});
  if (more == 0) return;
  model::Attempt& attempt = draft.attempts.edit(id.attempt);
  settle_charge(draft, attempt);
  attempt.charge->rate_percent += more;
  hold_for(
      draft, attempt,
      amount_to_hold(draft, *draft.runs.find(run.id), attempt.charge->rate_percent, run.time_used));
}

void close_charge(Draft& draft, model::Attempt& attempt) {
  if (attempt.charge) settle_charge(draft, attempt);
}

DeviceTime amount_to_go_on(const Draft& draft, const model::Attempt& attempt) {
  const model::Run& run = *draft.runs.find(attempt.id.run);
  return amount_to_hold(draft, run, attempt.charge->rate_percent, run.time_used);
}

void renew_charge(Draft& draft, const model::AttemptId& id) {
  const model::Attempt& known = *draft.attempts.find(id);
  if (!known.charge || known.charge->until > draft.now() ||
      known.state >= model::AttemptState::draining)
    return;
  model::Attempt& attempt = draft.attempts.edit(id);
  settle_charge(draft, attempt);
  const model::Run& run = *draft.runs.find(id.run);
  const auto running = attempt.started ? draft.now() - *attempt.started : Duration(0);
  const DeviceTime amount =
      amount_to_hold(draft, run, attempt.charge->rate_percent, run.time_used + running);
  const DeviceTime least =
      std::min(amount, budget::use_of(attempt.charge->rate_percent, kRenewalMin));
  const auto available = available_to(draft, run);
  if (available && *available < least)
    return begin_draining(draft, id, model::Cause::budget, used_up_reason(draft, id.run.project));
  hold_for(draft, attempt, amount);
}

void expire_grants(Draft& draft) {
  for (const std::string& project : draft.projects_with_ended_grants())
    apply_entry(draft, budget::expire(*draft.budgets.find(project), {.time = draft.now()}));
}

}  // namespace lockstep::step
