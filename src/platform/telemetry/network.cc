// From proc(5): a line of /proc/net/dev is "eth0: BYTES packets ERRORS DROPPED fifo frame
// compressed multicast", then the same eight counters of what was sent. InfiniBand: port_rcv_data
// and port_xmit_data count words of four bytes (Documentation/ABI/stable/sysfs-class-infiniband).
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "platform/telemetry/host_sources.h"
#include "platform/telemetry/rates.h"
#include "platform/telemetry/text_files.h"

namespace lockstep::telemetry {
namespace {

constexpr std::size_t kInterfacesMax = 16;  // a machine of containers has hundreds

struct Interface {
  std::string_view name;
  Words counters;
};

std::vector<Interface> interfaces_in(std::string_view text) {
  std::vector<Interface> found;
  for (const std::string_view line : lines_of(text)) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const Words name = words_of(line.substr(0, colon));
    if (name.size() == 1 && name[0] != "lo")
      found.push_back({name[0], words_of(line.substr(colon + 1))});
  }
  return found;
}

class Network : public Source {
 public:
  explicit Network(const std::filesystem::path& root)
      : file_(root / "proc/net/dev"),
        interfaces_(root / "sys/class/net"),
        infiniband_(root / "sys/class/infiniband") {}

  void read(Duration now, Readings& readings) override {
    const std::string text = text_in(file_);
    for (const auto& [name, counters] : carrying(interfaces_in(text))) {
      const std::string prefix = format("network/{}/", name);
      const auto add = [&](const char* metric, std::optional<double> value) {
        if (value) add_rate(prefix + metric, *value, now, readings);
      };
      add("receive_bytes_per_second", number_at(counters, 0));
      add("transmit_bytes_per_second", number_at(counters, 8));
      add("errors_per_second", sum(number_at(counters, 2), number_at(counters, 10)));
      add("drops_per_second", sum(number_at(counters, 3), number_at(counters, 11)));
    }
    read_infiniband(now, readings);
  }

 private:
  static std::optional<double> sum(std::optional<double> one, std::optional<double> other) {
    return one && other ? std::optional(*one + *other) : std::nullopt;
  }

  // Cards. In a container, which has none, all interfaces.
  std::vector<Interface> carrying(std::vector<Interface> all) const {
    std::vector<Interface> cards;
    std::ranges::copy_if(all, std::back_inserter(cards), [&](const Interface& each) {
      std::error_code ignored;
      return std::filesystem::exists(interfaces_ / each.name / "device", ignored);
    });
    std::vector<Interface>& chosen = cards.empty() ? all : cards;
    chosen.resize(std::min(chosen.size(), kInterfacesMax));
    return chosen;
  }

  void read_infiniband(Duration now, Readings& readings) {
    constexpr double kWord = 4;
    for (const auto& card : entries_in(infiniband_))
      for (const auto& port : entries_in(card / "ports")) {
        const std::string prefix =
            format("infiniband/{}_{}/", card.filename().string(), port.filename().string());
        if (const auto words = number_in(port / "counters/port_rcv_data"))
          add_rate(prefix + "receive_bytes_per_second", *words * kWord, now, readings);
        if (const auto words = number_in(port / "counters/port_xmit_data"))
          add_rate(prefix + "transmit_bytes_per_second", *words * kWord, now, readings);
      }
  }

  void add_rate(const std::string& metric, double counter, Duration now, Readings& readings) {
    if (const auto rate = rates_.per_second(metric, counter, now)) readings[metric] = *rate;
  }

  const std::filesystem::path file_, interfaces_, infiniband_;
  Rates rates_;
};

}  // namespace

std::unique_ptr<Source> network_source(const std::filesystem::path& root) {
  return std::make_unique<Network>(root);
}

}  // namespace lockstep::telemetry
