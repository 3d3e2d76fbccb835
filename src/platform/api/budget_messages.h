// Messages about budgets and the use of devices; see messages.h. Amounts are weighted
// device-minutes (docs/design/budgets.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/budget/ledger.h"
#include "text/record.h"

namespace lockstep::api {

// With two digits after the point.
inline double device_minutes(budget::DeviceTime amount) {
  return static_cast<double>(amount / std::chrono::milliseconds(600)) / 100;
}

struct GrantView {
  Time ends{};
  double granted_minutes = 0;
  double left_minutes = 0;

  static constexpr auto fields() {
    return record<GrantView>(
        field("ends", &GrantView::ends, "when what is left of it expires"),
        field("granted_minutes", &GrantView::granted_minutes, "device-minutes in all"),
        field("left_minutes", &GrantView::left_minutes, "what is not used yet, held or not"));
  }
};

struct BudgetView {
  std::string project;
  bool limited = true;
  double available_minutes = 0;
  double held_minutes = 0;
  double spent_minutes = 0;
  int used_percent = 0;
  std::vector<GrantView> grants;
  double minutes_per_day = 0;
  std::optional<Time> runs_out;
  std::string warning;

  static constexpr auto fields() {
    return record<BudgetView>(
        field("project", &BudgetView::project, "whose runs it is for"),
        field("limited", &BudgetView::limited, "false: it was lifted, and limits no run"),
        field("available_minutes", &BudgetView::available_minutes, "for its next runs"),
        field("held_minutes", &BudgetView::held_minutes, "for the runs that run"),
        field("spent_minutes", &BudgetView::spent_minutes, "used by all runs ever"),
        field("used_percent", &BudgetView::used_percent, "of the grants that have not ended"),
        field("grants", &BudgetView::grants, "the first to end in front"),
        field("minutes_per_day", &BudgetView::minutes_per_day, "the mean use of the last 7 days"),
        field("runs_out", &BudgetView::runs_out,
              "when nothing is available any more at that rate; null: not before the grants end"),
        field("warning", &BudgetView::warning, "from 80 % on; empty: none"));
  }
};

struct RateView {
  std::string kind;
  double weight = 1;

  static constexpr auto fields() {
    return record<RateView>(
        required(field("kind", &RateView::kind,
                       "of devices: the host's label device-kind, else gpu or core")),
        required(field("weight", &RateView::weight, "device-minutes for each minute")));
  }
};

struct BucketView {
  std::string project;
  double available_minutes = 0;
  double held_minutes = 0;
  double spent_minutes = 0;
  double cap_minutes = 0;
  double minutes_per_hour = 0;

  static constexpr auto fields() {
    return record<BucketView>(
        field("project", &BucketView::project, "a personal one"),
        field("available_minutes", &BucketView::available_minutes, "for its next runs"),
        field("held_minutes", &BucketView::held_minutes, "for the runs that run"),
        field("spent_minutes", &BucketView::spent_minutes, "used by all runs ever"),
        field("cap_minutes", &BucketView::cap_minutes, "available at most"),
        field("minutes_per_hour", &BucketView::minutes_per_hour, "that it gets until then"));
  }
};

struct BudgetList {
  std::vector<BudgetView> budgets;
  std::vector<RateView> rates;
  std::vector<BucketView> buckets;

  static constexpr auto fields() {
    return record<BudgetList>(
        field("budgets", &BudgetList::budgets, "of the projects that the caller may read"),
        field("rates", &BudgetList::rates, "the kinds of devices whose weight is not 1"),
        field("buckets", &BudgetList::buckets,
              "of the personal projects that the caller may read, if they have any; not of those "
              "with a budget"));
  }
};

struct GrantRequest {
  double minutes = 0;
  Time ends{};
  std::string reason;

  static constexpr auto fields() {
    return record<GrantRequest>(
        required(field("minutes", &GrantRequest::minutes, "device-minutes, above zero")),
        required(field("ends", &GrantRequest::ends, "when what is left of them expires")),
        field("reason", &GrantRequest::reason, "for the history; one line"));
  }
};

struct WithdrawalRequest {
  double minutes = 0;
  std::string reason;

  static constexpr auto fields() {
    return record<WithdrawalRequest>(
        required(field("minutes", &WithdrawalRequest::minutes, "device-minutes, above zero")),
        field("reason", &WithdrawalRequest::reason, "for the history; one line"));
  }
};

struct BudgetMoveRequest {
  std::string to;
  double minutes = 0;
  std::string reason;

  static constexpr auto fields() {
    return record<BudgetMoveRequest>(
        required(field("to", &BudgetMoveRequest::to, "the project that gets them")),
        required(field("minutes", &BudgetMoveRequest::minutes, "device-minutes, above zero")),
        field("reason", &BudgetMoveRequest::reason, "for the history; one line"));
  }
};

struct PostingQuery {
  std::optional<std::int64_t> before{};
  int limit = 100;

  static constexpr auto fields() {
    return record<PostingQuery>(
        field("before", &PostingQuery::before, "only postings with a lower id: the next page"),
        between(1, 10'000, field("limit", &PostingQuery::limit, "the greatest number of them")));
  }
};

struct PostingView {
  std::int64_t id = 0;
  Time time{};
  budget::PostingKind kind = budget::PostingKind::grant;
  budget::Account from = budget::Account::bank;
  std::string from_project;
  budget::Account to = budget::Account::bank;
  std::string to_project;
  double minutes = 0;
  std::string by;
  std::string reason;
  std::string attempt;

  static constexpr auto fields() {
    return record<PostingView>(
        field("id", &PostingView::id, "its number; later postings have higher ones"),
        field("time", &PostingView::time, "when"),
        field("kind", &PostingView::kind, "the movement"),
        field("from", &PostingView::from, "the account that it leaves"),
        field("from_project", &PostingView::from_project, "of that account; empty: the bank"),
        field("to", &PostingView::to, "the account that it reaches"),
        field("to_project", &PostingView::to_project, "of that account; empty: the bank"),
        field("minutes", &PostingView::minutes, "device-minutes"),
        field("by", &PostingView::by, "the user that made it; empty: Lockstep"),
        field("reason", &PostingView::reason, "as that user gave it"),
        field("attempt", &PostingView::attempt, "that holds or used it; empty: none"));
  }
};

struct PostingList {
  std::vector<PostingView> postings;
  bool more = false;

  static constexpr auto fields() {
    return record<PostingList>(field("postings", &PostingList::postings, "newest first"),
                               field("more", &PostingList::more, "there are older ones"));
  }
};

struct UsageQuery {
  std::optional<std::string> project{};
  std::optional<std::string> user{};
  std::optional<Time> since{};
  std::optional<Time> until{};
  std::string by = "project";

  static constexpr auto fields() {
    return record<UsageQuery>(
        field("project", &UsageQuery::project, "only runs of this project"),
        field("user", &UsageQuery::user, "only runs of this user"),
        field("since", &UsageQuery::since, "only what ended from this time on"),
        field("until", &UsageQuery::until, "only what ended before this time"),
        field("by", &UsageQuery::by,
              "the columns of the report: any of project, user, month and kind, with commas"));
  }
};

struct UsageView {
  std::string project, user, month, kind;
  std::int64_t attempts = 0;
  double used_minutes = 0;
  double charged_minutes = 0;

  static constexpr auto fields() {
    return record<UsageView>(
        field("project", &UsageView::project, "empty: of all"),
        field("user", &UsageView::user, "empty: of all"),
        field("month", &UsageView::month, "such as 2026-11; empty: of all"),
        field("kind", &UsageView::kind, "of the devices; empty: of all"),
        field("attempts", &UsageView::attempts, "of runs"),
        field("used_minutes", &UsageView::used_minutes, "device-minutes that they had devices"),
        field("charged_minutes", &UsageView::charged_minutes,
              "without what was lost to hosts, moves and evictions, and with the discount of "
              "preemptible runs"));
  }
};

struct UsageList {
  std::vector<UsageView> rows;

  static constexpr auto fields() {
    return record<UsageList>(field("rows", &UsageList::rows, "in the order of their columns"));
  }
};

}  // namespace lockstep::api
