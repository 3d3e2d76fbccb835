#include "platform/core/budget/ledger.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "platform/core/budget/warning.h"

namespace lockstep::budget {
namespace {

DeviceTime& balance_of(Budget& budget, Account account) {
  if (account == Account::available) return budget.available;
  return account == Account::held ? budget.held : budget.spent;
}

// Moves the amount and records it. A null budget is the bank.
void post(Entry& entry, PostingKind kind, std::pair<Budget*, Account> from,
          std::pair<Budget*, Account> to, DeviceTime amount, const Signature& signature) {
  if (amount == DeviceTime(0)) return;
  LS_CHECK(amount > DeviceTime(0));
  if (from.first) balance_of(*from.first, from.second) -= amount;
  if (to.first) balance_of(*to.first, to.second) += amount;
  entry.postings.push_back({.kind = kind,
                            .from = from.second,
                            .from_project = from.first ? from.first->id : "",
                            .to = to.second,
                            .to_project = to.first ? to.first->id : "",
                            .amount = amount,
                            .signature = signature});
}

void add_grant(Budget& budget, const Grant& grant) {
  const auto same = std::ranges::find(budget.grants, grant.ends, &Grant::ends);
  if (same != budget.grants.end()) {
    same->granted += grant.granted;
    same->left += grant.left;
    return;
  }
  const auto later = std::ranges::upper_bound(budget.grants, grant.ends, {}, &Grant::ends);
  budget.grants.insert(later, grant);
}

// Takes the amount from what is left of the grants, and returns the parts. A use takes it from
// those that end first. An amount that leaves the project comes from those that end last, and does
// not count as granted any more.
enum class Taking { used, leaves };
std::vector<Grant> take(Budget& budget, DeviceTime amount, Taking taking) {
  std::vector<Grant> parts;
  const auto take_from = [&](Grant& grant) {
    const DeviceTime part = std::min(amount, grant.left);
    grant.left -= part;
    if (taking == Taking::leaves) grant.granted -= part;
    amount -= part;
    if (part > DeviceTime(0)) parts.push_back({grant.ends, part, part});
  };
  if (taking == Taking::used)
    std::ranges::for_each(budget.grants, take_from);
  else
    std::for_each(budget.grants.rbegin(), budget.grants.rend(), take_from);
  LS_CHECK(amount == DeviceTime(0));
  std::erase_if(budget.grants, [](const Grant& grant) { return grant.left == DeviceTime(0); });
  return parts;
}

// Grants that have all expired are no use of them.
Entry finished(Entry entry, std::vector<Budget> budgets) {
  if (entry.postings.empty()) return entry;
  const bool have_expired = entry.postings.front().kind == PostingKind::expire;
  for (Budget& budget : budgets)
    if (!have_expired || !budget.grants.empty()) update_warning(budget);
  entry.budgets = std::move(budgets);
  return entry;
}

Error too_little(const Budget& budget, DeviceTime amount) {
  return {Code::invalid,
          format("the project {} has {} available, not {}{}", budget.id,
                 in_device_minutes(budget.available), in_device_minutes(amount),
                 budget.held > DeviceTime(0) ? format("; its runs hold {} more, which stay theirs",
                                                      in_device_minutes(budget.held))
                                             : "")};
}

Result<void> check_room(const Budget& budget, DeviceTime amount) {
  if (budget.available + budget.held + budget.spent + amount <= kAmountMax) return {};
  return Error{Code::invalid, format("the project {} would have had more than {}", budget.id,
                                     in_device_minutes(kAmountMax))};
}

}  // namespace

Result<Entry> grant(Budget budget, DeviceTime amount, Time ends, const Signature& signature) {
  if (ends <= signature.time)
    return Error{Code::invalid, format("the grant would have ended at {} already", text(ends))};
  TRY(check_room(budget, amount));
  Entry entry;
  budget.limited = true;
  add_grant(budget, {ends, amount, amount});
  post(entry, PostingKind::grant, {nullptr, Account::bank}, {&budget, Account::available}, amount,
       signature);
  return finished(std::move(entry), {std::move(budget)});
}

Result<Entry> withdraw(Budget budget, DeviceTime amount, const Signature& signature) {
  if (amount > budget.available) return too_little(budget, amount);
  Entry entry;
  take(budget, amount, Taking::leaves);
  post(entry, PostingKind::withdraw, {&budget, Account::available}, {nullptr, Account::bank},
       amount, signature);
  return finished(std::move(entry), {std::move(budget)});
}

Result<Entry> move(Budget from, Budget to, DeviceTime amount, const Signature& signature) {
  if (from.id == to.id)
    return Error{Code::invalid, "the amount is to move to the project that has it"};
  if (amount > from.available) return too_little(from, amount);
  TRY(check_room(to, amount));
  Entry entry;
  to.limited = true;
  for (const Grant& part : take(from, amount, Taking::leaves)) add_grant(to, part);
  post(entry, PostingKind::move, {&from, Account::available}, {&to, Account::available}, amount,
       signature);
  return finished(std::move(entry), {std::move(from), std::move(to)});
}

Entry expire(Budget budget, const Signature& signature) {
  DeviceTime ended(0);
  for (const Grant& grant : budget.grants)
    if (grant.ends <= signature.time) ended += grant.left;
  const DeviceTime amount = std::min(ended, budget.available);
  Entry entry;
  take(budget, amount, Taking::used);
  post(entry, PostingKind::expire, {&budget, Account::available}, {nullptr, Account::bank}, amount,
       signature);
  return finished(std::move(entry), {std::move(budget)});
}

bool can_hold(const Budget& budget, DeviceTime amount) { return amount <= budget.available; }

Result<Entry> hold(Budget budget, DeviceTime amount, const Signature& signature) {
  if (!can_hold(budget, amount)) return Error{Code::exhausted, too_little(budget, amount).message};
  Entry entry;
  post(entry, PostingKind::hold, {&budget, Account::available}, {&budget, Account::held}, amount,
       signature);
  return finished(std::move(entry), {std::move(budget)});
}

Entry settle(Budget budget, DeviceTime held, DeviceTime used, const Signature& signature) {
  LS_CHECK(held <= budget.held);
  Entry entry;
  const DeviceTime beyond = used > held ? std::min(used - held, budget.available) : DeviceTime(0);
  post(entry, PostingKind::hold, {&budget, Account::available}, {&budget, Account::held}, beyond,
       signature);
  const DeviceTime charged = std::min(used, held + beyond);
  take(budget, charged, Taking::used);
  post(entry, PostingKind::settle, {&budget, Account::held}, {&budget, Account::spent}, charged,
       signature);
  post(entry, PostingKind::release, {&budget, Account::held}, {&budget, Account::available},
       held + beyond - charged, signature);
  return finished(std::move(entry), {std::move(budget)});
}

}  // namespace lockstep::budget
