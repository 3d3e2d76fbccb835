#include "comm/torch/rendezvous_store.h"

#include <utility>

#include <c10/util/Exception.h>

#include "base/clock.h"
#include "base/format.h"
#include "comm/torch/work.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

// Other threads use the connection, and the end of the group is seen, between these.
constexpr auto kWaitSlice = milliseconds(50);
constexpr auto kCheckBound = milliseconds(2);

}  // namespace

RendezvousStore::RendezvousStore(std::unique_ptr<RendezvousClient> client, std::string prefix,
                                 milliseconds timeout, OperationFuture group_end)
    : c10d::Store(timeout),
      prefix_(std::move(prefix) + "/"),
      group_end_(std::move(group_end)),
      client_(std::move(client)) {}

c10::intrusive_ptr<c10d::Store> RendezvousStore::clone() {
  return c10::intrusive_ptr<Store>::reclaim_copy(this);
}

void RendezvousStore::set(const std::string& key, const std::vector<std::uint8_t>& value) {
  const Lock lock(mutex_);
  if (const auto done = client_->set(prefix_ + key, std::string(value.begin(), value.end())); !done)
    raise_failure(done.error());
}

std::vector<std::uint8_t> RendezvousStore::get(const std::string& key) {
  const auto value = wait_for(key, getTimeout());
  return {value.begin(), value.end()};
}

bool RendezvousStore::check(const std::vector<std::string>& keys) {
  for (const auto& key : keys) {
    const auto value = try_get(key, kCheckBound);
    if (value) continue;
    if (value.error().code == Code::timeout) return false;
    raise_failure(value.error());
  }
  return true;
}

void RendezvousStore::wait(const std::vector<std::string>& keys) { wait(keys, getTimeout()); }

void RendezvousStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  for (const auto& key : keys) (void)wait_for(key, timeout);
}

std::string RendezvousStore::wait_for(const std::string& key, milliseconds timeout) {
  const auto deadline = Deadline::after(timeout);
  for (;;) {
    auto value = try_get(key, kWaitSlice);
    if (value) return *std::move(value);
    if (value.error().code != Code::timeout || deadline.passed()) raise_failure(value.error());
    if (!group_end_.done()) continue;
    const auto end = group_end_.wait();
    raise_failure(end ? value.error() : end.error());
  }
}

Result<std::string> RendezvousStore::try_get(const std::string& key, Duration bound) {
  const Lock lock(mutex_);
  return client_->get(prefix_ + key, Deadline::after(bound));
}

bool RendezvousStore::deleteKey(const std::string& /*key*/) { return false; }

std::int64_t RendezvousStore::add(const std::string& key, std::int64_t /*value*/) {
  C10_THROW_ERROR(NotImplementedError,
                  format("the rendezvous of a run has no counters, such as {}", key));
}

std::int64_t RendezvousStore::getNumKeys() {
  C10_THROW_ERROR(NotImplementedError, "the rendezvous of a run does not count its keys");
}

}  // namespace lockstep::comm
