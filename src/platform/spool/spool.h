// Spool: items that an agent collected and the daemon has not acknowledged, on disk, in order. The
// agent writes it (Spool); after an agent was killed, the daemon's janitor reads it
// (abandoned_spool.h).
//
// The file needs no other data. A line is one item:
//
//   17 {"sequence":17,"kind":"log","rank":3,...}\n
//
// Items are numbered from 1 when they are added. A sent item never changes, so a repeated item is
// the same one. Numbers may be missing: the daemon accepts items above the last one that it has
// stored. Lines are almost in the order of their numbers, with three exceptions. A line that begins
// with '-' was dropped (its first byte is overwritten in place). If two lines have the same number,
// the later one counts. A last line without an end was truncated when the agent was killed.
// Acknowledged items stay until the file is rewritten.
//
// The daemon may be away for days while ranks continue to write. Memory holds only the position of
// each item in the file, and each kind of items has a limit. When pending log lines exceed theirs,
// the oldest are dropped; when metrics and progress do, or telemetry, new ones are rejected.
// Checkpoints have no limit. Items are also lost if the disk is full. One log line of the rank
// reports each loss in its place, as soon as it can be written. Lost telemetry is a gap in its
// curves only.
//
// The file is not synced: it survives its agent, not its host. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/spool/telemetry_item.h"

namespace lockstep::spool {

class Spool {
 public:
  struct Limits {
    Bytes logs = 256_MiB;     // of pending log lines
    Bytes reports = 256_MiB;  // of pending metrics and progress
    Bytes telemetry = 2_MiB;  // of a few minutes: lines wait behind it
    Bytes garbage = 64_MiB;   // of acknowledged or dropped items, before the file is rewritten
  };

  // Replaces an existing file.
  static Result<Spool> open(const std::filesystem::path& file, const Limits& limits);

  // Numbers the item. An error gives the reason of a loss; a line of the rank's log will report it.
  Result<void> add(TelemetryItem item);
  // The oldest items: at most so many, up to `most` bytes of JSON and at least one.
  std::vector<TelemetryItem> batch(Bytes most,
                                   std::size_t items = std::numeric_limits<std::size_t>::max());
  // The daemon has stored everything up to this sequence.
  void acknowledge(std::int64_t sequence);
  // The daemon never accepts this item, which batch() returned: a line that reports this replaces
  // it, or nothing if it was such a line itself.
  void reject(std::int64_t sequence, std::string_view why);
  bool empty() const { return entries_.empty(); }
  bool has_only_telemetry() const { return logs_ + reports_ == 0; }
  // True if no item follows the one with this sequence.
  bool ends_with(std::int64_t sequence) const {
    return entries_.empty() || entries_.back().sequence == sequence;
  }

 private:
  struct Entry {
    std::int64_t offset = 0;
    std::int64_t size = 0;
    std::int64_t sequence = 0;
    int rank = 0;
    int lines = 0;  // lines that it has or, as a loss note, replaces
    TelemetryKind kind = TelemetryKind::log;
    bool is_loss_note = false;  // a line of Lockstep that replaces others
  };
  // Losses of one rank that are not reported yet.
  struct Loss {
    std::int64_t lines = 0;
    std::int64_t reports = 0;
    std::string why;
  };
  // Dropped lines of one rank, in one call.
  struct Dropped {
    std::int64_t newest = 0;  // sequence
    int lines = 0;
  };
  Spool(std::filesystem::path name, Fd file, const Limits& limits)
      : name_(std::move(name)), file_(std::move(file)), limits_(limits) {}
  static bool is_log(const Entry& entry) { return entry.kind == TelemetryKind::log; }
  std::int64_t& pending_of(TelemetryKind kind);
  Result<void> check_limit(TelemetryKind kind) const;
  Result<Entry> write(const TelemetryItem& item);
  Result<Entry> write_loss_note(const TelemetryItem& line, int lines);
  Result<TelemetryItem> read(const Entry& entry) const;
  Result<void> replace(Entry& entry, std::string text, int lines);
  void record_loss(int rank, TelemetryKind kind, int lines, std::string why);
  Result<void> write_losses();
  void drop_oldest_logs();
  std::int64_t last_to_drop() const;
  void note_dropped(Entry& newest, const Dropped& dropped);
  void erase(const Entry& entry);
  void count(const Entry& entry);
  void forget(const Entry& entry);
  void compact();
  Result<void> rewrite(const std::filesystem::path& temporary);

  std::filesystem::path name_;
  Fd file_;
  Limits limits_;
  std::deque<Entry> entries_;        // by sequence
  std::map<int, Loss> losses_;       // by rank
  std::int64_t last_sequence_ = 0;   // the last sequence
  std::int64_t last_batched_ = 0;    // the last that batch() returned
  std::int64_t end_ = 0;             // of the file
  std::int64_t logs_ = 0;            // bytes of log items in entries_
  std::int64_t telemetry_ = 0;       // of telemetry
  std::int64_t reports_ = 0;         // of the others
  std::int64_t rewrite_failed_ = 0;  // end_ at the last failed rewrite; 0: none failed
};

}  // namespace lockstep::spool
