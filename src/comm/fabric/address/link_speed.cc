#include "comm/fabric/address/link_speed.h"

#include <charconv>
#include <cstdint>

#include "base/os/files.h"

namespace lockstep::comm {

std::optional<Bandwidth> link_speed(const std::string& interface,
                                    const std::filesystem::path& interfaces) {
  constexpr std::int64_t kBytesPerMegabit = 125'000;
  constexpr std::int64_t kMost = 100'000'000;  // Mbit/s; a larger value means unknown
  const auto content = read_file(interfaces / interface / "speed", 64);
  if (!content) return std::nullopt;
  std::int64_t megabits = 0;
  const auto read = std::from_chars(content->data(), content->data() + content->size(), megabits);
  if (read.ec != std::errc() || megabits <= 0 || megabits > kMost) return std::nullopt;
  return Bandwidth(megabits * kBytesPerMegabit);
}

}  // namespace lockstep::comm
