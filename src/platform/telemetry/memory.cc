// From proc(5): lines such as "MemAvailable:   12345 kB" in /proc/meminfo.
#include <map>
#include <string>
#include <string_view>

#include "platform/telemetry/host_sources.h"
#include "platform/telemetry/text_files.h"

namespace lockstep::telemetry {
namespace {

class Memory : public Source {
 public:
  explicit Memory(const std::filesystem::path& root) : file_(root / "proc/meminfo") {}

  void read(Duration, Readings& readings) override {
    constexpr double kKiB = 1024;
    const std::string text = text_in(file_);
    std::map<std::string_view, double> bytes;
    for (const std::string_view line : lines_of(text)) {
      const Words words = words_of(line);
      if (const auto amount = number_at(words, 1)) bytes[words[0]] = *amount * kKiB;
    }
    const auto add = [&](const char* metric, std::string_view name) {
      if (const auto found = bytes.find(name); found != bytes.end())
        readings[metric] = found->second;
    };
    add("memory/total_bytes", "MemTotal:");
    add("memory/available_bytes", "MemAvailable:");
    add("memory/page_cache_bytes", "Cached:");
    if (bytes.contains("SwapTotal:") && bytes.contains("SwapFree:"))
      readings["memory/swap_used_bytes"] = bytes["SwapTotal:"] - bytes["SwapFree:"];
  }

 private:
  const std::filesystem::path file_;
};

}  // namespace

std::unique_ptr<Source> memory_source(const std::filesystem::path& root) {
  return std::make_unique<Memory>(root);
}

}  // namespace lockstep::telemetry
