// FlightMemory: the memory of a flight record: a file mapped into memory, or anonymous memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::comm {

// The variable that names the folder.
inline constexpr auto kFlightFolderVariable = "LOCKSTEP_FLIGHT_DIR";
inline constexpr std::string_view kFlightFileExtension = ".flight";

// rank-3.world.flight. A group name that is no valid file name is replaced by a unique valid one.
std::string flight_file_name(int rank, std::string_view group);

class FlightMemory {
 public:
  using Fill = std::function<void(std::byte*)>;

  // Zeroed, then filled by `fill`. The file gets its name only after that, so a reader never finds
  // a half-written one. It replaces a file of the same name.
  static Result<FlightMemory> create_in_file(const std::filesystem::path& path, std::size_t bytes,
                                             const Fill& fill);
  static Result<FlightMemory> create_anonymous(std::size_t bytes, const Fill& fill);

  FlightMemory(FlightMemory&& other) noexcept;
  FlightMemory& operator=(FlightMemory&&) = delete;
  ~FlightMemory();

  std::byte* data() const { return data_; }

 private:
  FlightMemory(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace lockstep::comm
