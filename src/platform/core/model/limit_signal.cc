#include "platform/core/model/limit_signal.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::model {
namespace {

constexpr Duration kBeforeDefault = std::chrono::minutes(1);  // as Slurm's
constexpr Duration kBeforeMax = std::chrono::hours(24);

// Those that a program can take and that do not end it at once for other reasons.
constexpr std::array<std::pair<std::string_view, int>, 6> kSignals = {{{"HUP", SIGHUP},
                                                                       {"INT", SIGINT},
                                                                       {"QUIT", SIGQUIT},
                                                                       {"TERM", SIGTERM},
                                                                       {"USR1", SIGUSR1},
                                                                       {"USR2", SIGUSR2}}};

Error invalid(std::string_view text, std::string_view problem) {
  return {Code::invalid, format("'{}' {}; write a signal and a time before the limit, such as "
                                "USR1@5m",
                                escape_controls(text), problem)};
}

}  // namespace

Result<LimitSignal> parse_limit_signal(std::string_view text) {
  const std::size_t at = text.find('@');
  std::string_view name = text.substr(0, at);
  if (name.starts_with("SIG")) name.remove_prefix(3);
  const auto* const known =
      std::ranges::find(kSignals, name, [](const auto& s) { return s.first; });
  if (known == kSignals.end())
    return invalid(text, "names none of HUP, INT, QUIT, TERM, USR1, USR2");
  if (at == std::string_view::npos) return LimitSignal{known->second, kBeforeDefault};
  const auto before = parse_duration(text.substr(at + 1));
  if (!before) return invalid(text, "has no time after '@'");
  if (*before <= Duration(0) || *before > kBeforeMax)
    return invalid(text,
                   format("has a time that is not from 0s to {}", lockstep::text(kBeforeMax)));
  return LimitSignal{known->second, *before};
}

}  // namespace lockstep::model
