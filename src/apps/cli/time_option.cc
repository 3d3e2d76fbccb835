#include "apps/cli/time_option.h"

#include <optional>

#include "base/clock.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

std::optional<Time> time_or_date(const std::string& words) {
  if (const auto time = parse_time(words)) return *time;
  if (const auto date = parse_time(words + "T00:00:00Z")) return *date;
  return std::nullopt;
}

Error no_time(std::string_view option, const std::string& words) {
  return {Code::invalid, format("{}: '{}' is neither a time such as 2026-11-22T12:00:00Z, nor a "
                                "date, nor a duration such as 2h",
                                option, words)};
}

}  // namespace

Result<Time> past_time_option(std::string_view option, const std::string& words) {
  if (const auto time = time_or_date(words)) return *time;
  if (const auto before = parse_duration(words)) return SystemClock().now() - *before;
  return no_time(option, words);
}

Result<Time> future_time_option(std::string_view option, const std::string& words) {
  if (const auto time = time_or_date(words)) return *time;
  if (const auto from_now = parse_duration(words)) return SystemClock().now() + *from_now;
  return no_time(option, words);
}

}  // namespace lockstep::cli
