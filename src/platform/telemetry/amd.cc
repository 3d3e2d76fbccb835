// Documentation/gpu/amdgpu: the folder of a card's device has gpu_busy_percent, mem_busy_percent
// and mem_info_vram_*; its hwmon has microwatts, thousandths of a degree and hertz;
// ras/umc_err_count has "ue: N" and "ce: N".
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "platform/telemetry/device_sources.h"
#include "platform/telemetry/text_files.h"

namespace lockstep::telemetry {
namespace {

using std::filesystem::path;

// By PCI address: /sys/bus/pci/drivers/amdgpu has a link of that name for each card.
std::vector<path> amd_cards(const path& root) {
  std::vector<path> cards = entries_in(root / "sys/bus/pci/drivers/amdgpu");
  std::erase_if(cards, [](const path& each) {
    return each.filename().string().find(':') == std::string::npos;  // "bind", "new_id"
  });
  return cards;
}

class Amd : public Source {
 public:
  Amd(const std::vector<GpuOfRun>& gpus, const path& root) {
    const std::vector<path> cards = amd_cards(root);
    for (const GpuOfRun& gpu : gpus)
      if (gpu.number >= 0 && static_cast<std::size_t>(gpu.number) < cards.size())
        gpus_.push_back(
            {format("device{}/", gpu.number), cards[static_cast<std::size_t>(gpu.number)]});
  }

  void read(Duration, Readings& readings) override {
    for (const Card& card : gpus_) read(card, readings);
  }

 private:
  struct Card {
    std::string prefix;
    path folder;
  };

  static void read(const Card& card, Readings& readings) {
    const auto add = [&](const char* metric, const path& file, double unit) {
      if (const auto value = number_in(file)) readings[card.prefix + metric] = *value * unit;
    };
    add("utilization_percent", card.folder / "gpu_busy_percent", 1);
    add("memory_utilization_percent", card.folder / "mem_busy_percent", 1);
    add("memory_used_bytes", card.folder / "mem_info_vram_used", 1);
    add("memory_total_bytes", card.folder / "mem_info_vram_total", 1);
    constexpr double kMicro = 1e-6, kMilli = 1e-3;
    for (const path& monitor : entries_in(card.folder / "hwmon")) {
      add("power_watts", monitor / "power1_input", kMicro);
      add("power_watts", monitor / "power1_average", kMicro);
      add("power_limit_watts", monitor / "power1_cap", kMicro);
      add("temperature_celsius", monitor / "temp1_input", kMilli);
      add("memory_temperature_celsius", monitor / "temp3_input", kMilli);
      add("sm_clock_hertz", monitor / "freq1_input", 1);
      add("memory_clock_hertz", monitor / "freq2_input", 1);
    }
    read_errors(card, readings);
  }

  static void read_errors(const Card& card, Readings& readings) {
    const std::string text = text_in(card.folder / "ras/umc_err_count");
    for (const std::string_view line : lines_of(text)) {
      const Words words = words_of(line);
      const auto count = number_at(words, 1);
      if (!count) continue;
      if (words[0] == "ue:") readings[card.prefix + "ecc_uncorrected_total"] = *count;
      if (words[0] == "ce:") readings[card.prefix + "ecc_corrected_total"] = *count;
    }
  }

  std::vector<Card> gpus_;
};

}  // namespace

std::unique_ptr<Source> amd_source(const std::vector<GpuOfRun>& gpus, const path& root) {
  return std::make_unique<Amd>(gpus, root);
}

}  // namespace lockstep::telemetry
