// FlightMemory: where a flight record lies: a file mapped into memory, or memory alone.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

// The variable that names the folder.
inline constexpr auto kFlightFolder = "LOCKSTEP_FLIGHT_DIR";
inline constexpr std::string_view kFlightEnding = ".flight";

// rank-3.world.flight. A group whose name is no file name gets one that is, and its own.
std::string flight_file_name(int rank, std::string_view group);

class FlightMemory {
 public:
  using Fill = std::function<void(std::byte*)>;

  // Zeroed, then filled by `fill`; a file gets its name only after that, so nobody finds a
  // half-written one. It takes the place of one of the same name.
  static Result<FlightMemory> in_file(const std::filesystem::path& path, std::size_t bytes,
                                      const Fill& fill);
  static Result<FlightMemory> alone(std::size_t bytes, const Fill& fill);

  FlightMemory(FlightMemory&& other) noexcept;
  FlightMemory& operator=(FlightMemory&&) = delete;
  ~FlightMemory();

  std::byte* data() const { return data_; }

 private:
  FlightMemory(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace lockstep
