// The ledger: amounts and their text, postings, refusals, and a property test over many of them.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/random.h"
#include "platform/core/budget/ledger.h"
#include "platform/core/budget/warning.h"

namespace lockstep::budget {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using ::testing::HasSubstr;

DeviceTime in_minutes(std::int64_t amount) { return minutes(amount); }
Time at(std::int64_t hour) { return Time(hours(hour)); }
Signature by_ann(std::int64_t hour) { return {.time = at(hour), .by = "ann"}; }

Budget with_grants(std::vector<std::pair<std::int64_t, std::int64_t>> amounts_and_ends) {
  Budget budget{.id = "demo"};
  for (const auto& [amount, ends] : amounts_and_ends)
    budget = grant(budget, in_minutes(amount), at(ends), by_ann(0)).value().budgets.front();
  return budget;
}

TEST(DeviceTime, AnHourOfADeviceOfWeightFourIsFourDeviceHours) {
  EXPECT_EQ(use_of(400, hours(1)), in_minutes(240));
  EXPECT_EQ(use_of(8 * 100, minutes(30)), in_minutes(240));
}

TEST(DeviceTime, AUseIsBounded) {
  EXPECT_EQ(use_of(10'000LL * kWeightMax, hours(24 * 3650)), kAmountMax);
}

TEST(DeviceTime, ItsTextIsInMinutesAndReadsBack) {
  for (const char* words : {"480", "0.25", "12.50"})
    EXPECT_EQ(in_device_minutes(parse_device_time(words).value()),
              format("{} device-minutes", words));
  EXPECT_EQ(parse_device_time("8h").value(), in_minutes(480));
  EXPECT_EQ(in_device_minutes(parse_device_time("1.5h").value()), "90 device-minutes");
  EXPECT_EQ(in_device_minutes(-std::chrono::seconds(30)), "-0.50 device-minutes");
}

TEST(DeviceTime, WhatIsNoPositiveAmountIsRefused) {
  for (const char* words : {"", "0", "-5", "five", "1.234", "1e9", "9999999999999999", "1000000001",
                            ".5", "5.", "0x10", "h", "5m"})
    EXPECT_EQ(parse_device_time(words).error().code, Code::invalid) << words;
}

TEST(Ledger, AGrantIsAvailableUntilItsEnd) {
  Budget budget = with_grants({{100, 10}});
  EXPECT_EQ(budget.available, in_minutes(100));
  EXPECT_TRUE(expire(budget, by_ann(9)).postings.empty());
  budget = expire(budget, by_ann(10)).budgets.front();
  EXPECT_EQ(budget.available, DeviceTime(0));
  EXPECT_TRUE(budget.grants.empty());
}

TEST(Ledger, AGrantThatHasEndedIsRefused) {
  EXPECT_THAT(grant({.id = "demo"}, in_minutes(1), at(5), by_ann(5)).error().message,
              HasSubstr("would have ended"));
}

TEST(Ledger, WhatIsHeldOutlivesItsGrantAndExpiresWhenItIsReleased) {
  Budget budget = with_grants({{100, 10}});
  budget = hold(budget, in_minutes(60), by_ann(9)).value().budgets.front();
  budget = expire(budget, by_ann(10)).budgets.front();
  EXPECT_EQ(budget.available, DeviceTime(0));
  EXPECT_EQ(budget.held, in_minutes(60));
  budget = settle(budget, in_minutes(60), in_minutes(20), by_ann(11)).budgets.front();
  EXPECT_EQ(budget.spent, in_minutes(20));
  budget = expire(budget, by_ann(11)).budgets.front();
  EXPECT_EQ(budget.available, DeviceTime(0));
}

TEST(Ledger, WhatIsUsedComesFromTheGrantThatEndsFirst) {
  Budget budget = with_grants({{50, 20}, {100, 10}});
  budget = hold(budget, in_minutes(120), by_ann(1)).value().budgets.front();
  budget = settle(budget, in_minutes(120), in_minutes(110), by_ann(2)).budgets.front();
  ASSERT_EQ(budget.grants.size(), 1U);
  EXPECT_EQ(budget.grants.front().ends, at(20));
  EXPECT_EQ(budget.grants.front().left, in_minutes(40));
}

TEST(Ledger, AWithdrawalLeavesWhatIsHeld) {
  Budget budget = with_grants({{100, 10}});
  budget = hold(budget, in_minutes(70), by_ann(1)).value().budgets.front();
  const auto refused = withdraw(budget, in_minutes(40), by_ann(2));
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_EQ(refused.error().message,
            "the project demo has 30 device-minutes available, not 40 device-minutes; its runs "
            "hold 70 device-minutes more, which stay theirs");
  EXPECT_EQ(withdraw(budget, in_minutes(30), by_ann(2)).value().budgets.front().available,
            DeviceTime(0));
}

TEST(Ledger, AMoveKeepsTheEndOfItsGrant) {
  const auto moved =
      move(with_grants({{100, 10}, {50, 20}}), {.id = "other"}, in_minutes(60), by_ann(1));
  const Budget& to = moved.value().budgets.back();
  ASSERT_EQ(to.grants.size(), 2U);
  EXPECT_EQ(to.grants.front().left, in_minutes(10));
  EXPECT_EQ(to.grants.back().ends, at(20));
  const Budget& from = moved.value().budgets.front();
  ASSERT_EQ(from.grants.size(), 1U);
  EXPECT_EQ(from.grants.front().granted, in_minutes(90)) << "what moved was not used";
}

TEST(Ledger, AMoveToTheSameProjectIsRefused) {
  const Budget budget = with_grants({{100, 10}});
  EXPECT_EQ(move(budget, budget, in_minutes(1), by_ann(1)).error().code, Code::invalid);
}

TEST(Ledger, AHoldNeedsWhatIsAvailable) {
  EXPECT_EQ(hold(with_grants({{10, 10}}), in_minutes(11), by_ann(1)).error().code, Code::exhausted);
}

TEST(Ledger, AUseBeyondItsHoldTakesWhatIsAvailableAndNoMore) {
  Budget budget = with_grants({{100, 10}});
  budget = hold(budget, in_minutes(90), by_ann(1)).value().budgets.front();
  budget = settle(budget, in_minutes(90), in_minutes(500), by_ann(2)).budgets.front();
  EXPECT_EQ(budget.spent, in_minutes(100));
  EXPECT_EQ(budget.held, DeviceTime(0));
  EXPECT_EQ(budget.available, DeviceTime(0));
}

// Books: two projects and all postings of them.
class Books {
 public:
  void add(const Entry& entry) {
    for (const Budget& budget : entry.budgets) budgets[budget.id] = budget;
    for (const Posting& posting : entry.postings) {
      balances[{posting.from_project, posting.from}] -= posting.amount;
      balances[{posting.to_project, posting.to}] += posting.amount;
    }
  }
  void add(const Result<Entry>& entry) {
    if (entry) add(*entry);
  }
  void check() {
    DeviceTime sum(0);
    for (const auto& [account, balance] : balances) sum += balance;
    EXPECT_EQ(sum, DeviceTime(0));
    for (const auto& [project, budget] : budgets) {
      EXPECT_EQ((balances[{project, Account::available}]), budget.available);
      EXPECT_EQ((balances[{project, Account::held}]), budget.held);
      EXPECT_EQ((balances[{project, Account::spent}]), budget.spent);
      EXPECT_GE(std::min({budget.available, budget.held, budget.spent}), DeviceTime(0));
      DeviceTime left(0);
      for (const Grant& grant : budget.grants) left += grant.left;
      EXPECT_EQ(left, budget.available + budget.held);
      EXPECT_TRUE(std::ranges::is_sorted(budget.grants, {}, &Grant::ends));
    }
  }

  std::map<std::string, Budget> budgets{{"a", {.id = "a"}}, {"b", {.id = "b"}}};
  std::map<std::pair<std::string, Account>, DeviceTime> balances;
};

TEST(Ledger, EverySequenceOfPostingsBalances) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    Books books;
    std::vector<std::pair<std::string, DeviceTime>> holds;
    for (std::int64_t hour = 1; hour <= 100; ++hour) {
      const std::string project = random.below(2) ? "a" : "b";
      const Budget& budget = books.budgets.at(project);
      const auto amount = std::chrono::seconds(1 + random.below(5'000));
      switch (random.below(6)) {
        case 0:
          books.add(grant(budget, amount,
                          at(hour + 1 + static_cast<std::int64_t>(random.below(20))),
                          by_ann(hour)));
          break;
        case 1:
          books.add(withdraw(budget, amount, by_ann(hour)));
          break;
        case 2:
          books.add(
              move(budget, books.budgets.at(project == "a" ? "b" : "a"), amount, by_ann(hour)));
          break;
        case 3:
          books.add(expire(budget, by_ann(hour)));
          break;
        case 4:
          if (const auto held = hold(budget, amount, by_ann(hour))) {
            books.add(*held);
            holds.emplace_back(project, amount);
          }
          break;
        default:
          if (!holds.empty()) {
            const auto [of, held] = holds.back();
            holds.pop_back();
            books.add(settle(books.budgets.at(of), held, amount, by_ann(hour)));
          }
      }
      books.check();
    }
  }
}

// Uses so much of what is held at once.
Budget used(Budget budget, std::int64_t minutes) {
  budget = hold(budget, in_minutes(minutes), by_ann(1)).value().budgets.front();
  return settle(budget, in_minutes(minutes), in_minutes(minutes), by_ann(1)).budgets.front();
}

TEST(Warnings, AUseRaisesTheWarningAndAHoldDoesNot) {
  Budget budget = used(with_grants({{100, 10}}), 79);
  EXPECT_EQ(budget.warned.percent, 0);
  const Budget held = hold(budget, in_minutes(21), by_ann(1)).value().budgets.front();
  EXPECT_EQ(held.warned.percent, 0);
  budget = used(budget, 1);
  EXPECT_EQ(budget.warned.percent, kWarningPercent);
  EXPECT_EQ(used(budget, 14).warned.percent, kWarningPercent);
  EXPECT_EQ(used(budget, 15).warned.percent, kUrgentPercent);
  EXPECT_EQ(used(budget, 20).warned.percent, kUrgentPercent) << "no grant is left";
}

TEST(Warnings, AGrantTakesTheWarningBackAndTheNextUseWarnsAgain) {
  Budget budget = used(with_grants({{100, 10}}), 85);
  budget = grant(budget, in_minutes(100), at(10), by_ann(2)).value().budgets.front();
  EXPECT_EQ(budget.warned.percent, 0);
  EXPECT_EQ(used(budget, 75).warned.percent, kWarningPercent);
}

TEST(Warnings, TheEndOfAUsedGrantLeavesTheWarningOfTheNext) {
  Budget budget = used(with_grants({{100, 10}, {10, 20}}), 99);
  EXPECT_EQ(budget.warned.percent, kWarningPercent);
  budget = used(budget, 1);
  EXPECT_EQ(budget.warned.percent, 0) << "none of the second is used";
  EXPECT_EQ(used(budget, 8).warned.percent, kWarningPercent);
}

TEST(Warnings, WhatExpiresIsNotUsed) {
  const Budget budget = used(with_grants({{100, 10}}), 10);
  EXPECT_EQ(expire(budget, by_ann(11)).budgets.front().warned.percent, 0);
}

}  // namespace
}  // namespace lockstep::budget
