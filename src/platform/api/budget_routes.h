// The routes about budgets and the use of devices.
#pragma once

#include "platform/api/budget_messages.h"
#include "platform/api/route.h"

namespace lockstep::api {

inline constexpr TypedRoute<None, None, BudgetList> kBudgets{
    "GET",
    "/api/v1/budgets",
    Action::read_cluster,
    RouteErrors::none,
    "",
    "BudgetList",
    "the budgets of the projects that the caller may read, and the weights of devices"};
inline constexpr TypedRoute<None, GrantRequest, BudgetView> kGrantBudget{
    "POST",
    "/api/v1/projects/{project}/budget/grants",
    {Action::manage_cluster, "budget.grant"},
    RouteErrors::run_not_found_or_storage_full,
    "GrantRequest",
    "BudgetView",
    "give a project device-minutes until a date"};
inline constexpr TypedRoute<None, WithdrawalRequest, BudgetView> kWithdrawBudget{
    "POST",
    "/api/v1/projects/{project}/budget/withdrawals",
    {Action::manage_cluster, "budget.withdraw"},
    RouteErrors::run_not_found_or_storage_full,
    "WithdrawalRequest",
    "BudgetView",
    "take back device-minutes that no run holds"};
inline constexpr TypedRoute<None, BudgetMoveRequest, BudgetView> kMoveBudget{
    "POST",
    "/api/v1/projects/{project}/budget/moves",
    {Action::manage_project, "budget.move"},
    RouteErrors::run_not_found_or_storage_full,
    "BudgetMoveRequest",
    "BudgetView",
    "give device-minutes of a project to another one"};
inline constexpr TypedRoute<None, None, BudgetView> kLiftBudget{
    "POST",
    "/api/v1/projects/{project}/budget/lift",
    {Action::manage_cluster, "budget.lift"},
    RouteErrors::run_not_found_or_storage_full,
    "",
    "BudgetView",
    "withdraw all of it; runs of the project are limited no more"};
inline constexpr TypedRoute<PostingQuery, None, PostingList> kPostings{
    "GET",
    "/api/v1/projects/{project}/budget/postings",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "PostingList",
    "the history of a project's budget"};
inline constexpr TypedRoute<None, RateView, BudgetList> kSetRate{
    "POST",
    "/api/v1/budgets/rates",
    {Action::manage_cluster, "budget.rate"},
    RouteErrors::storage_full,
    "RateView",
    "BudgetList",
    "set the weight of a kind of devices, for what starts or renews from now on"};
inline constexpr TypedRoute<UsageQuery, None, UsageList> kUsage{
    "GET",
    "/api/v1/usage",
    Action::read_cluster,
    RouteErrors::none,
    "",
    "UsageList",
    "the use of devices by projects that the caller may read"};

}  // namespace lockstep::api
