#include "platform/insight/detail/lines.h"

#include <algorithm>

#include "base/format.h"

namespace lockstep::insight {
namespace {

constexpr std::size_t kChunkMax = 64 << 10;
constexpr std::int64_t kPageMax = 4 << 20;  // bytes of an answer
// What a row takes besides its text: else a million empty lines would count for nothing.
constexpr std::int64_t kRowBytes = 64;
// Rows read at once: some lead to a megabyte of text, so that an answer does not read far more.
constexpr std::int64_t kRowsAtOnce = 16;

std::int64_t size_of(std::string_view text) { return static_cast<std::int64_t>(text.size()); }

// Calls visit(line) for each line of a text that has line ends between its lines, none behind.
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

class Appender {
 public:
  Appender(Database& database, Tally& tally, std::int64_t epoch, const Item& item)
      : database_(database), tally_(tally), epoch_(epoch), item_(item) {}

  Result<void> add(std::string_view line, std::size_t line_max) {
    if (lines_ > 0 && chunk_.size() + line.size() >= kChunkMax) TRY(flush());
    if (lines_ > 0) chunk_ += '\n';
    append_cut(chunk_, line, line_max);
    ++lines_;
    return {};
  }

  Result<void> flush() {
    const std::int64_t bytes = size_of(chunk_) + kRowBytes;
    TRY(database_.execute(
        "insert into log_chunks (tally, first, lines, bytes, epoch, rank, time, text) values "
        "(:tally, :first, :lines, :bytes, :epoch, :rank, :time, :text)",
        tally_.id, tally_.next, lines_, bytes, epoch_, item_.rank, item_.time, chunk_));
    tally_.next += lines_;
    tally_.bytes += bytes;
    chunk_.clear();
    lines_ = 0;
    return {};
  }

 private:
  Database& database_;
  Tally& tally_;
  std::int64_t epoch_;
  const Item& item_;
  std::string chunk_;
  std::int64_t lines_ = 0;
};

// Removes chunks from the oldest on while wanted(tally), at most so many; adds their lines to
// `gone`.
template <class Wanted>
Result<void> remove_oldest(Database& database, Tally& tally, std::int64_t chunks_most,
                           std::int64_t& gone, Wanted&& wanted) {
  std::int64_t last = 0;
  for (const auto& [first, lines, bytes] :
       TRY(database.rows<std::int64_t, std::int64_t, std::int64_t>(
           "select first, lines, bytes from log_chunks where tally = :tally order by first "
           "limit :limit",
           tally.id, chunks_most))) {
    if (!wanted(tally)) break;
    tally.bytes -= bytes;
    gone += lines;
    last = first;
  }
  return database.execute("delete from log_chunks where tally = :tally and first <= :last",
                          tally.id, last);
}

struct Chunk {
  std::int64_t first = 0;
  std::int64_t epoch = 0;
  int rank = 0;
  Time time{};
  std::string text;
};

// Rows in the order of `sql`, whose last two parameters are a cursor and the number of rows.
template <class... Args>
Result<std::vector<Chunk>> chunks(Database& database, std::string_view sql, const Args&... args) {
  std::vector<Chunk> all;
  for (auto& [first, epoch, rank, time, text] :
       TRY(database.rows<std::int64_t, std::int64_t, int, Time, std::string>(sql, args...,
                                                                             kRowsAtOnce)))
    all.push_back({first, epoch, rank, time, std::move(text)});
  return all;
}

// Chunks that begin at the cursor or behind it, in order.
Result<std::vector<Chunk>> chunks_from(Database& database, std::int64_t tally,
                                       std::optional<int> rank, std::int64_t cursor) {
  if (rank)
    return chunks(database,
                  "select first, epoch, rank, time, text from log_chunks where tally = :tally and "
                  "rank = :rank and first >= :cursor order by first limit :limit",
                  tally, *rank, cursor);
  return chunks(database,
                "select first, epoch, rank, time, text from log_chunks where tally = :tally and "
                "first >= :cursor order by first limit :limit",
                tally, cursor);
}

// Chunks that begin before the cursor, the newest first.
Result<std::vector<Chunk>> chunks_before(Database& database, std::int64_t tally,
                                         std::optional<int> rank, std::int64_t cursor) {
  if (rank)
    return chunks(database,
                  "select first, epoch, rank, time, text from log_chunks where tally = :tally and "
                  "rank = :rank and first < :cursor order by first desc limit :limit",
                  tally, *rank, cursor);
  return chunks(database,
                "select first, epoch, rank, time, text from log_chunks where tally = :tally and "
                "first < :cursor order by first desc limit :limit",
                tally, cursor);
}

// Where to begin for lines behind `after`: at the chunk that holds that one, or at the cursor.
Result<std::int64_t> begin_of(Database& database, std::int64_t tally, std::optional<int> rank,
                              std::int64_t after) {
  using Found = std::optional<std::int64_t>;
  const auto found =
      rank ? TRY(database.rows<Found>("select max(first) from log_chunks where tally = :tally and "
                                      "rank = :rank and first <= :after",
                                      tally, *rank, after))
           : TRY(database.rows<Found>(
                 "select max(first) from log_chunks where tally = :tally and first <= :after",
                 tally, after));
  return std::get<0>(found[0]).value_or(after);
}

std::vector<Line> lines_of(const Chunk& chunk) {
  std::vector<Line> lines;
  std::int64_t cursor = chunk.first;
  (void)for_each_line(chunk.text, [&](std::string_view line) -> Result<void> {
    lines.push_back({cursor++, chunk.epoch, chunk.rank, chunk.time, std::string(line)});
    return {};
  });
  return lines;
}

std::string words_of_gap(const Tally& tally) {
  const std::int64_t lines = tally.cut + tally.expired;
  if (tally.expired > 0)
    return format("[lockstep: {} lines before this were removed, long after the run had ended]",
                  lines);
  return format(
      "[lockstep: {} lines before this are left out, the newest are kept; the ranks' own files, "
      "attempt-*/node-*/rank-*.log* in the run's folder, reach further back]",
      lines);
}

// The line that stands for all that are gone; its cursor is that of the last of them.
Result<std::optional<Line>> gap(Database& database, const Tally& tally, std::int64_t after) {
  if (tally.cut + tally.expired == 0) return std::optional<Line>();
  Line line{.cursor = tally.next - 1, .text = words_of_gap(tally)};
  for (const auto& [first, epoch, rank, time] :
       TRY(database.rows<std::int64_t, std::int64_t, int, Time>(
           "select first, epoch, rank, time from log_chunks where tally = :tally order by first "
           "limit 1",
           tally.id)))
    line = {first - 1, epoch, rank, time, std::move(line.text)};
  return after < line.cursor ? std::optional(std::move(line)) : std::nullopt;
}

}  // namespace

Result<void> append_lines(Database& database, Tally& tally, std::int64_t epoch, const Item& item,
                          Bytes line_max) {
  Appender appender(database, tally, epoch, item);
  TRY(for_each_line(item.text, [&](std::string_view line) {
    return appender.add(line, static_cast<std::size_t>(line_max.count()));
  }));
  return appender.flush();
}

Result<void> cut_lines(Database& database, Tally& tally, Bytes most, std::int64_t chunks_most) {
  if (tally.bytes <= most.count()) return {};
  return remove_oldest(database, tally, chunks_most, tally.cut,
                       [&](const Tally& now) { return now.bytes > most.count(); });
}

Result<bool> expire_lines(Database& database, Tally& tally, std::int64_t chunks_most) {
  TRY(remove_oldest(database, tally, chunks_most, tally.expired,
                    [](const Tally&) { return true; }));
  return tally.bytes > 0;
}

Result<LogPage> lines_after(Database& database, const Tally& tally, const LogQuery& query) {
  LogPage page;
  std::int64_t bytes = 0;
  if (auto mark = TRY(gap(database, tally, query.after))) page.lines.push_back(std::move(*mark));
  std::int64_t begin = TRY(begin_of(database, tally.id, query.rank, query.after));
  for (;;) {
    const auto next = TRY(chunks_from(database, tally.id, query.rank, begin));
    for (const Chunk& chunk : next)
      for (Line& line : lines_of(chunk)) {
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

Result<std::vector<Line>> last_lines(Database& database, const Tally& tally, std::int64_t lines,
                                     std::optional<int> rank) {
  std::vector<Line> newest_first;
  std::int64_t bytes = 0;
  const auto enough = [&] {
    return static_cast<std::int64_t>(newest_first.size()) >= lines || bytes > kPageMax;
  };
  bool more = true;
  for (std::int64_t before = tally.next; more && !enough();) {
    const auto next = TRY(chunks_before(database, tally.id, rank, before));
    more = static_cast<std::int64_t>(next.size()) == kRowsAtOnce;
    if (more) before = next.back().first;
    for (const Chunk& chunk : next) {
      auto of_chunk = lines_of(chunk);
      for (auto line = of_chunk.rbegin(); line != of_chunk.rend() && !enough(); ++line) {
        bytes += size_of(line->text);
        newest_first.push_back(std::move(*line));
      }
    }
  }
  if (!enough())
    if (auto mark = TRY(gap(database, tally, 0))) newest_first.push_back(std::move(*mark));
  std::ranges::reverse(newest_first);
  return newest_first;
}

}  // namespace lockstep::insight
