#include "platform/spool/spool.h"

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/os/files.h"
#include "platform/spool/detail/line.h"

namespace lockstep::spool {
namespace {

constexpr std::string_view kReports = "metrics, progress, checkpoints, events";

std::string loss_text(std::int64_t lines, std::int64_t reports) {
  if (reports == 0) return format("{} lines", lines);
  if (lines == 0) return format("{} reports ({})", reports, kReports);
  return format("{} lines and {} reports ({})", lines, reports, kReports);
}

TelemetryItem own_line(std::int64_t sequence, int rank, Time time, std::string text) {
  return {.sequence = sequence,
          .kind = TelemetryKind::log,
          .rank = rank,
          .time = time,
          .text = std::move(text)};
}

// Kinds that a rank may report without limit; a checkpoint is rare, and its loss would cost steps.
bool is_limited(TelemetryKind kind) {
  return kind == TelemetryKind::metrics || kind == TelemetryKind::progress ||
         kind == TelemetryKind::event;
}

}  // namespace

Result<Spool> Spool::open(const std::filesystem::path& file, const Limits& limits) {
  Fd opened = TRY(open_file(file, O_RDWR | O_CREAT | O_TRUNC));
  return Spool(file, std::move(opened), limits);
}

// --- Items ---

Result<void> Spool::add(TelemetryItem item) {
  auto put = [&]() -> Result<void> {
    TRY(check_limit(item.kind));
    TRY(write_losses());
    item.sequence = last_sequence_ + 1;
    entries_.push_back(TRY(write(item)));
    last_sequence_ = item.sequence;
    return {};
  };
  auto done = put();
  if (!done) record_loss(item.rank, item.kind, line_count(item), done.error().message);
  drop_oldest_logs();
  compact();
  return done;
}

std::int64_t& Spool::pending_of(TelemetryKind kind) {
  if (kind == TelemetryKind::log) return logs_;
  return kind == TelemetryKind::telemetry ? telemetry_ : reports_;
}

Result<void> Spool::check_limit(TelemetryKind kind) const {
  if (kind == TelemetryKind::telemetry && telemetry_ >= limits_.telemetry.count())
    return Error{Code::exhausted,
                 format("{} of telemetry wait for the daemon, the limit", text(limits_.telemetry))};
  if (is_limited(kind) && reports_ >= limits_.reports.count())
    return Error{Code::exhausted,
                 format("{} of metrics wait for the daemon, the limit", text(limits_.reports))};
  return {};
}

// A line that was written in part is cut off again, so that no shorter one leaves a rest of it.
Result<Spool::Entry> Spool::write(const TelemetryItem& item) {
  const std::string line = spool::line_of(item);
  if (auto written = spool::write_at(file_.get(), line, end_); !written) {
    if (::ftruncate(file_.get(), end_) != 0) LS_LOG(warning, "the spool cannot be cut");
    return std::move(written).error();
  }
  const Entry entry{.offset = end_,
                    .size = static_cast<std::int64_t>(line.size()),
                    .sequence = item.sequence,
                    .rank = item.rank,
                    .lines = line_count(item),
                    .kind = item.kind};
  end_ += entry.size;
  count(entry);
  return entry;
}

Result<Spool::Entry> Spool::write_loss_note(const TelemetryItem& line, int lines) {
  Entry entry = TRY(write(line));
  entry.is_loss_note = true;
  entry.lines = lines;
  return entry;
}

Result<TelemetryItem> Spool::read(const Entry& entry) const {
  return spool::item_of(TRY(spool::read_at(file_.get(), entry.size - 1, entry.offset)));
}

std::vector<TelemetryItem> Spool::batch(Bytes most, std::size_t items) {
  std::ignore = write_losses();  // repeated with every batch
  std::vector<TelemetryItem> given;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < entries_.size() && given.size() < items;) {
    bytes += entries_[i].size;
    if (!given.empty() && bytes > most.count()) break;
    auto item = read(entries_[i]);
    if (item) {
      given.push_back(*std::move(item));
      ++i;
      continue;
    }
    LS_LOG(error, "item {} is lost: {}", entries_[i].sequence, item.error().message);
    record_loss(entries_[i].rank, entries_[i].kind, entries_[i].lines, item.error().message);
    forget(entries_[i]);
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (!given.empty()) last_batched_ = std::max(last_batched_, given.back().sequence);
  return given;
}

void Spool::acknowledge(std::int64_t sequence) {
  while (!entries_.empty() && entries_.front().sequence <= std::min(sequence, last_batched_)) {
    forget(entries_.front());
    entries_.pop_front();
  }
  compact();
}

void Spool::reject(std::int64_t sequence, std::string_view why) {
  const auto entry = std::ranges::lower_bound(entries_, sequence, {}, &Entry::sequence);
  if (entry == entries_.end() || entry->sequence != sequence) return;
  const auto item = read(*entry);
  if (!entry->is_loss_note && item) {
    auto text = format("[lockstep: the daemon refused the {} that stood here (step {}): {}]",
                       name_of(item->kind), item->step, why);
    if (replace(*entry, std::move(text), 1)) return;
  }
  erase(*entry);
  forget(*entry);
  entries_.erase(entry);
}

// --- Losses, and the lines that report them ---

// Replaces an item by a note with the same number. The note is written first: an agent that is
// killed in between leaves both.
Result<void> Spool::replace(Entry& entry, std::string text, int lines) {
  const TelemetryItem item = TRY(read(entry));
  const Entry fresh =
      TRY(write_loss_note(own_line(item.sequence, item.rank, item.time, std::move(text)), lines));
  erase(entry);
  forget(entry);
  entry = fresh;
  return {};
}

void Spool::record_loss(int rank, TelemetryKind kind, int lines, std::string why) {
  if (kind == TelemetryKind::telemetry) return;
  Loss& loss = losses_[rank];
  loss.lines += lines;
  loss.reports += kind == TelemetryKind::log ? 0 : 1;
  loss.why = std::move(why);
}

// Fails while the disk is still full.
Result<void> Spool::write_losses() {
  while (!losses_.empty()) {
    const auto& [rank, loss] = *losses_.begin();
    const std::string what = loss_text(loss.lines, loss.reports);
    const auto mark = own_line(last_sequence_ + 1, rank, SystemClock().now(),
                               format("[lockstep: {} were lost here: {}]", what, loss.why));
    entries_.push_back(TRY(write_loss_note(mark, 1)));
    last_sequence_ = mark.sequence;
    LS_LOG(warning, "rank {}: {} are lost for the daemon: {}", rank, what, loss.why);
    losses_.erase(losses_.begin());
  }
  return {};
}

// The newest dropped line of a rank becomes the note, so that the note is at the place of the
// lines.
void Spool::drop_oldest_logs() {
  if (logs_ <= limits_.logs.count()) return;
  const std::int64_t until = last_to_drop();
  auto goes = [&](const Entry& entry) {
    return is_log(entry) && entry.sequence > last_batched_ && entry.sequence <= until;
  };
  std::map<int, Dropped> dropped;  // by rank
  for (const Entry& entry : entries_) {
    if (!goes(entry)) continue;
    dropped[entry.rank].lines += entry.lines;
    dropped[entry.rank].newest = entry.sequence;
  }
  for (Entry& entry : entries_)
    if (goes(entry) && dropped[entry.rank].newest == entry.sequence)
      note_dropped(entry, dropped[entry.rank]);
  std::erase_if(entries_, [&](const Entry& entry) {
    if (!goes(entry) || dropped[entry.rank].newest == entry.sequence) return false;
    erase(entry);
    forget(entry);
    return true;
  });
}

// Drops down to seven eighths of the limit, so that the search is not repeated for each line.
std::int64_t Spool::last_to_drop() const {
  std::int64_t excess = logs_ - limits_.logs.count() / 8 * 7;
  std::int64_t last = 0;
  for (const Entry& entry : entries_) {
    if (excess <= 0 || entry.sequence == last_sequence_) break;
    if (!is_log(entry) || entry.sequence <= last_batched_) continue;
    excess -= entry.size;
    last = entry.sequence;
  }
  return last;
}

void Spool::note_dropped(Entry& newest, const Dropped& dropped) {
  auto note = format(
      "[lockstep: {} lines were dropped here while the daemon was away; look into "
      "rank-{}.log]",
      dropped.lines, newest.rank);
  if (auto marked = replace(newest, std::move(note), dropped.lines); !marked)
    record_loss(newest.rank, TelemetryKind::log, dropped.lines - newest.lines,
                marked.error().message);
}

// --- The file ---

// If the overwrite fails, the janitor reads the line once more than needed.
void Spool::erase(const Entry& entry) {
  std::ignore =
      spool::write_at(file_.get(), std::string_view(&spool::kDroppedMark, 1), entry.offset);
}

void Spool::count(const Entry& entry) { pending_of(entry.kind) += entry.size; }

void Spool::forget(const Entry& entry) { pending_of(entry.kind) -= entry.size; }

// Empties the file, or rewrites it without acknowledged and dropped items. After a failure on a
// full disk, it waits until there is twice as much to gain.
void Spool::compact() {
  if (entries_.empty() && end_ > 0) {
    if (::ftruncate(file_.get(), 0) == 0) end_ = 0;
    return;
  }
  const std::int64_t live = logs_ + reports_ + telemetry_;
  if (end_ - live <= std::max(limits_.garbage.count(), live)) return;
  if (rewrite_failed_ > 0 && end_ - rewrite_failed_ < limits_.garbage.count()) return;
  std::filesystem::path temporary = name_;
  temporary += ".tmp";
  auto done = rewrite(temporary);
  rewrite_failed_ = done ? 0 : end_;
  if (done) return;
  ::unlink(temporary.c_str());
  LS_LOG(warning, "{}", done.error().message);
}

Result<void> Spool::rewrite(const std::filesystem::path& temporary) {
  Fd file = TRY(open_file(temporary, O_RDWR | O_CREAT | O_TRUNC));
  std::vector<std::int64_t> offsets;
  std::int64_t end = 0;
  for (const Entry& entry : entries_) {
    TRY(spool::write_at(file.get(), TRY(spool::read_at(file_.get(), entry.size, entry.offset)),
                        end));
    offsets.push_back(end);
    end += entry.size;
  }
  if (::rename(temporary.c_str(), name_.c_str()) != 0)
    return os_error("rewriting the spool " + name_.string(), errno);
  for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].offset = offsets[i];
  file_ = std::move(file);
  end_ = end;
  return {};
}

}  // namespace lockstep::spool
