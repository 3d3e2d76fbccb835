// Facts about this process for its operators, from /proc/self. Unknown ones are absent.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::server {

struct ProcessFacts {
  std::optional<double> cpu_seconds{};
  std::optional<std::int64_t> resident_bytes{};
  std::optional<std::int64_t> open_files{};
  std::optional<std::int64_t> files_max{};
};
ProcessFacts process_facts();

}  // namespace lockstep::server
