// Buckets: the device time of a personal project, which refills with time up to a cap. Pure
// arithmetic at each use: nothing is updated as time passes. docs/design/budgets-personal.md has
// the rules.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "platform/core/budget/device_time.h"

namespace lockstep::budget {

// How fast a bucket fills, and how much it can have.
struct Refill {
  DeviceTime an_hour{};  // zero: there are no buckets
  DeviceTime cap{};
};

struct Bucket {
  std::string id;      // the project
  DeviceTime level{};  // at `time`
  Time time{};
  DeviceTime held{};   // by attempts that run; not in the level
  DeviceTime spent{};  // by all attempts ever

  bool operator==(const Bucket&) const = default;
};

// A bucket that was never used.
Bucket full_bucket(std::string project, const Refill& refill, Time now);
// Between zero and the cap. A clock that was set back takes nothing.
DeviceTime level_at(const Bucket& bucket, const Refill& refill, Time now);
// When the level reaches the amount if nothing more is held; it may have passed. None: never.
std::optional<Time> time_of_level(const Bucket& bucket, const Refill& refill, DeviceTime amount);

// The amount must be at most the level.
Bucket hold(Bucket bucket, const Refill& refill, DeviceTime amount, Time now);
// Ends a hold: what was used is spent, the rest goes back, up to the cap. A use beyond the hold
// takes what the level has, and no more.
Bucket settle(Bucket bucket, const Refill& refill, DeviceTime held, DeviceTime used, Time now);

}  // namespace lockstep::budget
