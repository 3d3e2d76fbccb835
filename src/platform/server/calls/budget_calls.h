// BudgetCalls: the handlers of the routes about budgets and the use of devices.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "platform/api/routes.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class BudgetCalls {
 public:
  // It outlives this.
  explicit BudgetCalls(const CallContext& context) : context_(context) {}

  Result<api::BudgetList> list(const RouteCall<api::kBudgets>& call);
  Result<api::BudgetView> grant(const RouteCall<api::kGrantBudget>& call);
  Result<api::BudgetView> withdraw(const RouteCall<api::kWithdrawBudget>& call);
  Result<api::BudgetView> move(const RouteCall<api::kMoveBudget>& call);
  Result<api::BudgetView> lift(const RouteCall<api::kLiftBudget>& call);
  Result<api::PostingList> postings(const RouteCall<api::kPostings>& call);
  Result<api::BudgetList> set_rate(const RouteCall<api::kSetRate>& call);
  Result<api::UsageList> usage(const RouteCall<api::kUsage>& call);

 private:
  // Applies the event, which changes the project's budget, and answers with it.
  template <const auto& kRoute>
  Result<api::BudgetView> change(const RouteCall<kRoute>& call, const model::Event& event,
                                 const std::string& what);
  Result<api::BudgetView> view_of(const budget::Budget& budget) const;
  std::vector<api::BucketView> buckets_for(const Principal& caller) const;
  bool may_read(const Principal& caller, const std::string& project) const;

  const CallContext& context_;
};

}  // namespace lockstep::server
