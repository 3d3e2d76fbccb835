// Notice: a fact of which users are told. The store writes it in the transaction of the change that
// causes it, once for each target that matches.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "platform/core/budget/device_time.h"
#include "text/record.h"

namespace lockstep::model {

enum class NoticeKind { run_ended, run_failed, budget_warning, finding };
constexpr auto enum_names(NoticeKind) {
  return names<NoticeKind>({{NoticeKind::run_ended, "run_ended"},
                            {NoticeKind::run_failed, "run_failed"},
                            {NoticeKind::budget_warning, "budget_warning"},
                            {NoticeKind::finding, "finding"}});
}

struct Notice {
  std::string id;  // the same for each target and in each try; receivers know doubles by it
  NoticeKind kind = NoticeKind::run_ended;
  Time time{};
  std::string project;
  std::string run{};                         // demo/3; empty: of the project
  std::string name{};                        // of the run
  std::string user{};                        // that submitted the run
  std::string state{};                       // of an ended run
  std::string reason{};                      // one line; empty: there is none
  std::optional<Duration> duration{};        // for which the run ran
  std::optional<budget::DeviceTime> cost{};  // of the run; the store adds it
  std::optional<int> used_percent{};         // of the project's grants

  bool operator==(const Notice&) const = default;

  static constexpr auto fields() {
    return record<Notice>(
        field("id", &Notice::id, "the same in each try"),
        field("kind", &Notice::kind, "of what it tells"),
        field("time", &Notice::time, "when it happened"),
        field("project", &Notice::project, "the project of the run or the budget"),
        field("run", &Notice::run, "empty: of the project"),
        field("name", &Notice::name, "of the run"),
        field("user", &Notice::user, "that submitted the run"),
        field("state", &Notice::state, "of an ended run"),
        field("reason", &Notice::reason, "one line"),
        field("duration", &Notice::duration, "for which the run ran"),
        field("cost", &Notice::cost, "of the run"),
        field("used_percent", &Notice::used_percent, "of the project's grants"));
  }
};

}  // namespace lockstep::model
