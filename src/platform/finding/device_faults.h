// DeviceFaults: faults of a host and its devices, from the telemetry of one node.
//
// Throttling and errors of a link are judged over the last 30 samples, so a short peak is none.
// Counters are compared with the value up to which they were judged, a mark, which the store keeps:
// a growth while the daemon was away is found, and none is found twice. A gap in the telemetry
// begins nothing and ends nothing, because only samples count.
#pragma once

#include <bitset>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "platform/finding/open_findings.h"

namespace lockstep::finding {

using Readings = std::map<std::string, double>;

class DeviceFaults {
 public:
  explicit DeviceFaults(int node) : node_(node) {}

  // A sample. Samples come in the order of their times; a repeated one has no effect.
  void observe(Time time, const Readings& readings, OpenFindings& findings);

  void restore_mark(const std::string& metric, double value) { marks_[metric] = value; }
  // Those that have changed since the last call.
  Readings take_changed_marks() { return std::exchange(changed_marks_, {}); }

 private:
  static constexpr std::size_t kWindow = 30;  // samples
  struct Window {
    std::bitset<kWindow> faulty;
    int samples = 0;
    Time since{};  // the first faulty sample of the window
  };
  enum class Baseline { zero, first_reading };

  void observe_device(int device, Time time, std::string_view metric, double value,
                      const Readings& readings, OpenFindings& findings);
  void judge(const Subject& subject, bool is_faulty, Time time, const std::string& text,
             OpenFindings& findings);
  // By how much the counter has grown since it was judged.
  double growth(const std::string& metric, double value, Baseline baseline);
  void set_mark(const std::string& metric, double value);
  Subject subject(FindingKind kind, std::optional<int> device, std::string part = {}) const;

  const int node_;
  std::map<std::string, Time, std::less<>> sampled_;  // by the metric's first part: the last time
  std::map<Subject, Window> windows_;
  Readings marks_;
  Readings changed_marks_;
};

}  // namespace lockstep::finding
