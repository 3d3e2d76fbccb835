// FlightLabel: the purpose of the collectives that this thread calls, such as the unit of a model
// ("layers.7"). During its lifetime the flight record of each collective contains it; a nested
// label replaces it. It is a thread-local, so that it passes through every layer between.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::comm {

class FlightLabel {
 public:
  static constexpr std::size_t kBytes = 24;
  using Words = std::array<std::uint64_t, kBytes / sizeof(std::uint64_t)>;

  // Truncated to kBytes.
  explicit FlightLabel(std::string_view label) noexcept;
  ~FlightLabel();
  FlightLabel(const FlightLabel&) = delete;
  FlightLabel& operator=(const FlightLabel&) = delete;

  // The label of this thread, padded with zeros.
  static const Words& current() noexcept;
  // For scopes that are no C++ scope: sets the label and returns the previous one.
  static Words exchange(const Words& label) noexcept;
  static Words encode(std::string_view label) noexcept;

 private:
  const Words outer_;
};

}  // namespace lockstep::comm
