#include "text/exact.h"

#include <array>
#include <cstdint>

#include "base/format.h"

namespace lockstep {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t size;
};

constexpr std::array<Unit, 5> kBytes = {
    {{"TiB", 1LL << 40}, {"GiB", 1LL << 30}, {"MiB", 1LL << 20}, {"KiB", 1LL << 10}, {"B", 1}}};
constexpr std::array<Unit, 3> kBandwidths = {
    {{"Tbit/s", 125'000'000'000}, {"Gbit/s", 125'000'000}, {"Mbit/s", 125'000}}};
constexpr std::array<Unit, 6> kDurations = {{{"d", 86'400'000'000},
                                             {"h", 3'600'000'000},
                                             {"m", 60'000'000},
                                             {"s", 1'000'000},
                                             {"ms", 1'000},
                                             {"us", 1}}};

// parse() accepts no sign: quantities of users have none.
template <class T>
Result<T> parse_signed(std::string_view input, Result<T> (*parse)(std::string_view)) {
  if (input.empty() || input.front() != '-') return parse(input);
  auto result = parse(input.substr(1));
  if (result) return T() - *result;
  return parse(input);  // its error shows the whole text
}

}  // namespace

std::string exact_text(Bytes bytes) {
  std::int64_t n = bytes.count();
  for (const Unit& unit : kBytes)
    if (n != 0 && n % unit.size == 0) return format("{} {}", n / unit.size, unit.name);
  return "0 B";
}

std::string exact_text(Bandwidth bandwidth) {
  std::int64_t n = bandwidth.count();
  for (const Unit& unit : kBandwidths)
    if (n != 0 && n % unit.size == 0) return format("{} {}", n / unit.size, unit.name);
  if (n < 0) return "-" + exact_text(Bandwidth(-n));
  std::string fraction = format("{:06}", n % 1'000'000);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return format("{}{}{} MB/s", n / 1'000'000, fraction.empty() ? "" : ".", fraction);
}

std::string exact_text(Duration duration) {
  std::int64_t left = duration.count();
  if (left == 0) return "0s";
  if (left < 0) return "-" + exact_text(-duration);
  std::string result;
  for (const Unit& unit : kDurations) {
    if (left < unit.size) continue;
    result += format("{}{}{}", result.empty() ? "" : " ", left / unit.size, unit.name);
    left %= unit.size;
  }
  return result;
}

std::string exact_text(Time time) { return text(time); }

template <>
Result<Bytes> parse_exact(std::string_view input) {
  return parse_signed(input, parse_bytes);
}
template <>
Result<Bandwidth> parse_exact(std::string_view input) {
  return parse_signed(input, parse_bandwidth);
}
template <>
Result<Duration> parse_exact(std::string_view input) {
  return parse_signed(input, parse_duration);
}
template <>
Result<Time> parse_exact(std::string_view input) {
  return parse_time(input);
}

}  // namespace lockstep
