// From proc(5): the first line of /proc/stat is "cpu", then the ticks of all processors in the
// modes user, nice, system, idle, iowait, irq, softirq, steal.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/telemetry/host_sources.h"
#include "platform/telemetry/text_files.h"

namespace lockstep::telemetry {
namespace {

constexpr std::size_t kCpuModes = 8;  // the ticks of guests are in those of user and nice, too
constexpr std::size_t kIdle = 3, kIoWait = 4, kSteal = 7;

class Cpu : public Source {
 public:
  explicit Cpu(const std::filesystem::path& root) : proc_(root / "proc") {}

  void read(Duration, Readings& readings) override {
    read_ticks(readings);
    const std::string load = text_in(proc_ / "loadavg");
    if (const auto one = number_at(words_of(load), 0)) readings["cpu/load1"] = *one;
  }

 private:
  void read_ticks(Readings& readings) {
    const std::string stat = text_in(proc_ / "stat");
    const Words words = words_of(std::string_view(stat).substr(0, stat.find('\n')));
    std::vector<double> ticks;
    for (std::size_t mode = 0; mode < kCpuModes; ++mode) {
      const auto ticks_of_mode = number_at(words, mode + 1);
      if (!ticks_of_mode) return;
      ticks.push_back(*ticks_of_mode);
    }
    const std::vector<double> before = std::exchange(last_, ticks);
    if (before.empty()) return;
    for (std::size_t mode = 0; mode < kCpuModes; ++mode) ticks[mode] -= before[mode];
    const double all = std::accumulate(ticks.begin(), ticks.end(), 0.0);
    if (all <= 0) return;
    const auto percent = [all](double part) { return std::clamp(100 * part / all, 0.0, 100.0); };
    readings["cpu/utilization_percent"] = percent(all - ticks[kIdle] - ticks[kIoWait]);
    readings["cpu/iowait_percent"] = percent(ticks[kIoWait]);
    readings["cpu/steal_percent"] = percent(ticks[kSteal]);
  }

  const std::filesystem::path proc_;
  std::vector<double> last_;
};

}  // namespace

std::unique_ptr<Source> cpu_source(const std::filesystem::path& root) {
  return std::make_unique<Cpu>(root);
}

}  // namespace lockstep::telemetry
