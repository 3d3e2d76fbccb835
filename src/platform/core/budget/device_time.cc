#include "platform/core/budget/device_time.h"

#include <algorithm>

#include "base/format.h"

namespace lockstep::budget {
namespace {

constexpr std::size_t kDigitsMax = 12;                             // before the point
constexpr DeviceTime kHundredth = std::chrono::milliseconds(600);  // of a device-minute

bool is_number(std::string_view digits) {
  return !digits.empty() &&
         std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
}

std::int64_t number_of(std::string_view digits) {
  std::int64_t number = 0;
  for (const char digit : digits) number = 10 * number + (digit - '0');
  return number;
}

// "480", "0.25"
std::string minutes_text(DeviceTime amount) {
  const std::int64_t hundredths = amount / kHundredth;
  const std::string_view sign = hundredths < 0 ? "-" : "";
  const std::int64_t size = std::abs(hundredths);
  if (size % 100 == 0) return format("{}{}", sign, size / 100);
  return format("{}{}.{:02}", sign, size / 100, size % 100);
}

}  // namespace

DeviceTime use_of(std::int64_t rate_percent, Duration time) {
  const auto used = static_cast<__int128>(rate_percent) * time.count() / 100;
  return used > kAmountMax.count() ? kAmountMax : DeviceTime(static_cast<std::int64_t>(used));
}

std::string in_device_minutes(DeviceTime amount) {
  return minutes_text(amount) + " device-minutes";
}

Result<DeviceTime> parse_device_time(std::string_view words) {
  const Error error{Code::invalid,
                    format("'{}' is no amount: device-minutes above zero, such as 480 "
                           "or 0.25, or device-hours, such as 8h",
                           words.substr(0, 40))};
  const bool hours = words.ends_with('h');
  if (hours) words.remove_suffix(1);
  const std::size_t point = std::min(words.find('.'), words.size());
  const std::string_view whole = words.substr(0, point);
  const bool has_point = point < words.size();
  const std::string_view rest = has_point ? words.substr(point + 1) : "0";
  if (!is_number(whole) || whole.size() > kDigitsMax || !is_number(rest) || rest.size() > 2)
    return error;
  const std::int64_t hundredths =
      100 * number_of(whole) + number_of(rest) * (rest.size() == 1 ? 10 : 1);
  const DeviceTime amount = hundredths * kHundredth * (hours ? 60 : 1);
  if (amount <= DeviceTime(0)) return error;
  if (amount > kAmountMax)
    return Error{Code::invalid,
                 format("'{}' is too much: at most {}", words, in_device_minutes(kAmountMax))};
  return amount;
}

}  // namespace lockstep::budget
