// The ledger of budgets, by double entry: each posting moves an amount from one account to another,
// so the sum of all accounts stays zero. Pure: each function returns the rows to store, or why it
// refuses. docs/design/budgets.md has the rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/core/budget/device_time.h"
#include "text/record.h"

namespace lockstep::budget {

// A grant with something left, available or held.
struct Grant {
  Time ends{};
  DeviceTime granted{};
  DeviceTime left{};

  bool operator==(const Grant&) const = default;

  static constexpr auto fields() {
    return record<Grant>(field("ends", &Grant::ends, "when the rest of it expires"),
                         field("granted", &Grant::granted, "device time in all"),
                         field("left", &Grant::left, "device time that is not used yet"));
  }
};

// The last warning of a project: from how many percent of which grants on. 0: none.
struct Warned {
  int percent = 0;
  DeviceTime granted{};

  bool operator==(const Warned&) const = default;

  static constexpr auto fields() {
    return record<Warned>(field("percent", &Warned::percent, "80, 95, or 0: no warning"),
                          field("granted", &Warned::granted, "by the grants of then"));
  }
};

// The accounts of a project. No amount is negative, and what is left of its grants is
// available + held.
struct Budget {
  std::string id;       // the project
  bool limited = true;  // else its runs hold nothing, and only their use is recorded
  DeviceTime available{};
  DeviceTime held{};            // by attempts that run
  DeviceTime spent{};           // by all attempts ever
  std::vector<Grant> grants{};  // with something left, those that end first in front
  Warned warned{};

  bool operator==(const Budget&) const = default;
};

enum class Account { bank, available, held, spent };
constexpr auto enum_names(Account) {
  return names<Account>({{Account::bank, "bank"},
                         {Account::available, "available"},
                         {Account::held, "held"},
                         {Account::spent, "spent"}});
}

enum class PostingKind { grant, withdraw, expire, move, hold, settle, release };
constexpr auto enum_names(PostingKind) {
  return names<PostingKind>({{PostingKind::grant, "grant"},
                             {PostingKind::withdraw, "withdraw"},
                             {PostingKind::expire, "expire"},
                             {PostingKind::move, "move"},
                             {PostingKind::hold, "hold"},
                             {PostingKind::settle, "settle"},
                             {PostingKind::release, "release"}});
}

// The author, time and reason of a posting.
struct Signature {
  Time time{};
  std::string by{};       // a user; empty: Lockstep itself
  std::string reason{};   // one line
  std::string attempt{};  // "demo/42.1" of a hold and what follows it

  bool operator==(const Signature&) const = default;
};

// One movement. The bank has no project.
struct Posting {
  PostingKind kind = PostingKind::grant;
  Account from = Account::bank;
  std::string from_project{};
  Account to = Account::bank;
  std::string to_project{};
  DeviceTime amount{};
  Signature signature{};

  bool operator==(const Posting&) const = default;
};

// The rows after a change, and the postings that led to them.
struct Entry {
  std::vector<Budget> budgets;
  std::vector<Posting> postings;

  bool operator==(const Entry&) const = default;
};

// `amount` is positive and at most kAmountMax in each of these. Code::invalid: the end has passed;
// the project would have more than kAmountMax.
Result<Entry> grant(Budget budget, DeviceTime amount, Time ends, const Signature& signature);
// Code::invalid: less is available; the error says how much, and how much is held.
Result<Entry> withdraw(Budget budget, DeviceTime amount, const Signature& signature);
// To another project, with the ends of the grants from which it comes.
Result<Entry> move(Budget from, Budget to, DeviceTime amount, const Signature& signature);

// Takes back what is left of grants that have ended, except for what is held. No rows: none has.
Entry expire(Budget budget, const Signature& signature);
// The budget may hold that much.
bool can_hold(const Budget& budget, DeviceTime amount);
// Code::exhausted: less is available.
Result<Entry> hold(Budget budget, DeviceTime amount, const Signature& signature);
// Ends a hold: what was used is spent, the rest is available again. A use beyond the hold takes
// what is available, and no more.
Entry settle(Budget budget, DeviceTime held, DeviceTime used, const Signature& signature);

}  // namespace lockstep::budget
