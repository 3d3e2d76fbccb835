#include "platform/insight/detail/lines.h"

#include <algorithm>

#include "base/format.h"
#include "platform/insight/detail/packed_text.h"

namespace lockstep::insight {
namespace {

constexpr std::size_t kChunkMax = 64 << 10;
constexpr std::int64_t kPageMax = 4 << 20;  // bytes of an answer
// Bytes of a row besides its text: otherwise a million empty lines would count as nothing.
constexpr std::int64_t kRowBytes = 64;
// Rows read at once: some contain a megabyte of text, so this limits the excess over an answer's
// size.
constexpr std::int64_t kRowsAtOnce = 16;

std::int64_t size_of(std::string_view text) { return static_cast<std::int64_t>(text.size()); }

// Calls visit(line) for each line of a text with line ends between its lines and none at the end.
template <class Visit>
Result<void> for_each_line(std::string_view text, Visit&& visit) {
  for (;;) {
    const auto end = text.find('\n');
    TRY(visit(text.substr(0, end)));
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
}

void append_cut(std::string& chunk, std::string_view line, std::size_t line_max) {
  if (line.size() <= line_max) {
    chunk += line;
    return;
  }
  std::size_t kept = line_max;
  while (kept > 0 && (static_cast<unsigned char>(line[kept]) & 0xc0) == 0x80) --kept;
  chunk += line.substr(0, kept);
  chunk += format(" [lockstep: {} bytes of this line are left out]", line.size() - kept);
}

class ChunkAppender {
 public:
  ChunkAppender(store::Database& database, RunCounters& counters, std::int64_t epoch,
                const spool::TelemetryItem& item)
      : database_(database), tally_(counters), epoch_(epoch), item_(item) {}

  Result<void> add(std::string_view line, std::size_t line_max) {
    if (lines_ > 0 && chunk_.size() + line.size() >= kChunkMax) TRY(flush());
    if (lines_ > 0) chunk_ += '\n';
    append_cut(chunk_, line, line_max);
    ++lines_;
    return {};
  }

  Result<void> flush() {
    std::optional<store::Blob> packed;
    if (auto smaller = pack(chunk_)) packed = store::Blob{std::move(*smaller)};
    const std::int64_t bytes = size_of(packed ? packed->bytes : chunk_) + kRowBytes;
    if (packed) chunk_.clear();
    TRY(database_.execute(
        "insert into log_chunks (counters, first, lines, bytes, epoch, rank, time, text, packed) "
        "values (:counters, :first, :lines, :bytes, :epoch, :rank, :time, :text, :packed)",
        tally_.id, tally_.next, lines_, bytes, epoch_, item_.rank, item_.time, chunk_, packed));
    tally_.next += lines_;
    tally_.bytes += bytes;
    chunk_.clear();
    lines_ = 0;
    return {};
  }

 private:
  store::Database& database_;
  RunCounters& tally_;
  std::int64_t epoch_;
  const spool::TelemetryItem& item_;
  std::string chunk_;
  std::int64_t lines_ = 0;
};

// Removes the oldest chunks while wanted(counters), at most so many; adds their lines to `gone`.
template <class TensorRead>
Result<void> remove_oldest_chunks(store::Database& database, RunCounters& counters,
                                  std::int64_t chunks_most, std::int64_t& gone,
                                  TensorRead&& wanted) {
  std::int64_t last = 0;
  for (const auto& [first, lines, bytes] :
       TRY(database.rows<std::int64_t, std::int64_t, std::int64_t>(
           "select first, lines, bytes from log_chunks where counters = :counters order by first "
           "limit :limit",
           counters.id, chunks_most))) {
    if (!wanted(counters)) break;
    counters.bytes -= bytes;
    gone += lines;
    last = first;
  }
  return database.execute("delete from log_chunks where counters = :counters and first <= :last",
                          counters.id, last);
}

struct Chunk {
  std::int64_t first = 0;
  std::int64_t epoch = 0;
  int rank = 0;
  std::string text;
};

// A damaged chunk has one line in the place of its lines.
std::string unpacked(std::string_view packed, std::int64_t lines) {
  if (auto text = unpack(packed)) return *std::move(text);
  return format("[lockstep: {} lines are damaged in the store]", lines);
}

// Rows in the order of `sql`, whose last two parameters are a cursor and the number of rows.
template <class... Args>
Result<std::vector<Chunk>> chunks(store::Database& database, std::string_view sql,
                                  const Args&... args) {
  std::vector<Chunk> all;
  for (auto& [first, epoch, rank, lines, text, packed] :
       TRY(database.rows<std::int64_t, std::int64_t, int, std::int64_t, std::string,
                         std::optional<store::Blob>>(sql, args..., kRowsAtOnce)))
    all.push_back({first, epoch, rank, packed ? unpacked(packed->bytes, lines) : std::move(text)});
  return all;
}

// Chunks that begin at or after the cursor, in order.
Result<std::vector<Chunk>> chunks_from(store::Database& database, std::int64_t counters,
                                       std::optional<int> rank, std::int64_t cursor) {
  if (rank)
    return chunks(database,
                  "select first, epoch, rank, lines, text, packed from log_chunks where counters = "
                  ":counters and rank = :rank and first >= :cursor order by first limit :limit",
                  counters, *rank, cursor);
  return chunks(database,
                "select first, epoch, rank, lines, text, packed from log_chunks where counters = "
                ":counters and first >= :cursor order by first limit :limit",
                counters, cursor);
}

// Chunks that begin before the cursor, the newest first.
Result<std::vector<Chunk>> chunks_before(store::Database& database, std::int64_t counters,
                                         std::optional<int> rank, std::int64_t cursor) {
  if (rank)
    return chunks(database,
                  "select first, epoch, rank, lines, text, packed from log_chunks where counters = "
                  ":counters and rank = :rank and first < :cursor order by first desc limit :limit",
                  counters, *rank, cursor);
  return chunks(database,
                "select first, epoch, rank, lines, text, packed from log_chunks where counters = "
                ":counters and first < :cursor order by first desc limit :limit",
                counters, cursor);
}

// The cursor at which lines after `after` begin: that of the chunk that contains `after`, or
// `after` itself.
Result<std::int64_t> first_chunk_cursor(store::Database& database, std::int64_t counters,
                                        std::optional<int> rank, std::int64_t after) {
  using Found = std::optional<std::int64_t>;
  const auto found =
      rank ? TRY(database.rows<Found>(
                 "select max(first) from log_chunks where counters = :counters and "
                 "rank = :rank and first <= :after",
                 counters, *rank, after))
           : TRY(database.rows<Found>(
                 "select max(first) from log_chunks where counters = :counters and first <= :after",
                 counters, after));
  return std::get<0>(found[0]).value_or(after);
}

std::vector<api::LogLine> lines_of(const Chunk& chunk) {
  std::vector<api::LogLine> lines;
  std::int64_t cursor = chunk.first;
  (void)for_each_line(chunk.text, [&](std::string_view line) -> Result<void> {
    lines.push_back({cursor++, chunk.epoch, chunk.rank, std::string(line)});
    return {};
  });
  return lines;
}

std::string missing_lines_text(const RunCounters& counters) {
  const std::int64_t lines = counters.cut + counters.expired;
  if (counters.expired > 0)
    return format("[lockstep: {} lines before this were removed, long after the run had ended]",
                  lines);
  return format(
      "[lockstep: {} lines before this are left out, the newest are kept; the ranks' own files, "
      "attempt-*/node-*/rank-*.log* in the run's folder, reach further back]",
      lines);
}

// The line that replaces all removed lines; it has the cursor of the last of them.
Result<std::optional<api::LogLine>> missing_lines_note(store::Database& database,
                                                       const RunCounters& counters,
                                                       std::int64_t after) {
  if (counters.cut + counters.expired == 0) return std::optional<api::LogLine>();
  api::LogLine line{.cursor = counters.next - 1, .text = missing_lines_text(counters)};
  for (const auto& [first, epoch, rank] : TRY(database.rows<std::int64_t, std::int64_t, int>(
           "select first, epoch, rank from log_chunks where counters = :counters order by first "
           "limit 1",
           counters.id)))
    line = {first - 1, epoch, rank, std::move(line.text)};
  return after < line.cursor ? std::optional(std::move(line)) : std::nullopt;
}

}  // namespace

Result<void> append_lines(store::Database& database, RunCounters& counters, std::int64_t epoch,
                          const spool::TelemetryItem& item, Bytes line_max) {
  ChunkAppender appender(database, counters, epoch, item);
  TRY(for_each_line(item.text, [&](std::string_view line) {
    return appender.add(line, static_cast<std::size_t>(line_max.count()));
  }));
  return appender.flush();
}

Result<void> cut_lines(store::Database& database, RunCounters& counters, Bytes most,
                       std::int64_t chunks_most) {
  if (counters.bytes <= most.count()) return {};
  return remove_oldest_chunks(database, counters, chunks_most, counters.cut,
                              [&](const RunCounters& now) { return now.bytes > most.count(); });
}

Result<bool> expire_lines(store::Database& database, RunCounters& counters,
                          std::int64_t chunks_most, Removal why) {
  std::int64_t& gone = why == Removal::age ? counters.expired : counters.cut;
  TRY(remove_oldest_chunks(database, counters, chunks_most, gone,
                           [](const RunCounters&) { return true; }));
  return counters.bytes > 0;
}

Result<Lines> lines_after(store::Database& database, const RunCounters& counters,
                          const LogQuery& query) {
  Lines page;
  std::int64_t bytes = 0;
  if (auto mark = TRY(missing_lines_note(database, counters, query.after)))
    page.lines.push_back(std::move(*mark));
  std::int64_t begin = TRY(first_chunk_cursor(database, counters.id, query.rank, query.after));
  for (;;) {
    const auto next = TRY(chunks_from(database, counters.id, query.rank, begin));
    for (const Chunk& chunk : next)
      for (api::LogLine& line : lines_of(chunk)) {
        if (line.cursor <= query.after) continue;
        page.more = static_cast<std::int64_t>(page.lines.size()) >= query.limit || bytes > kPageMax;
        if (page.more) return page;
        bytes += size_of(line.text);
        page.lines.push_back(std::move(line));
      }
    if (static_cast<std::int64_t>(next.size()) < kRowsAtOnce) return page;
    begin = next.back().first + 1;
  }
}

Result<std::vector<api::LogLine>> lines_before(store::Database& database,
                                               const RunCounters& counters,
                                               const LinesBefore& query) {
  std::vector<api::LogLine> newest_first;
  std::int64_t bytes = 0;
  const auto enough = [&] { return std::ssize(newest_first) >= query.lines || bytes > kPageMax; };
  bool more = true;
  for (std::int64_t before = query.before; more && !enough();) {
    const auto next = TRY(chunks_before(database, counters.id, query.rank, before));
    more = static_cast<std::int64_t>(next.size()) == kRowsAtOnce;
    if (more) before = next.back().first;
    for (const Chunk& chunk : next) {
      auto of_chunk = lines_of(chunk);
      for (auto line = of_chunk.rbegin(); line != of_chunk.rend() && !enough(); ++line) {
        if (line->cursor >= query.before) continue;
        bytes += size_of(line->text);
        newest_first.push_back(std::move(*line));
      }
    }
  }
  if (!enough())
    if (auto mark = TRY(missing_lines_note(database, counters, 0)))
      newest_first.push_back(std::move(*mark));
  std::ranges::reverse(newest_first);
  return newest_first;
}

Result<std::vector<std::string>> last_lines_of_rank(store::Database& database,
                                                    const RunCounters& counters, std::int64_t epoch,
                                                    int rank) {
  std::vector<std::string> newest_first;
  std::size_t bytes = 0;
  for (std::int64_t before = counters.next; bytes <= kChunkMax;) {
    const auto next = TRY(
        chunks(database,
               "select first, epoch, rank, lines, text, packed from log_chunks where counters = "
               ":counters and rank = :rank and epoch = :epoch and first < "
               ":before order by first desc limit :limit",
               counters.id, rank, epoch, before));
    for (const Chunk& chunk : next) {
      if (bytes > kChunkMax) break;
      bytes += chunk.text.size();
      auto lines = lines_of(chunk);
      for (auto line = lines.rbegin(); line != lines.rend(); ++line)
        newest_first.push_back(std::move(line->text));
    }
    if (std::ssize(next) < kRowsAtOnce) break;
    before = next.back().first;
  }
  std::ranges::reverse(newest_first);
  return newest_first;
}

}  // namespace lockstep::insight
