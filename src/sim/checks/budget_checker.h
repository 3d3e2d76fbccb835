// BudgetChecker checks the ledger of budgets in each commit: the postings lead from the old
// balances to the new ones, no balance is negative, attempts hold what the projects' rows say, and
// no run ends by its budget before its renewal. The same of personal buckets, whose runs have one
// node each.
#pragma once

#include <string>

#include "platform/core/model/state.h"
#include "sim/sim_context.h"
#include "sim/world/commit.h"

namespace lockstep::sim {

class BudgetChecker {
 public:
  BudgetChecker(SimContext& context, const model::State& durable)
      : context_(context), durable_(durable) {}

  // The rows are about to become durable.
  void check(const Commit& commit) const;

 private:
  // Null: the project never had a budget.
  const budget::Budget* row_after(const Commit& commit, const std::string& project) const;
  void check_postings(const Commit& commit) const;
  void check_balance(const budget::Budget& budget) const;
  void check_attempt(const Commit& commit, const model::Attempt& attempt) const;
  void check_bucket(const Commit& commit, const budget::Bucket& bucket) const;
  void check_personal_start(const Commit& commit, const model::Attempt& attempt) const;
  enum class Source { budget, bucket };
  // The sum that live attempts of the project hold of it after the commit.
  budget::DeviceTime held_by_attempts(const Commit& commit, const std::string& project,
                                      Source source) const;

  SimContext& context_;
  const model::State& durable_;
};

}  // namespace lockstep::sim
