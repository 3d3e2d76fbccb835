// Janitor: what remains of ended nodes and old runs goes away, a few milliseconds at a time, on the
// daemon's thread (docs/design/keeping.md).
//
// It keeps no record of its own. A node that has ended and still has its launch file is swept:
// first what its spool holds goes into the store, then spool, secret, sockets and launch file are
// removed, that one last. So whoever is killed in the midst of it, the next daemon finds the same
// work again. A run that ended long ago loses its lines and its ranks' own files. Nodes that the
// store does not know are left alone, and so are checkpoints.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/complaints.h"
#include "base/steady_clock.h"
#include "platform/core/model/state.h"
#include "platform/insight/insight.h"
#include "platform/janitor/glean.h"

namespace lockstep {

inline constexpr Duration kKeepLogs = std::chrono::days(30);
// A clock may be wrong by a month and be set right within hours. So nothing is removed because of
// its age in the daemon's first hours, and in the first hours after the clock was set forward by a
// day or more.
inline constexpr Duration kClockTrusted = std::chrono::hours(6);

struct JanitorSetup {
  const State& state;  // the controller's; these five outlive the janitor
  insight::Insight& insight;
  Database& database;
  const Clock& clock;
  const SteadyClock& steady;
  std::filesystem::path home;
  std::function<std::string(const NodeName&)> token_of;  // by which node_files.h names its sockets
  Duration keep_logs = kKeepLogs;                        // after the run's end
  Bytes unused_most = 64_MiB;  // of the store's file: more is given back, the rest filled again
};

class Janitor {
 public:
  explicit Janitor(JanitorSetup setup)
      : setup_(std::move(setup)),
        complaints_(setup_.clock),
        trusted_since_(setup_.steady.passed()) {}

  // Something of this run changed: its nodes that have ended come first.
  void look_at(const RunId& run);
  // Call it at every tick. It ends after some 5 ms, or when nothing is left to do.
  void slice();
  // What goes wrong just now, a line for each cause, for operators; the rest goes on.
  std::vector<std::string> troubles() const { return complaints_.current(); }

 private:
  enum class Found { work, nothing };

  Found do_something();
  Found glean();
  Found see_to_queue();
  Found go_round();
  Found shrink();
  Found catch_up();
  Time clock_zero() const { return setup_.clock.now() - setup_.steady.passed(); }
  bool trusts_clock();
  void see_to(const NodeId& node);
  void see_to_age(const NodeId& node);
  void sweep(const NodeId& node);
  void try_later(const NodeId& node, const Error& error);
  bool went_well(const char* what, const std::optional<Error>& error);

  JanitorSetup setup_;
  Complaints complaints_;
  std::set<NodeId> queue_;         // ended just now
  std::unique_ptr<Glean> glean_;   // the one that is under way
  NodeId gleaned_;                 // its node
  std::optional<NodeId> at_;       // the last node that this round has seen
  std::optional<RunId> expiring_;  // its lines are being removed
  std::set<NodeId> failed_;        // to be tried again
  // By the steady clock:
  Duration next_round_{};  // no round is under way until then
  Duration retry_{};       // those that failed are tried again from then on
  // What the clock showed when the steady one stood at zero, and since when that is believed.
  Time zero_ = clock_zero();
  Duration trusted_since_{};
};

}  // namespace lockstep
