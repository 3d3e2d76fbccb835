#include "platform/insight/detail/line_search.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/clock.h"
#include "platform/insight/detail/lines.h"

namespace lockstep::insight {
namespace {

constexpr std::int64_t kLastCursor = std::numeric_limits<std::int64_t>::max() - 1;

// The lines that one slice may look at: those before its cursor for their context, then new ones.
struct Slice {
  std::vector<api::LogLine> lines;
  std::size_t old = 0;   // the first lines, which earlier slices have answered
  bool is_last = false;  // no line follows
};

Result<Slice> slice_of(store::Database& database, const RunCounters& counters,
                       const LogSearch& search) {
  Slice slice;
  if (search.after > 0)
    slice.lines = TRY(lines_before(database, counters,
                                   {.before = std::min(search.after, kLastCursor) + 1,
                                    .lines = 2 * search.context + 1,
                                    .rank = search.rank}));
  slice.old = slice.lines.size();
  Lines fresh = TRY(lines_after(
      database, counters, {.after = search.after, .limit = search.lines_max, .rank = search.rank}));
  slice.is_last = !fresh.more;
  std::ranges::move(fresh.lines, std::back_inserter(slice.lines));
  return slice;
}

// True for each line that matches. Ends early when the time is over, but never before the slice
// has one new line with its context.
std::vector<bool> matches_in(const Slice& slice, const LogSearch& search) {
  const std::size_t least = slice.old + static_cast<std::size_t>(search.context) + 1;
  const auto end = Deadline::after(search.time_max);
  std::vector<bool> matches;
  for (const api::LogLine& line : slice.lines) {
    if (matches.size() >= least && end.passed()) break;
    matches.push_back(search.pattern.matches(line.text));
  }
  return matches;
}

// True for each line that matches or is near one that does.
std::vector<bool> with_context(const std::vector<bool>& matches, std::size_t context) {
  std::vector<bool> wanted(matches.size());
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (!matches[i]) continue;
    const std::size_t end = std::min(matches.size(), i + context + 1);
    for (std::size_t near = i - std::min(i, context); near < end; ++near) wanted[near] = true;
  }
  return wanted;
}

}  // namespace

Result<api::LogMatches> search_lines(store::Database& database, const RunCounters& counters,
                                     const LogSearch& search) {
  Slice slice = TRY(slice_of(database, counters, search));
  const auto context = static_cast<std::size_t>(search.context);
  const std::vector<bool> matches = matches_in(slice, search);
  const std::vector<bool> wanted = with_context(matches, context);
  api::LogMatches answer{.next = search.after};
  answer.ended = slice.is_last && matches.size() == slice.lines.size();
  // The context of the last lines is in the next slice.
  const std::size_t end = answer.ended ? matches.size() : matches.size() - context;
  const auto until = Deadline::after(search.time_max);
  for (std::size_t i = slice.old; i < end; ++i) {
    if (i > slice.old && until.passed()) {  // the places of matches take time, too
      answer.ended = false;
      break;
    }
    api::LogLine& line = slice.lines[i];
    answer.next = std::max(answer.next, line.cursor);
    if (!wanted[i]) continue;
    api::LogMatch match{.cursor = line.cursor, .epoch = line.epoch, .rank = line.rank};
    if (matches[i]) match.parts = search.pattern.parts(line.text);
    match.matches = matches[i];
    match.begins = i == 0 || !wanted[i - 1];
    match.text = std::move(line.text);
    answer.lines.push_back(std::move(match));
  }
  return answer;
}

}  // namespace lockstep::insight
