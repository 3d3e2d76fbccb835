// Target: to which a user wants notices delivered, and which of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/core/model/notice.h"
#include "text/record.h"

namespace lockstep::notice {

enum class TargetKind { webhook, slack, mail, command };
constexpr auto enum_names(TargetKind) {
  return names<TargetKind>({{TargetKind::webhook, "webhook"},
                            {TargetKind::slack, "slack"},
                            {TargetKind::mail, "mail"},
                            {TargetKind::command, "command"}});
}

// The runs of its user, all of a project, or all.
enum class Scope { own, project, all };
constexpr auto enum_names(Scope) {
  return names<Scope>({{Scope::own, "own"}, {Scope::project, "project"}, {Scope::all, "all"}});
}

// `ended` includes `failed`.
enum class Cause { ended, failed, budget, finding };
constexpr auto enum_names(Cause) {
  return names<Cause>({{Cause::ended, "ended"},
                       {Cause::failed, "failed"},
                       {Cause::budget, "budget"},
                       {Cause::finding, "finding"}});
}

struct Target {
  std::int64_t id = 0;
  TargetKind kind = TargetKind::webhook;
  Scope scope = Scope::own;
  std::string user;       // that added it
  std::string project{};  // of Scope::project; of Scope::own empty: in all projects
  std::vector<Cause> on{};

  bool operator==(const Target&) const = default;
};

bool matches(const Target& target, const model::Notice& notice);

}  // namespace lockstep::notice
