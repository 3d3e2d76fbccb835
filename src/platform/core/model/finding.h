// Finding: a fault that the daemon has found in the telemetry and the metrics of a run, such as a
// rank that is slower than the others. docs/design/findings.md has the rules.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::model {

enum class FindingKind {
  straggler,
  silent_rank,
  data_loading,
  throttling,
  ecc_errors,
  xid_error,
  slow_link,
  lost_device,
};
constexpr auto enum_names(FindingKind) {
  return names<FindingKind>({{FindingKind::straggler, "straggler"},
                             {FindingKind::silent_rank, "silent_rank"},
                             {FindingKind::data_loading, "data_loading"},
                             {FindingKind::throttling, "throttling"},
                             {FindingKind::ecc_errors, "ecc_errors"},
                             {FindingKind::xid_error, "xid_error"},
                             {FindingKind::slow_link, "slow_link"},
                             {FindingKind::lost_device, "lost_device"}});
}

// The act that followed. Each one contains those before it.
enum class FindingAct { event, cordon, rerun };
constexpr auto enum_names(FindingAct) {
  return names<FindingAct>({{FindingAct::event, "event"},
                            {FindingAct::cordon, "cordon"},
                            {FindingAct::rerun, "re-run"}});
}

// A subject has at most one open finding in an attempt.
struct Subject {
  FindingKind kind = FindingKind::straggler;
  std::optional<int> node{};    // none: the whole attempt
  std::optional<int> rank{};    // none: not about one rank
  std::optional<int> device{};  // of the host; none: not about one device
  std::string part{};           // of the host, such as the network interface

  auto operator<=>(const Subject&) const = default;
};

struct Finding {
  Subject subject{};
  Time since{};
  Time last_seen{};
  std::optional<Time> ended{};
  std::string text{};  // one line for people, without the host and the rank
  // The host is at fault, so it can be cordoned: not the program.
  bool of_hardware = false;

  bool operator==(const Finding&) const = default;
};

}  // namespace lockstep::model
