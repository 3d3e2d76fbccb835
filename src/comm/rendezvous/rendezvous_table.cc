#include "comm/rendezvous/rendezvous_table.h"

#include <utility>

#include "base/format.h"
#include "base/log.h"

namespace lockstep::comm {
namespace {

// The waiting gets of one client; Lockstep's client sends one request at a time.
constexpr std::size_t kPendingGetLimit = 64;
// For one client; a member has two at a time.
constexpr std::size_t kTombstoneLimit = 16;

}  // namespace

void RendezvousTable::handle(ClientId client, const Request& request) {
  const auto& [number, verb, key, value] = request;
  if (verb == "S")
    reply(client, number, set(key, value));
  else if (verb == "W")
    reply(client, number, add_tombstone(client, {key, value}));
  else if (verb == "N")
    start_watch(client, {number, key});
  else
    get(client, request);
}

void RendezvousTable::remove(ClientId client) {
  watches_.erase(client);
  auto found = clients_.extract(client);
  if (!found) return;
  for (const auto& key : found.mapped().pending_keys) forget_get(client, key);
  for (const auto& [key, value] : found.mapped().tombstones) {
    if (entries_.contains(key)) continue;
    if (auto done = set(key, value); !done)
      LS_LOG(warning, "rendezvous: setting a tombstone: {}", done.error().message);
  }
}

void RendezvousTable::reply(ClientId client, const std::string& number,
                            const Result<void>& outcome) {
  reply_(client, number, outcome ? "ok" : lockstep::text(outcome.error().code),
         outcome ? "" : std::string_view(outcome.error().message));
}

Result<void> RendezvousTable::set(const std::string& key, const std::string& value) {
  TRY(store(key, value));
  if (const auto waiting = pending_gets_.extract(key))
    for (const auto& [client, number] : waiting.mapped()) {
      std::erase(clients_[client].pending_keys, key);
      reply_(client, number, "ok", value);
    }
  for (const auto& [client, watch] : watches_)
    if (key.starts_with(watch.prefix)) reply_(client, watch.number, "ok", key);
  return {};
}

Result<void> RendezvousTable::store(const std::string& key, const std::string& value) {
  if (key.size() + value.size() > static_cast<std::size_t>(entry_limit_.count()))
    return Error{Code::exhausted, format("'{}' and its value have {} bytes, the limit is {}", key,
                                         key.size() + value.size(), lockstep::text(entry_limit_))};
  if (const auto entry = entries_.find(key); entry != entries_.end()) {
    if (entry->second == value) return {};
    return Error{Code::already_exists, format("key '{}' is set already to another value", key)};
  }
  if (entries_.size() >= entries_limit_)
    return Error{Code::exhausted,
                 format("the rendezvous holds {} entries, its limit", entries_.size())};
  entries_.emplace(key, value);
  return {};
}

void RendezvousTable::get(ClientId client, const Request& request) {
  const auto& key = request.key;
  if (const auto entry = entries_.find(key); entry != entries_.end())
    return reply_(client, request.number, "ok", entry->second);
  auto& pending = clients_[client].pending_keys;
  if (pending.size() >= kPendingGetLimit) {
    forget_get(client, pending.front());
    pending.erase(pending.begin());
  }
  pending.push_back(key);
  pending_gets_[key].push_back({client, request.number});
}

void RendezvousTable::forget_get(ClientId client, const std::string& key) {
  const auto found = pending_gets_.find(key);
  if (found == pending_gets_.end()) return;
  std::erase_if(found->second, [&](const PendingGet& one) { return one.client == client; });
  if (found->second.empty()) pending_gets_.erase(found);
}

// Each existing or new key is a separate response.
void RendezvousTable::start_watch(ClientId client, Watch watch) {
  for (auto entry = entries_.lower_bound(watch.prefix);
       entry != entries_.end() && entry->first.starts_with(watch.prefix); ++entry)
    reply_(client, watch.number, "ok", entry->first);
  watches_[client] = std::move(watch);
}

Result<void> RendezvousTable::add_tombstone(ClientId client, Tombstone tombstone) {
  auto& tombstones = clients_[client].tombstones;
  std::erase_if(tombstones, [&](const Tombstone& other) {
    return other.key == tombstone.key || entries_.contains(other.key);
  });
  if (tombstones.size() >= kTombstoneLimit)
    return Error{Code::exhausted,
                 format("a client may leave {} keys behind, not more", kTombstoneLimit)};
  tombstones.push_back(std::move(tombstone));
  return {};
}

}  // namespace lockstep::comm
