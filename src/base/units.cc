#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <ctime>
#include <optional>
#include <utility>

namespace lockstep {
namespace {

struct Scale {
  std::string_view name;
  double factor;
};

// A number and the text after it, without surrounding blanks.
std::optional<std::pair<double, std::string_view>> split_number(std::string_view input) {
  while (!input.empty() && input.front() == ' ') input.remove_prefix(1);
  double number = 0;
  auto [end, error] = std::from_chars(input.data(), input.data() + input.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  input.remove_prefix(static_cast<std::size_t>(end - input.data()));
  while (!input.empty() && input.front() == ' ') input.remove_prefix(1);
  while (!input.empty() && input.back() == ' ') input.remove_suffix(1);
  return std::pair(number, input);
}

std::optional<std::int64_t> whole(double value) {
  if (!(value < 9.2e18)) return std::nullopt;
  return std::llround(value);
}

template <std::size_t N>
std::optional<std::int64_t> scaled(std::string_view input, const std::array<Scale, N>& scales) {
  auto parts = split_number(input);
  if (!parts) return std::nullopt;
  for (const Scale& scale : scales)
    if (scale.name == parts->second) return whole(parts->first * scale.factor);
  return std::nullopt;
}

constexpr std::array<Scale, 10> kBytes = {{{"", 1},
                                           {"B", 1},
                                           {"KB", 1e3},
                                           {"MB", 1e6},
                                           {"GB", 1e9},
                                           {"TB", 1e12},
                                           {"KiB", 1024.0},
                                           {"MiB", 1048576.0},
                                           {"GiB", 1073741824.0},
                                           {"TiB", 1099511627776.0}}};
constexpr std::array<Scale, 6> kBandwidths = {{{"Mbit/s", 125e3},
                                               {"Gbit/s", 125e6},
                                               {"Tbit/s", 125e9},
                                               {"MB/s", 1e6},
                                               {"GB/s", 1e9},
                                               {"TB/s", 1e12}}};
// In microseconds. "m" is a minute.
constexpr std::array<Scale, 6> kDurations = {
    {{"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"m", 60e6}, {"h", 3600e6}, {"d", 86400e6}}};

}  // namespace

std::string text(Bytes bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes.count());
  if (std::abs(value) < 1024) return format("{} B", bytes.count());
  std::size_t unit = 0;
  for (value /= 1024; std::abs(value) >= 1024 && unit + 1 < kUnits.size(); value /= 1024) ++unit;
  return format("{:.1f} {}", value, kUnits[unit]);
}

std::string text(Bandwidth bandwidth) {
  double mbit = static_cast<double>(bandwidth.count()) / 125e3;
  if (mbit < 1000) return format("{:.1f} Mbit/s", mbit);
  return format("{:.1f} Gbit/s", mbit / 1000);
}

std::string text(Duration duration) {
  std::int64_t us = duration.count();
  if (us < 0) return "-" + text(-duration);
  if (us == 0) return "0s";
  if (us < 1000) return format("{}us", us);
  // A decimal only if it is not zero.
  auto in_units = [us](std::int64_t unit, std::string_view name) {
    return format("{:.{}f}{}", static_cast<double>(us) / static_cast<double>(unit),
                  us % unit == 0 ? 0 : 1, name);
  };
  if (us < 1'000'000) return in_units(1000, "ms");
  if (us < 60'000'000) return in_units(1'000'000, "s");
  const std::int64_t s = us / 1'000'000;
  const auto in_two_units = [](std::int64_t whole, std::string_view name, std::int64_t rest,
                               std::string_view rest_name) {
    return rest == 0 ? format("{}{}", whole, name)
                     : format("{}{} {}{}", whole, name, rest, rest_name);
  };
  if (s < 3600) return in_two_units(s / 60, "m", s % 60, "s");
  if (s < 86400) return in_two_units(s / 3600, "h", s / 60 % 60, "m");
  return in_two_units(s / 86400, "d", s / 3600 % 24, "h");
}

std::string text(Time time) {
  std::time_t seconds = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  const std::string whole =
      format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
             parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
  std::int64_t us =
      (time.time_since_epoch() - std::chrono::floor<std::chrono::seconds>(time).time_since_epoch())
          .count();
  return us == 0 ? format("{}Z", whole) : format("{}.{:06}Z", whole, us);
}

Result<Bytes> parse_bytes(std::string_view input) {
  if (auto n = scaled(input, kBytes)) return Bytes(*n);
  return Error{Code::invalid, format("'{}' is not a size; write 512MiB, 4GiB or 10GB", input)};
}

Result<Bandwidth> parse_bandwidth(std::string_view input) {
  if (auto n = scaled(input, kBandwidths)) return Bandwidth(*n);
  return Error{Code::invalid, format("'{}' is not a bandwidth; write 10 Gbit/s or 50 GB/s", input)};
}

Result<Duration> parse_duration(std::string_view input) {
  std::string_view rest = input;
  double total = 0;
  while (true) {
    auto parts = split_number(rest);
    if (!parts) break;
    std::size_t letters = 0;
    while (letters < parts->second.size() &&
           std::isalpha(static_cast<unsigned char>(parts->second[letters])) != 0)
      ++letters;
    auto value = scaled(format("{}{}", parts->first, parts->second.substr(0, letters)), kDurations);
    if (!value) break;
    total += static_cast<double>(*value);
    rest = parts->second.substr(letters);
    if (auto n = whole(total); n && rest.empty()) return Duration(*n);
  }
  return Error{Code::invalid, format("'{}' is not a duration; write 90s, 30m or 1h30m", input)};
}

Result<Time> parse_time(std::string_view input) {
  std::tm parts{};
  std::string copy(input);
  const char* rest = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::int64_t us = 0;
  if (rest != nullptr && *rest == '.') {
    ++rest;
    int digits = 0;
    for (; std::isdigit(static_cast<unsigned char>(*rest)) != 0; ++rest, ++digits)
      if (digits < 6) us = us * 10 + (*rest - '0');
    for (; digits < 6; ++digits) us *= 10;
  }
  if (rest == nullptr || std::string_view(rest) != "Z")
    return Error{Code::invalid, format("'{}' is not a time; write 2026-01-31T12:00:00Z", input)};
  return Time(std::chrono::seconds(::timegm(&parts)) + Duration(us));
}

}  // namespace lockstep
