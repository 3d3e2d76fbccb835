// FlightLabel: what the collectives that this thread calls are for, such as the unit of a model
// ("layers.7"). While it lives it stands in the flight record of each of them; inside another it
// stands for that one. A thread-local, so that it passes through every layer between.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

class FlightLabel {
 public:
  static constexpr std::size_t kBytes = 24;
  using Words = std::array<std::uint64_t, kBytes / sizeof(std::uint64_t)>;

  // Cut to kBytes.
  explicit FlightLabel(std::string_view label) noexcept;
  ~FlightLabel();
  FlightLabel(const FlightLabel&) = delete;
  FlightLabel& operator=(const FlightLabel&) = delete;

  // This thread's, filled up with zeros.
  static const Words& current() noexcept;
  // For scopes that are no C++ scope: the label from now on; what it was before.
  static Words exchange(const Words& label) noexcept;
  static Words words_of(std::string_view label) noexcept;

 private:
  const Words outer_;
};

}  // namespace lockstep
