#include "platform/core/budget/bucket.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lockstep::budget {
namespace {

using Wide = __int128;  // for the product of two durations

constexpr Duration kHour = std::chrono::hours(1);

// The level at `now` is its new beginning.
void move_to(Bucket& bucket, const Refill& refill, Time now) {
  bucket.level = level_at(bucket, refill, now);
  bucket.time = now;
}

}  // namespace

Bucket full_bucket(std::string project, const Refill& refill, Time now) {
  return {.id = std::move(project), .level = refill.cap, .time = now};
}

DeviceTime level_at(const Bucket& bucket, const Refill& refill, Time now) {
  const Duration passed = std::max(now - bucket.time, Duration(0));
  const Wide added = Wide{refill.an_hour.count()} * passed.count() / kHour.count();
  const Wide level = std::min(bucket.level.count() + added, Wide{refill.cap.count()});
  return DeviceTime(static_cast<std::int64_t>(level));
}

std::optional<Time> time_of_level(const Bucket& bucket, const Refill& refill, DeviceTime amount) {
  if (amount > refill.cap) return std::nullopt;
  if (amount <= bucket.level) return bucket.time;
  if (refill.an_hour <= DeviceTime(0)) return std::nullopt;
  const Wide missing = (amount - bucket.level).count();
  const Wide wait = (missing * kHour.count() + refill.an_hour.count() - 1) / refill.an_hour.count();
  if (wait > (Time::max() - bucket.time).count()) return std::nullopt;
  return bucket.time + Duration(static_cast<std::int64_t>(wait));
}

Bucket hold(Bucket bucket, const Refill& refill, DeviceTime amount, Time now) {
  move_to(bucket, refill, now);
  LS_CHECK(amount >= DeviceTime(0) && amount <= bucket.level);
  bucket.level -= amount;
  bucket.held += amount;
  return bucket;
}

Bucket settle(Bucket bucket, const Refill& refill, DeviceTime held, DeviceTime used, Time now) {
  LS_CHECK(held <= bucket.held);
  move_to(bucket, refill, now);
  const DeviceTime charged = std::min(used, held + bucket.level);
  bucket.held -= held;
  bucket.spent += charged;
  bucket.level = std::min(bucket.level + held - charged, refill.cap);
  return bucket;
}

}  // namespace lockstep::budget
