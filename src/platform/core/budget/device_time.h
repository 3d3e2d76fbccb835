// DeviceTime: the unit of budgets, the time of one device of weight 1. An hour of one device of
// weight 4 is a device time of four hours, and two devices use twice as much as one.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::budget {

using DeviceTime = Duration;

// No sum of the daemon's leaves the range of 64 bits.
inline constexpr DeviceTime kAmountMax = std::chrono::minutes(1'000'000'000);
inline constexpr int kWeightMax = 10'000;  // percent

// The use at this rate, which is the sum of the weights of all devices, in percent. At most
// kAmountMax.
DeviceTime use_of(std::int64_t rate_percent, Duration time);

// "480 device-minutes", with two digits after the point unless they are zero.
std::string in_device_minutes(DeviceTime amount);
// Device-minutes, such as "480" or "0.25"; with h, device-hours. Code::invalid: no such number, not
// positive, more than two digits after the point, or above kAmountMax.
Result<DeviceTime> parse_device_time(std::string_view words);

}  // namespace lockstep::budget
