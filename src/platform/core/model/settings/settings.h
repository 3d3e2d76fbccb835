// Settings: the bounds of the daemon that operators may change, by `lockstep serve --set`.
// docs/design/settings.md lists them.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/core/model/finding.h"
#include "text/joined_record.h"
#include "text/record.h"

namespace lockstep::model {

// The longest time limits of runs.
inline constexpr Duration kTimeoutMax = std::chrono::hours(24 * 365);
inline constexpr Duration kDebugTimeoutMax = std::chrono::hours(1);

inline constexpr Duration kGracePeriodDefault = std::chrono::seconds(10);

struct Settings {
  Duration unreachable_after = std::chrono::seconds(30);
  Duration lost_after = std::chrono::minutes(5);
  int widespread_percent = 20;
  Duration widespread_lost_after = std::chrono::minutes(30);
  Duration first_call_limit = std::chrono::seconds(60);
  Duration start_limit = std::chrono::minutes(5);
  Duration grace_period = kGracePeriodDefault;
  Duration log_delivery_limit = std::chrono::minutes(5);
  Duration kill_interval = std::chrono::seconds(5);
  Duration retry_pause_first = std::chrono::seconds(2);
  Duration retry_pause_max = std::chrono::minutes(1);
  Duration connection_timeout = std::chrono::seconds(5);
  int node_stops_per_day = 100;
  Duration host_silent_after = std::chrono::seconds(30);
  Bytes upload_limit = 500_MiB;
  Bytes artifact_max = 64_GiB;
  Duration lease = std::chrono::minutes(30);  // zero: never
  int slurm_jobs_max = 1'000;
  Duration budget_window = std::chrono::hours(24);
  int preemptible_price_percent = 50;
  Duration timeout_debug = std::chrono::hours(1);
  Duration timeout_normal = std::chrono::hours(1);
  Duration timeout_preemptible = std::chrono::hours(1);
  int personal_refill = 0;  // zero: there are no personal buckets
  int personal_cap = 480;
  Duration personal_timeout_max = std::chrono::hours(1);
  std::string finding_cordon = "none";  // kinds of findings, with commas
  std::string finding_rerun = "none";

  bool operator==(const Settings&) const = default;

  static constexpr auto silence_fields() {
    return record<Settings>(
        field("unreachable_after", &Settings::unreachable_after,
              "without a heartbeat, until a node is unreachable"),
        field("lost_after", &Settings::lost_after,
              "without a heartbeat, until an unreachable node is lost and killed"),
        between(1, 100,
                field("widespread_percent", &Settings::widespread_percent,
                      "if a larger share of the nodes is unreachable, on several hosts, the daemon "
                      "or the network is at fault")),
        field("widespread_lost_after", &Settings::widespread_lost_after,
              "the same as lost_after, while the daemon or the network is at fault"),
        field("first_call_limit", &Settings::first_call_limit,
              "from the launch of an agent to its first heartbeat"),
        field("start_limit", &Settings::start_limit,
              "from the allocation of an attempt until the ranks of all its nodes run"),
        field("grace_period", &Settings::grace_period,
              "from SIGTERM to SIGKILL, for runs without a grace_period of their own"),
        field("log_delivery_limit", &Settings::log_delivery_limit,
              "from the order to stop until an agent that still sends logs is killed; also the "
              "longest grace_period of a run"),
        field("kill_interval", &Settings::kill_interval,
              "between two kills of a node that does not end"),
        field("retry_pause_first", &Settings::retry_pause_first,
              "before the second retry of a run; it doubles with each further one"),
        field("retry_pause_max", &Settings::retry_pause_max, "the longest pause before a retry"),
        field(
            "connection_timeout", &Settings::connection_timeout,
            "LOCKSTEP_CONNECTION_TIMEOUT of the ranks: without an answer, until the connection to "
            "another host is lost"));
  }
  static constexpr auto run_fields() {
    return record<Settings>(
        between(0, 1'000'000,
                field("node_stops_per_day", &Settings::node_stops_per_day,
                      "attempts of a run that may end within a day because a host shuts down or "
                      "takes its devices back; each further one is a loss")),
        field("host_silent_after", &Settings::host_silent_after,
              "without a call of its host service, until a host takes no run; a third of it is the "
              "longest time between two calls"),
        field("upload_limit", &Settings::upload_limit,
              "the size of a folder that `lockstep run --upload` may send"),
        field("artifact_max", &Settings::artifact_max, "the size of a file that a run logs"),
        field("lease", &Settings::lease,
              "without a call that reaches the daemon, until an agent on another machine ends its "
              "ranks and itself, for runs without a lease of their own; 0s: never"),
        between(1, 1'000'000,
                field("slurm_jobs_max", &Settings::slurm_jobs_max,
                      "with --slurm-shared, runs that are jobs of Slurm at once, waiting or "
                      "running")),
        field("budget_window", &Settings::budget_window,
              "how much of its time a run holds of its project's budget at once"),
        between(0, 100,
                field("preemptible_price_percent", &Settings::preemptible_price_percent,
                      "of the price of other runs, what preemptible runs are charged")),
        field("timeout_debug", &Settings::timeout_debug,
              "the time limit of debug runs that name none"),
        field("timeout_normal", &Settings::timeout_normal,
              "the time limit of normal runs that name none"),
        field("timeout_preemptible", &Settings::timeout_preemptible,
              "the time limit of preemptible runs that name none"),
        between(0, 1'000'000,
                field("personal_refill", &Settings::personal_refill,
                      "device-minutes that each personal project gets in an hour; 0: they have no "
                      "bucket")),
        between(1, 1'000'000'000,
                field("personal_cap", &Settings::personal_cap,
                      "device-minutes that a personal project has at most, and at first")),
        field("personal_timeout_max", &Settings::personal_timeout_max,
              "the longest timeout of a run that uses a personal bucket"),
        field("finding_cordon", &Settings::finding_cordon,
              "the kinds of findings, with commas, after which Lockstep cordons the host"),
        field("finding_rerun", &Settings::finding_rerun,
              "those after which it drains the host, so that its runs start again elsewhere"));
  }
  static constexpr auto fields() { return joined(silence_fields(), run_fields()); }
};

// An error names the setting and its bounds.
Result<void> check(const Settings& settings);

// With the changes, "NAME=VALUE" each: "lost_after=10m".
Result<Settings> settings_from(const std::vector<std::string>& changes);
// The changes that make these of the defaults.
std::vector<std::string> changes_of(const Settings& settings);
// The kinds of findings in a setting: "xid_error,ecc_errors" or "none".
Result<std::vector<FindingKind>> finding_kinds(const std::string& words);
// Names, defaults and meanings, a line each.
std::string settings_text();

}  // namespace lockstep::model
