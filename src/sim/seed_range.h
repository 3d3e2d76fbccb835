// SeedRange: seeds to try, written as "1..5000".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::sim {

struct SeedRange {
  std::uint64_t first = 1;
  std::uint64_t last = 1;  // >= first, and tried too
  std::uint64_t count() const { return last - first + 1; }
  std::string text() const;
};

Result<SeedRange> parse_seed_range(std::string_view words);

}  // namespace lockstep::sim
