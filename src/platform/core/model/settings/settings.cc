#include "platform/core/model/settings/settings.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "text/convert.h"

namespace lockstep::model {
namespace {

constexpr Duration kSettingMax = std::chrono::hours(24);
constexpr Bytes kUploadMax = 1024_GiB;
constexpr Bytes kArtifactMax = 65536_GiB;

Result<void> check_at_least(std::string_view name, Duration value, Duration least,
                            std::string_view because) {
  if (value >= least && value <= kSettingMax) return {};
  return Error{Code::invalid,
               format("{}: must be from {} to {}{}, not {}", name, lockstep::text(least),
                      lockstep::text(kSettingMax), because, lockstep::text(value))};
}

Result<void> check_timeout(std::string_view name, Duration value, Duration most) {
  if (value >= std::chrono::seconds(1) && value <= most) return {};
  return Error{Code::invalid, format("{}: must be from 1s to {}, not {}", name,
                                     lockstep::text(most), lockstep::text(value))};
}

}  // namespace

Result<void> check(const Settings& settings) {
  using std::chrono::seconds;
  const Settings& s = settings;
  TRY(check_at_least("unreachable_after", s.unreachable_after, seconds(15),
                     " (agents need that long to call again)"));
  TRY(check_at_least("lost_after", s.lost_after, s.unreachable_after, " (unreachable_after)"));
  TRY(check_at_least("widespread_lost_after", s.widespread_lost_after, s.lost_after,
                     " (lost_after)"));
  TRY(check_at_least("first_call_limit", s.first_call_limit, seconds(5), ""));
  TRY(check_at_least("start_limit", s.start_limit, s.first_call_limit, " (first_call_limit)"));
  TRY(check_at_least("grace_period", s.grace_period, seconds(0), ""));
  TRY(check_at_least("log_delivery_limit", s.log_delivery_limit, s.grace_period + seconds(10),
                     " (10s beyond grace_period)"));
  TRY(check_at_least("kill_interval", s.kill_interval, seconds(1), ""));
  TRY(check_at_least("retry_pause_first", s.retry_pause_first, seconds(0), ""));
  TRY(check_at_least("retry_pause_max", s.retry_pause_max, s.retry_pause_first,
                     " (retry_pause_first)"));
  TRY(check_at_least("host_silent_after", s.host_silent_after, seconds(3), ""));
  TRY(check_timeout("timeout_debug", s.timeout_debug, kDebugTimeoutMax));
  TRY(check_timeout("timeout_normal", s.timeout_normal, kTimeoutMax));
  TRY(check_timeout("timeout_preemptible", s.timeout_preemptible, kTimeoutMax));
  if (s.upload_limit < Bytes(0) || s.upload_limit > kUploadMax)
    return Error{Code::invalid, format("upload_limit: must be from 0 B to {}, not {}",
                                       lockstep::text(kUploadMax), lockstep::text(s.upload_limit))};
  if (s.artifact_max < Bytes(0) || s.artifact_max > kArtifactMax)
    return Error{Code::invalid,
                 format("artifact_max: must be from 0 B to {}, not {}",
                        lockstep::text(kArtifactMax), lockstep::text(s.artifact_max))};
  if (s.lease != Duration(0))
    TRY(check_at_least("lease", s.lease, s.unreachable_after,
                       " (unreachable_after), or 0s (never)"));
  TRY(check_at_least("personal_timeout_max", s.personal_timeout_max, seconds(1), ""));
  if (s.connection_timeout < seconds(1) || s.connection_timeout > std::chrono::hours(1))
    return Error{Code::invalid, format("connection_timeout: must be from 1s to 1h, not {}",
                                       lockstep::text(s.connection_timeout))};
  for (const auto& [name, kinds] : {std::pair("finding_cordon", &s.finding_cordon),
                                    std::pair("finding_rerun", &s.finding_rerun)})
    if (auto listed = finding_kinds(*kinds); !listed)
      return std::move(listed).error().with_context(name);
  return {};
}

Result<std::vector<FindingKind>> finding_kinds(const std::string& words) {
  std::vector<FindingKind> kinds;
  if (words == "none") return kinds;
  for (const auto part : std::views::split(words, ','))
    kinds.push_back(TRY(parse_name<FindingKind>(std::string_view(part.begin(), part.end()))));
  return kinds;
}

Result<Settings> settings_from(const std::vector<std::string>& changes) {
  std::map<std::string, std::string> values;
  for (const std::string& change : changes) {
    const std::size_t equals = change.find('=');
    if (equals == std::string::npos)
      return Error{Code::invalid, format("'{}' is not NAME=VALUE, such as lost_after=10m", change)};
    values[change.substr(0, equals)] = change.substr(equals + 1);
  }
  const Settings settings = TRY(from_query<Settings>(values));
  TRY(check(settings));
  return settings;
}

std::string settings_text() {
  std::map<std::string, std::string> defaults;
  for (auto& [name, value] : to_query(Settings{})) defaults[name] = std::move(value);
  std::string lines;
  for_each_field<Settings>([&](const auto& field) {
    const std::string name(field.name);
    std::string& value = defaults.at(name);
    std::erase(value, ' ');  // of a size
    lines += format("  {:<22} {:<6} {}\n", name, value, field.help);
  });
  return lines;
}

std::vector<std::string> changes_of(const Settings& settings) {
  const auto defaults = to_query(Settings{});
  std::vector<std::string> changes;
  for (const auto& [name, value] : to_query(settings))
    if (std::ranges::find(defaults, std::pair(name, value)) == defaults.end())
      changes.push_back(format("{}={}", name, value));
  return changes;
}

}  // namespace lockstep::model
