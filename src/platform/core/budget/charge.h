// The charge of an attempt: what it holds of its project's budget, and the record of what it used.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "platform/core/budget/device_time.h"
#include "text/record.h"

namespace lockstep::budget {

// The weight of a kind of device, in percent of a device of weight 1.
struct Rate {
  std::string id;  // the kind
  int weight_percent = 100;

  bool operator==(const Rate&) const = default;
};

// From a moment on, until which all is settled, an attempt uses its devices at this rate.
struct Charge {
  std::int64_t rate_percent = 0;  // the sum of the weights of its devices
  DeviceTime held{};              // of its project; zero: the project has no budget
  Time from{};
  Time until{};           // when it is renewed
  bool personal = false;  // `held` is of the personal bucket

  bool operator==(const Charge&) const = default;

  static constexpr auto fields() {
    return record<Charge>(field("rate_percent", &Charge::rate_percent, "of all its devices"),
                          field("held", &Charge::held, "device time that it holds"),
                          field("from", &Charge::from, "since when it is not settled"),
                          field("until", &Charge::until, "when it is renewed"),
                          field("personal", &Charge::personal, "it holds that of a bucket"));
  }
};

// The use of devices of one kind by an attempt, in a part of its time.
struct UsagePart {
  std::string run;  // demo/42
  std::int64_t epoch = 0;
  std::string project;
  std::string user;
  std::string kind;  // of the devices
  int devices = 0;
  int starts = 0;  // 1 in the first part of an attempt, so that a sum counts attempts
  Time from{};
  Time until{};
  DeviceTime used{};     // weighted
  DeviceTime charged{};  // without what was lost to hosts, moves and evictions; with the discount

  bool operator==(const UsagePart&) const = default;
};

}  // namespace lockstep::budget
