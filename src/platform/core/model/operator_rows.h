// Settings of operators: which hosts take runs, and how many devices projects and users may hold at
// once.
#pragma once

#include <algorithm>
#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "map/map.h"
#include "platform/core/model/audit.h"
#include "platform/core/model/host_state.h"
#include "text/record.h"

namespace lockstep::model {

// A run whose attempt ended because the host's node was lost.
struct HostLoss {
  std::string run;  // demo/42
  Time time{};

  bool operator==(const HostLoss&) const = default;

  static constexpr auto fields() {
    return record<HostLoss>(field("run", &HostLoss::run, "the run that lost an attempt there"),
                            field("time", &HostLoss::time, "when"));
  }
};

// HostRow::unavailable until the engine's first list with the host: nodes of another store may hold
// devices there.
inline constexpr std::string_view kNodesNotKnown = "its nodes are not known yet";

// A host with a setting, or one that joined. All other hosts are open.
struct HostRow {
  std::string id;  // id in the map
  HostState state = HostState::open;
  std::string reason;  // why it is not open; one line
  Time since{};        // since when it has that state
  std::vector<AuditEntry> audit;
  std::vector<HostLoss> losses;  // of the last day, oldest first
  std::string unavailable{};     // why its engine cannot use it now; empty: it can

  // The rest is for a host that joins a cluster of own machines (docs/design/hosts.md).
  std::string pod{};                 // its pod on the map; empty: kDefaultPod
  std::optional<map::Host> facts{};  // what it is on the map; none: it is not on the map
  // The next facts: its service has reported other devices while runs hold devices of `facts`. The
  // host takes no run until these have ended.
  std::optional<map::Host> next_facts{};
  int credential = 0;     // the credential of this number is valid; 0: it never had one
  std::string claim{};    // hex SHA-256 of a value that its service chose; empty: it has not joined
  std::string machine{};  // the id of the installation that joined
  Time joined{};
  map::Labels labels{};  // as an operator set them

  bool operator==(const HostRow&) const = default;
};

inline constexpr std::string_view kDefaultPod = "pod-0";

// A service has joined with a token since the host was last removed.
inline bool has_joined(const HostRow& host) { return !host.claim.empty(); }

// Why it takes no run now, besides what an operator set; empty: nothing keeps it from that.
inline std::string why_unusable(const HostRow& host) {
  if (!host.unavailable.empty() || !host.next_facts) return host.unavailable;
  return "its devices have changed, and runs still hold those of before";
}

// May the scheduler place runs on it? As an operator set it, unless it cannot be used.
inline HostState placement_state(const HostRow& host) {
  return why_unusable(host).empty() ? host.state : std::max(host.state, HostState::closed);
}
inline std::string placement_reason(const HostRow& host) {
  const std::string why = why_unusable(host);
  return why.empty() ? host.reason : why;
}

enum class LimitScope { project, user };
constexpr auto enum_names(LimitScope) {
  return names<LimitScope>({{LimitScope::project, "project"}, {LimitScope::user, "user"}});
}

struct LimitId {
  LimitScope scope = LimitScope::project;
  std::string name;
  auto operator<=>(const LimitId&) const = default;
};

constexpr int kWeightMax = 1000;

// Settings of a project or a user.
struct LimitRow {
  LimitId id;
  std::optional<int> devices{};  // none: no longer limited
  int weight = 1;                // of a project, for its fair share
  // A run of the project is stopped after so long without use of its devices. Zero: no run is;
  // none: the default.
  std::optional<Duration> idle_stop{};

  bool operator==(const LimitRow&) const = default;
};

inline std::string_view text(HostState state) { return lockstep::name_of(state); }
inline std::string_view text(LimitScope scope) { return lockstep::name_of(scope); }
// "project demo"
inline std::string text(const LimitId& id) { return std::string(text(id.scope)) + " " + id.name; }

}  // namespace lockstep::model
