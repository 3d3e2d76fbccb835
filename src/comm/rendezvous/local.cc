#include "comm/rendezvous/local.h"

#include "base/format.h"

namespace lockstep::comm {

Result<void> LocalRendezvous::set(std::string_view key, std::string_view value) {
  Lock lock(mutex_);
  const auto [entry, added] = entries_.emplace(key, value);
  if (!added && entry->second != value)
    return Error{Code::already_exists, format("key '{}' is set already to another value", key)};
  changed_.notify_all();
  return {};
}

Result<std::string> LocalRendezvous::get(std::string_view key, Deadline deadline) {
  Lock lock(mutex_);
  for (;;) {
    if (const auto entry = entries_.find(key); entry != entries_.end()) return entry->second;
    if (deadline.passed()) return Error{Code::timeout, format("no rank has set '{}' in time", key)};
    changed_.wait_until(mutex_, deadline);
  }
}

}  // namespace lockstep::comm
