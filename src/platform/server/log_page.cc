#include "platform/server/log_page.h"

#include <algorithm>

namespace lockstep::server {

namespace {

// The current end of the run's lines, of all ranks: the lines after a tail begin here.
Result<std::int64_t> last_cursor(insight::Insight& insight, const model::RunId& run) {
  const auto last = TRY(insight.log_tail(run, 1));
  return last.empty() ? 0 : last.back().cursor;
}

Result<insight::Lines> lines_for(insight::Insight& insight, const model::RunId& run,
                                 const api::LogsQuery& query) {
  if (!query.tail)
    return insight.log(run, {.after = query.after, .limit = query.limit, .rank = query.rank});
  return insight::Lines{.lines = TRY(insight.log_tail(run, *query.tail, query.rank))};
}

}  // namespace

Result<api::LogPage> log_page(insight::Insight& insight, const model::RunId& run,
                              const api::LogsQuery& query, bool run_ended) {
  api::LogPage page;
  insight::Lines found = TRY(lines_for(insight, run, query));
  page.next = query.tail ? TRY(last_cursor(insight, run)) : query.after;
  if (!found.lines.empty()) page.next = std::max(page.next, found.lines.back().cursor);
  page.lines = std::move(found.lines);
  page.ended = run_ended && !found.more;
  return page;
}

}  // namespace lockstep::server
