#include "sim/checks/budget_checker.h"

#include <array>
#include <map>

#include "base/format.h"
#include "sim/sim_settings.h"

namespace lockstep::sim {
namespace {

using budget::Account;
using budget::DeviceTime;

DeviceTime& balance_of(budget::Budget& budget, Account account) {
  if (account == Account::available) return budget.available;
  return account == Account::held ? budget.held : budget.spent;
}

}  // namespace

void BudgetChecker::check(const Commit& commit) const {
  check_postings(commit);
  for (const auto& [project, budget] : commit.budgets) {
    check_balance(*budget);
    if (const DeviceTime held = held_by_attempts(commit, project, Source::budget);
        held != budget->held)
      context_.report_violation(format("the project {} holds {}, and its attempts {}", project,
                                       text(budget->held), text(held)));
  }
  for (const auto& [project, bucket] : commit.buckets) check_bucket(commit, *bucket);
  for (const auto& [id, attempt] : commit.attempts) check_attempt(commit, *attempt);
}

void BudgetChecker::check_bucket(const Commit& commit, const budget::Bucket& bucket) const {
  const DeviceTime cap = std::chrono::minutes(simulated_settings().personal_cap);
  if (bucket.level < DeviceTime(0) || bucket.level > cap)
    context_.report_violation(
        format("the bucket of {} has {} of {}", bucket.id, text(bucket.level), text(cap)));
  if (const DeviceTime held = held_by_attempts(commit, bucket.id, Source::bucket);
      held != bucket.held)
    context_.report_violation(format("the bucket of {} holds {}, and its attempts {}", bucket.id,
                                     text(bucket.held), text(held)));
}

// A new attempt of a run that may use a bucket.
void BudgetChecker::check_personal_start(const Commit& commit,
                                         const model::Attempt& attempt) const {
  const model::Run& run = *CommitView(durable_, commit).find(attempt.id.run);
  const budget::Budget* budget = row_after(commit, run.id.project);
  if (run.project_kind != model::ProjectKind::personal || (budget && budget->limited)) return;
  if (model::node_count(run.spec) != 1)
    context_.report_violation(text(attempt.id) + " uses a bucket and has several nodes");
  if (attempt.charge && (!attempt.charge->personal || attempt.charge->held == DeviceTime(0)))
    context_.report_violation(text(attempt.id) + " starts and holds nothing of its bucket");
}

const budget::Budget* BudgetChecker::row_after(const Commit& commit,
                                               const std::string& project) const {
  if (const auto changed = commit.budgets.find(project); changed != commit.budgets.end())
    return changed->second;
  const auto known = durable_.budgets.find(project);
  return known == durable_.budgets.end() ? nullptr : &known->second;
}

void BudgetChecker::check_postings(const Commit& commit) const {
  std::map<std::string, budget::Budget> expected;
  const auto account = [&](const std::string& project) -> budget::Budget& {
    const auto known = durable_.budgets.find(project);
    return expected
        .try_emplace(project, known == durable_.budgets.end() ? budget::Budget{.id = project}
                                                              : known->second)
        .first->second;
  };
  for (const budget::Posting* posting : commit.postings) {
    if (posting->amount <= DeviceTime(0)) context_.report_violation("a posting moves nothing");
    if (posting->from != Account::bank)
      balance_of(account(posting->from_project), posting->from) -= posting->amount;
    if (posting->to != Account::bank)
      balance_of(account(posting->to_project), posting->to) += posting->amount;
  }
  for (const auto& [project, after] : expected) {
    const budget::Budget* row = row_after(commit, project);
    if (!row || row->available != after.available || row->held != after.held ||
        row->spent != after.spent)
      context_.report_violation(
          format("the postings of the project {} lead to other balances than its row", project));
  }
}

void BudgetChecker::check_balance(const budget::Budget& budget) const {
  DeviceTime left(0);
  for (const budget::Grant& grant : budget.grants) left += grant.left;
  if (left != budget.available + budget.held)
    context_.report_violation(format("the grants of {} have {} left, and it has {} and holds {}",
                                     budget.id, text(left), text(budget.available),
                                     text(budget.held)));
  for (const DeviceTime balance : {budget.available, budget.held, budget.spent})
    if (balance < DeviceTime(0))
      context_.report_violation(format("a balance of {} is negative", budget.id));
}

void BudgetChecker::check_attempt(const Commit& commit, const model::Attempt& attempt) const {
  const auto known = durable_.attempts.find(attempt.id);
  const bool is_new = known == durable_.attempts.end();
  const budget::Budget* budget = row_after(commit, attempt.id.run.project);
  if (is_new && budget && budget->limited && attempt.charge &&
      attempt.charge->held == DeviceTime(0))
    context_.report_violation(text(attempt.id) + " starts and holds nothing of its budget");
  if (is_new) check_personal_start(commit, attempt);
  const bool ends_now = attempt.cause == model::Cause::budget &&
                        (is_new || known->second.cause != model::Cause::budget);
  if (ends_now &&
      (is_new || !known->second.charge || context_.clock.now() < known->second.charge->until))
    context_.report_violation(text(attempt.id) + " ends by its budget before its renewal");
}

DeviceTime BudgetChecker::held_by_attempts(const Commit& commit, const std::string& project,
                                           Source source) const {
  DeviceTime held(0);
  const auto add = [&](const model::Attempt& attempt) {
    if (attempt.id.run.project == project && attempt.charge &&
        attempt.charge->personal == (source == Source::bucket))
      held += attempt.charge->held;
  };
  for (const model::AttemptId& id : durable_.live)
    if (!commit.attempts.contains(id)) add(durable_.attempts.at(id));
  for (const auto& [id, attempt] : commit.attempts)
    if (attempt->state != model::AttemptState::ended) add(*attempt);
  return held;
}

}  // namespace lockstep::sim
