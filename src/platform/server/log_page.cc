#include "platform/server/log_page.h"

#include <algorithm>

namespace lockstep {

namespace {

// Where the run's lines end now, of whichever rank: what follows a tail begins here.
Result<std::int64_t> last_cursor(insight::Insight& insight, const RunId& run) {
  const auto last = TRY(insight.log_tail(run, 1));
  return last.empty() ? 0 : last.back().cursor;
}

Result<insight::LogPage> lines_for(insight::Insight& insight, const LogAsk& ask) {
  if (!ask.tail)
    return insight.log(ask.run, {.after = ask.after, .limit = ask.limit, .rank = ask.rank});
  return insight::LogPage{.lines = TRY(insight.log_tail(ask.run, *ask.tail, ask.rank))};
}

}  // namespace

Result<api::LogPage> log_page(insight::Insight& insight, const LogAsk& ask, bool run_ended) {
  api::LogPage page;
  const insight::LogPage found = TRY(lines_for(insight, ask));
  page.next = ask.tail ? TRY(last_cursor(insight, ask.run)) : ask.after;
  for (const insight::Line& line : found.lines) {
    page.next = std::max(page.next, line.cursor);
    page.lines.push_back(
        {.cursor = line.cursor, .epoch = line.epoch, .rank = line.rank, .text = line.text});
  }
  page.ended = run_ended && !found.more;
  return page;
}

}  // namespace lockstep
