// One page of a run's lines, and whether more can come.
#pragma once

#include <cstdint>
#include <optional>

#include "platform/api/messages.h"
#include "platform/insight/insight.h"

namespace lockstep {

struct LogAsk {
  RunId run;
  std::int64_t after = 0;
  std::int64_t limit = 1000;
  std::optional<std::int64_t> tail;  // the last lines instead of those after `after`
  std::optional<int> rank;
};

Result<api::LogPage> log_page(insight::Insight& insight, const LogAsk& ask, bool run_ended);

}  // namespace lockstep
