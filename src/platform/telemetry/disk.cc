// From Documentation/admin-guide/iostats.rst: a line of /proc/diskstats is "major minor NAME", then
// reads, merged, SECTORS READ, ms, writes, merged, SECTORS WRITTEN, ms, in progress, BUSY MS, ...
// A sector has 512 bytes there, whatever the disk has.
#include <string>
#include <string_view>

#include "base/format.h"
#include "platform/telemetry/host_sources.h"
#include "platform/telemetry/rates.h"
#include "platform/telemetry/text_files.h"

namespace lockstep::telemetry {
namespace {

constexpr std::size_t kDisksMax = 32;  // a reading has a bound of values

class Disks : public Source {
 public:
  explicit Disks(const std::filesystem::path& root)
      : file_(root / "proc/diskstats"), blocks_(root / "sys/block") {}

  void read(Duration now, Readings& readings) override {
    constexpr double kSector = 512, kPercentOfMillisecond = 0.1;  // of a second
    const std::string text = text_in(file_);
    std::size_t disks = 0;
    for (const std::string_view line : lines_of(text)) {
      const Words words = words_of(line);
      if (words.size() < 13 || !is_disk(words[2])) continue;
      if (++disks > kDisksMax) return;
      const auto add = [&](const char* metric, std::size_t place, double scale) {
        const std::string name = format("disk/{}/{}", words[2], metric);
        const auto counter = number_at(words, place);
        const auto rate = counter ? rates_.per_second(name, *counter, now) : std::nullopt;
        if (rate) readings[name] = *rate * scale;
      };
      add("read_bytes_per_second", 5, kSector);
      add("written_bytes_per_second", 9, kSector);
      add("busy_percent", 12, kPercentOfMillisecond);
    }
  }

 private:
  // No partition, and none that is made of others (loop, md, device mapper).
  bool is_disk(std::string_view name) const {
    std::error_code ignored;
    return std::filesystem::exists(blocks_ / name / "device", ignored);
  }

  const std::filesystem::path file_, blocks_;
  Rates rates_;
};

}  // namespace

std::unique_ptr<Source> disk_source(const std::filesystem::path& root) {
  return std::make_unique<Disks>(root);
}

}  // namespace lockstep::telemetry
