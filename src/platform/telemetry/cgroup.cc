// From Documentation/admin-guide/cgroup-v2.rst: /proc/self/cgroup has the line "0::/PATH";
// cpu.stat has lines such as "usage_usec 123".
#include <string>
#include <string_view>

#include "platform/telemetry/host_sources.h"
#include "platform/telemetry/rates.h"
#include "platform/telemetry/text_files.h"

namespace lockstep::telemetry {
namespace {

std::filesystem::path own_group(const std::filesystem::path& root) {
  constexpr std::string_view kUnified = "0::/";
  const std::string text = text_in(root / "proc/self/cgroup");
  for (const std::string_view line : lines_of(text))
    if (line.starts_with(kUnified)) return root / "sys/fs/cgroup" / line.substr(kUnified.size());
  return {};
}

class Cgroup : public Source {
 public:
  explicit Cgroup(const std::filesystem::path& root) : group_(own_group(root)) {}

  void read(Duration now, Readings& readings) override {
    if (group_.empty()) return;
    constexpr double kSecondsOfMicrosecond = 1e-6;
    const std::string stat = text_in(group_ / "cpu.stat");
    for (const std::string_view line : lines_of(stat)) {
      const Words words = words_of(line);
      const auto counter = number_at(words, 1);
      if (!counter) continue;
      const bool is_usage = words[0] == "usage_usec";
      if (!is_usage && words[0] != "throttled_usec") continue;
      const char* metric = is_usage ? "cgroup/cpu_cores" : "cgroup/throttled_cores";
      if (const auto rate = rates_.per_second(metric, *counter, now))
        readings[metric] = *rate * kSecondsOfMicrosecond;
    }
    if (const auto bytes = number_in(group_ / "memory.current"))
      readings["cgroup/memory_bytes"] = *bytes;
  }

 private:
  const std::filesystem::path group_;
  Rates rates_;
};

}  // namespace

std::unique_ptr<Source> cgroup_source(const std::filesystem::path& root) {
  return std::make_unique<Cgroup>(root);
}

}  // namespace lockstep::telemetry
