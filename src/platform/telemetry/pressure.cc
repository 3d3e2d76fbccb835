// Pressure stall information (Documentation/accounting/psi.rst): /proc/pressure/memory has lines
// such as "some avg10=0.00 avg60=0.00 avg300=0.00 total=123", in microseconds. "some": at least one
// task waited; "full": all of them did.
#include <string>
#include <string_view>

#include "base/format.h"
#include "platform/telemetry/host_sources.h"
#include "platform/telemetry/rates.h"
#include "platform/telemetry/text_files.h"

namespace lockstep::telemetry {
namespace {

class Pressure : public Source {
 public:
  explicit Pressure(const std::filesystem::path& root) : folder_(root / "proc/pressure") {}

  void read(Duration now, Readings& readings) override {
    for (const char* resource : {"cpu", "memory", "io"}) {
      const std::string text = text_in(folder_ / resource);
      for (const std::string_view line : lines_of(text)) read_line(resource, line, now, readings);
    }
  }

 private:
  void read_line(std::string_view resource, std::string_view line, Duration now,
                 Readings& readings) {
    constexpr std::string_view kTotal = "total=";
    constexpr double kPercentOfMicrosecond = 1e-4;  // of a second
    const Words words = words_of(line);
    if (words.size() < 2 || !words.back().starts_with(kTotal)) return;
    const auto total = number_of(words.back().substr(kTotal.size()));
    if (!total || (words[0] != "some" && words[0] != "full")) return;
    const std::string metric = format("pressure/{}_{}_percent", resource, words[0]);
    if (const auto rate = rates_.per_second(metric, *total, now))
      readings[metric] = *rate * kPercentOfMicrosecond;
  }

  const std::filesystem::path folder_;
  Rates rates_;
};

}  // namespace

std::unique_ptr<Source> pressure_source(const std::filesystem::path& root) {
  return std::make_unique<Pressure>(root);
}

}  // namespace lockstep::telemetry
