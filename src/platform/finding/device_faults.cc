#include "platform/finding/device_faults.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <utility>

#include "base/format.h"

namespace lockstep::finding {
namespace {

constexpr int kFaultyToBegin = 15, kFaultyToEnd = 3;  // of the window's samples
constexpr double kCorrectedErrorsMin = 10;            // that are worth a finding
constexpr double kReplaysPerSample = 1;
constexpr double kErrorsPerSecond = 1;

// Bits of NVML's clocks event reasons. A power limit is none of them: at full load it is the rule.
constexpr std::uint64_t kHardwareSlowdown = 0x08, kSoftwareThermal = 0x20, kHardwareThermal = 0x40,
                        kPowerBrake = 0x80;
constexpr std::array kReasons = {std::pair(kHardwareThermal, "the hardware's limit of temperature"),
                                 std::pair(kSoftwareThermal, "the driver's limit of temperature"),
                                 std::pair(kPowerBrake, "the power brake of its power supply"),
                                 std::pair(kHardwareSlowdown, "a slowdown of the hardware")};

// Xid errors that NVIDIA's documentation attributes to the program, not to the GPU.
constexpr std::array kXidsOfPrograms = {13.0, 31.0, 43.0, 45.0};

// "device3/power_watts": 3.
std::optional<int> device_of(std::string_view name) {
  constexpr std::string_view kPrefix = "device";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int device = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), device);
  if (error != std::errc() || end == name.data() + name.size() || *end != '/') return std::nullopt;
  return device;
}

std::optional<double> reading(const Readings& readings, const std::string& metric) {
  const auto found = readings.find(metric);
  return found == readings.end() ? std::nullopt : std::optional(found->second);
}

std::string throttling_text(double reasons) {
  const auto bits = static_cast<std::uint64_t>(reasons);
  for (const auto& [bit, name] : kReasons)
    if ((bits & bit) != 0) return format("its clocks are lowered because of {}", name);
  return "its clocks are lowered";
}

bool is_throttled(double reasons) {
  constexpr std::uint64_t kFaults =
      kHardwareSlowdown | kSoftwareThermal | kHardwareThermal | kPowerBrake;
  return (static_cast<std::uint64_t>(reasons) & kFaults) != 0;
}

}  // namespace

Subject DeviceFaults::subject(FindingKind kind, std::optional<int> device, std::string part) const {
  return {.kind = kind, .node = node_, .device = device, .part = std::move(part)};
}

void DeviceFaults::observe(Time time, const Readings& readings, OpenFindings& findings) {
  // The sources of a host and of its devices have samples of their own.
  const bool of_devices = !readings.empty() && readings.begin()->first.starts_with("device");
  Time& last = sampled_[of_devices ? "device" : "host"];
  if (time <= last) return;
  last = time;
  for (const auto& [name, value] : readings) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos) continue;
    const std::string_view metric = std::string_view(name).substr(slash + 1);
    if (const auto device = device_of(name)) {
      observe_device(*device, time, metric, value, readings, findings);
    } else if (name.starts_with("network/") && metric.ends_with("/errors_per_second")) {
      const std::string interface(metric.substr(0, metric.find('/')));
      judge(subject(FindingKind::slow_link, std::nullopt, interface), value >= kErrorsPerSecond,
            time, format("the network interface {} has {:.0f} errors per second", interface, value),
            findings);
    }
  }
}

void DeviceFaults::observe_device(int device, Time time, std::string_view metric, double value,
                                  const Readings& readings, OpenFindings& findings) {
  using enum FindingKind;
  const std::string name = format("device{}/{}", device, metric);
  const auto report = [&](FindingKind kind, std::string text, bool of_hardware) {
    findings.record(subject(kind, device), time, std::move(text), of_hardware);
  };
  if (metric == "clocks_event_reasons") {
    judge(subject(throttling, device), is_throttled(value), time, throttling_text(value), findings);
  } else if (metric == "pcie_replays_total") {
    const double grown = growth(name, value, Baseline::first_reading);
    if (grown > 0) set_mark(name, value);
    judge(subject(slow_link, device), grown >= kReplaysPerSample, time,
          format("its PCIe link repeats packets: {:.0f} so far", value), findings);
  } else if (metric == "ecc_uncorrected_total") {
    if (growth(name, value, Baseline::first_reading) <= 0) return;
    set_mark(name, value);
    report(ecc_errors, format("uncorrected ECC errors: {:.0f} since its driver started", value),
           true);
  } else if (metric == "ecc_corrected_total") {
    if (growth(name, value, Baseline::first_reading) < kCorrectedErrorsMin) return;
    set_mark(name, value);
    report(ecc_errors, format("corrected ECC errors grow: {:.0f} since its driver started", value),
           true);
  } else if (metric == "xid_errors_total") {
    if (growth(name, value, Baseline::zero) <= 0) return;
    set_mark(name, value);
    const double number = reading(readings, format("device{}/xid_last", device)).value_or(0);
    const bool of_program = std::ranges::find(kXidsOfPrograms, number) != kXidsOfPrograms.end();
    report(xid_error,
           format("Xid error {:.0f}{}; {:.0f} since the ranks began", number,
                  of_program ? ", which programs cause" : "", value),
           !of_program);
  } else if (metric == "lost") {
    if (value > 0)
      findings.observe(subject(lost_device, device), time, time, "it has fallen off the bus", true);
    else
      findings.end(subject(lost_device, device), time);
  }
}

void DeviceFaults::judge(const Subject& subject, bool is_faulty, Time time, const std::string& text,
                         OpenFindings& findings) {
  // Healthy subjects need no window.
  if (!is_faulty && !windows_.contains(subject) && !findings.has(subject)) return;
  Window& window = windows_[subject];
  if (is_faulty && window.faulty.none()) window.since = time;
  window.faulty <<= 1;
  window.faulty[0] = is_faulty;
  if (window.samples < static_cast<int>(kWindow)) ++window.samples;
  const auto faulty = static_cast<int>(window.faulty.count());
  if (faulty >= kFaultyToBegin && is_faulty)
    findings.observe(subject, window.since, time, text, true);
  if (faulty <= kFaultyToEnd && window.samples == static_cast<int>(kWindow)) {
    findings.end(subject, time);
    if (faulty == 0) windows_.erase(subject);
  }
}

// A counter that has become lower began again: with the driver, or with the ranks.
double DeviceFaults::growth(const std::string& metric, double value, Baseline baseline) {
  const auto found = marks_.find(metric);
  if (found != marks_.end() && value >= found->second) return value - found->second;
  if (found == marks_.end() && baseline == Baseline::zero && value == 0) return 0;
  if (baseline == Baseline::zero) return value;
  set_mark(metric, value);
  return 0;
}

void DeviceFaults::set_mark(const std::string& metric, double value) {
  marks_[metric] = value;
  changed_marks_[metric] = value;
}

}  // namespace lockstep::finding
