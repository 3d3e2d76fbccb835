#include "platform/server/people/accounts.h"

#include <chrono>

#include "base/log.h"
#include "platform/identity/changes.h"

namespace lockstep::server {
namespace {

constexpr int kRefusalsMax = 60;
constexpr Duration kUseStored = std::chrono::minutes(10);

std::int64_t minute_of(Time time) {
  return std::chrono::floor<std::chrono::minutes>(time).time_since_epoch().count();
}

}  // namespace

Result<std::unique_ptr<Accounts>> Accounts::open(store::IdentityStore& store, const Clock& clock,
                                                 std::string_view unix_user) {
  identity::Directory directory = TRY(store.load_directory());
  directory.daemon_user = identity::name_of_unix_user(unix_user);
  const identity::Changes first = identity::first_rows(directory, clock.now());
  if (!first.empty()) TRY(store.commit(first, {}));
  identity::apply(directory, first);
  return std::unique_ptr<Accounts>(new Accounts(store, clock, std::move(directory)));
}

Result<void> Accounts::change(const identity::Changes& changes, const model::AuditRecord& record) {
  if (changes.empty()) return {};
  TRY(store_.commit(changes, record));
  identity::apply(directory_, changes);
  return {};
}

Result<void> Accounts::record(const model::AuditRecord& record) {
  return store_.commit({}, record);
}

void Accounts::record_refusal(model::AuditRecord record) {
  const std::int64_t minute = minute_of(record.time);
  if (minute != std::exchange(refusal_minute_, minute)) refusals_.clear();
  if (++refusals_[record.user] > kRefusalsMax) return;
  record.refused = true;
  if (const auto stored = store_.commit({}, record); !stored)
    LS_LOG(warning, "{} was refused {} on {}, which the audit could not record: {}", record.user,
           record.action, record.target, stored.error().message);
}

void Accounts::record_use(const identity::Bearer& bearer) {
  const auto found = directory_.tokens.find(bearer.token);
  if (found == directory_.tokens.end()) return;
  const Time now = clock_.now();
  const auto& last = found->second.last_used;
  if (last && now >= *last && now - *last < kUseStored) return;
  identity::Token token = found->second;
  token.last_used = now;
  const identity::Changes changes = {{std::move(token)}};
  identity::apply(directory_, changes);  // once for each ten minutes, also if it cannot be stored
  if (const auto stored = store_.commit(changes, {}); !stored)
    LS_LOG(warning, "the last use of a token of {}: {}", bearer.user, stored.error().message);
}

}  // namespace lockstep::server
