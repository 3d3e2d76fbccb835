// Documentation/power/powercap: the zone intel-rapl:0 is a processor package, intel-rapl:0:1 a part
// of it such as its DRAM. energy_uj counts microjoules and begins again after max_energy_range_uj.
// The driver has the same zones for AMD's processors.
#include <algorithm>
#include <string>

#include "base/format.h"
#include "platform/telemetry/host_sources.h"
#include "platform/telemetry/rates.h"
#include "platform/telemetry/text_files.h"

namespace lockstep::telemetry {
namespace {

class Power : public Source {
 public:
  explicit Power(const std::filesystem::path& root) : zones_(root / "sys/class/powercap") {}

  void read(Duration now, Readings& readings) override {
    constexpr double kWattOfMicrojoule = 1e-6;  // a second
    for (const auto& zone : entries_in(zones_)) {
      const std::string name = zone.filename().string();
      const auto energy = number_in(zone / "energy_uj");
      if (!name.starts_with("intel-rapl:") || !energy) continue;
      const double range = number_in(zone / "max_energy_range_uj").value_or(0);
      if (const auto rate = rates_.per_second(name, *energy, now, range))
        readings[format("cpu/{}_power_watts", domain_of(name))] = *rate * kWattOfMicrojoule;
    }
  }

 private:
  // "package0" of intel-rapl:0, "package0_dram" of intel-rapl:0:1.
  std::string domain_of(const std::string& zone) const {
    std::string own = text_in(zones_ / zone / "name");
    std::erase(own, '-');
    const std::size_t last = zone.rfind(':');
    const std::string parent = zone.substr(0, last);
    return parent.find(':') == parent.npos ? own : format("{}_{}", domain_of(parent), own);
  }

  const std::filesystem::path zones_;
  Rates rates_;
};

}  // namespace

std::unique_ptr<Source> power_source(const std::filesystem::path& root) {
  return std::make_unique<Power>(root);
}

}  // namespace lockstep::telemetry
