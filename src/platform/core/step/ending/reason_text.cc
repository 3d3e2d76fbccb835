#include "platform/core/step/ending/reason_text.h"

#include <csignal>
#include <cstring>
#include <map>

#include "base/format.h"

namespace lockstep::step {

namespace {

// Empty before the engine has named it.
std::string on_host(const model::Node& node) {
  return node.host.empty() ? "" : " on host " + node.host;
}

}  // namespace

std::string short_text(Duration duration) {
  using std::chrono::hours, std::chrono::minutes;
  if (duration >= hours(1) && duration % hours(1) == Duration(0))
    return format("{}h", duration / hours(1));
  if (duration >= minutes(1) && duration < hours(1) && duration % minutes(1) == Duration(0))
    return format("{}m", duration / minutes(1));
  return text(duration);
}

std::string whole_seconds_text(Duration duration) {
  return text(Duration(std::chrono::floor<std::chrono::seconds>(duration)));
}

std::string describe_location(const model::Node& node) {
  return format("node {}{}", node.id.index, on_host(node));
}

std::string describe_location(const model::Node& node, const model::Rank& rank) {
  return format("rank {}{}", rank.rank, on_host(node));
}

std::string signal_name(int number) {
  if (number == 0) return "an unknown signal";
  const char* name = number > 0 && number < NSIG ? ::sigabbrev_np(number) : nullptr;
  return name ? format("signal {} (SIG{})", number, name) : format("signal {}", number);
}

std::string short_signal_name(int number) {
  const char* name = number > 0 && number < NSIG ? ::sigabbrev_np(number) : nullptr;
  return name ? format("SIG{}", name) : format("signal {}", number);
}

std::vector<std::string> describe_orphans(const model::State& state) {
  std::map<model::RunId, std::map<std::string, std::size_t>> devices;  // by run and host
  for (const auto& [name, orphan] : state.orphans)
    devices[name.id.attempt.run][orphan.devices.host] += orphan.devices.devices.size();
  std::vector<std::string> lines;
  for (const auto& [run, by_host] : devices) {
    std::vector<std::string> locations;
    for (const auto& [host, count] : by_host)
      locations.push_back(host.empty()
                              ? "devices that are not known"
                              : format("{} device{} on {}", count, count == 1 ? "" : "s", host));
    lines.push_back(
        format("a run of another store is active here: {} ({}); `lockstep orphan stop {}` "
               "ends it, `lockstep orphan adopt {}` takes it over",
               text(run), joined(locations, ", "), text(run), text(run)));
  }
  return lines;
}

std::string one_line(std::string_view input) {
  constexpr std::size_t kLimit = 300;
  std::string line(input.substr(0, kLimit));
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  // Drops a character that the cut would split.
  const auto continues = [&](std::size_t i) {
    return i > 0 && i < input.size() && (static_cast<unsigned char>(input[i]) & 0xc0) == 0x80;
  };
  std::size_t cut = line.size();
  while (continues(cut)) --cut;
  line.resize(cut);
  return line;
}

}  // namespace lockstep::step
