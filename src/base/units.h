// Quantities with their unit in the type: Bytes, Bandwidth, Duration, Time. No bare integer with a
// unit crosses a function boundary.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

// A whole number of one unit: adds to itself, scales by plain numbers, divides to a plain ratio.
template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t count) : count_(count) {}
  constexpr std::int64_t count() const { return count_; }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.count_ + b.count_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.count_ - b.count_);
  }
  friend constexpr Quantity operator*(Quantity a, std::int64_t n) { return Quantity(a.count_ * n); }
  friend constexpr Quantity operator*(std::int64_t n, Quantity a) { return a * n; }
  friend constexpr Quantity operator/(Quantity a, std::int64_t n) { return Quantity(a.count_ / n); }
  friend constexpr std::int64_t operator/(Quantity a, Quantity b) { return a.count_ / b.count_; }
  constexpr Quantity& operator+=(Quantity other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    count_ -= other.count_;
    return *this;
  }

 private:
  std::int64_t count_ = 0;
};

using Bytes = Quantity<struct BytesTag>;
using Bandwidth = Quantity<struct BandwidthTag>;  // bytes a second

// Microseconds resolve every duration of the platform and the map.
using Duration = std::chrono::microseconds;
// UTC, microseconds since 1970: what is stored and shown.
using Time = std::chrono::time_point<std::chrono::system_clock, Duration>;

// For values in plain seconds, such as the API's numbers.
constexpr double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
// Whole microseconds, truncated. Within a Duration's range: 292,000 years.
constexpr Duration from_seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

constexpr Bytes operator""_B(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n)); }
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n << 10));
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n << 20));
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n << 30));
}
// Decimal, as is usual for networks: 10_Gbit is 1.25e9 bytes a second.
constexpr Bandwidth operator""_Gbit(unsigned long long n) {
  return Bandwidth(static_cast<std::int64_t>(n * 125'000'000));
}

// For users: "4.0 GiB", "10.0 Gbit/s", "1h 5m", "2026-11-21T10:00:00Z".
std::string text(Bytes bytes);
std::string text(Bandwidth bandwidth);
std::string text(Duration duration);
std::string text(Time time);

// Parses the text that users write: "512MiB", "4 GB"; "10 Gbit/s", "50 GB/s"; "90s", "1h30m",
// "250us".
Result<Bytes> parse_bytes(std::string_view input);
Result<Bandwidth> parse_bandwidth(std::string_view input);
Result<Duration> parse_duration(std::string_view input);
Result<Time> parse_time(std::string_view input);

}  // namespace lockstep
