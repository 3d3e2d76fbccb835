// Spool: what an agent collected and the daemon has not acknowledged, on disk, in order. The agent
// writes it (Spool); what a killed agent left behind the daemon's janitor reads (left_spool.h).
//
// The file says everything by itself. A line is one item:
//
//   17 {"sequence":17,"kind":"log","rank":3,...}\n
//
// Items are numbered when they are added, from 1; what was sent is never changed, so an item that
// is sent twice is the same one. Numbers may be missing: the daemon keeps what lies above the last
// that it has stored. Lines stand nearly in the order of their numbers, and three things may be
// found among them: a line that begins with '-' was dropped (its first byte is overwritten in
// place), of two lines with one number the later counts, and a last line without an end was torn
// when the agent was killed. Items that are acknowledged stay until the file is rewritten.
//
// The daemon may be away for days while ranks go on writing. Memory holds only where each item
// stands in the file, and both kinds of items have a limit: when the log lines waiting exceed
// theirs, the oldest give way; when metrics and progress do, new ones are refused. Checkpoints have
// none. Also lost is what a full disk does not take. Whatever is lost, one log line of that rank in
// its place says how much, as soon as it can be written.
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

#include "base/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/item/item.h"

namespace lockstep {

class Spool {
 public:
  struct Limits {
    Bytes logs = 256_MiB;     // of lines that wait
    Bytes reports = 256_MiB;  // of metrics, progress and checkpoints that wait
    Bytes garbage = 64_MiB;   // of what is acknowledged or dropped, before the file is rewritten
  };

  // Replaces what is there.
  static Result<Spool> open(const std::filesystem::path& file, const Limits& limits);

  // Numbers the item. An error says why it is lost; that it is, will stand among the rank's lines.
  Result<void> add(Item item);
  // The oldest items: at most so many, up to `most` bytes of JSON and at least one.
  std::vector<Item> batch(Bytes most, std::size_t items = std::numeric_limits<std::size_t>::max());
  // Everything up to this sequence is the daemon's.
  void acknowledge(std::int64_t sequence);
  // The daemon will never take this item, which batch() gave: a line that says so takes its place,
  // or nothing if it was such a line itself.
  void refuse(std::int64_t sequence, std::string_view why);
  bool empty() const { return entries_.empty(); }
  // No item follows the one with this sequence.
  bool ends_with(std::int64_t sequence) const {
    return entries_.empty() || entries_.back().sequence == sequence;
  }

 private:
  struct Entry {
    std::int64_t offset = 0;
    std::int64_t size = 0;
    std::int64_t sequence = 0;
    int rank = 0;
    int lines = 0;  // that it has or, as a mark, stands for
    ItemKind kind = ItemKind::log;
    bool is_mark = false;  // a line of ours in the place of others
  };
  // Of one rank, not said yet.
  struct Loss {
    std::int64_t lines = 0;
    std::int64_t reports = 0;
    std::string why;
  };
  // Of one rank, at once.
  struct Dropped {
    std::int64_t newest = 0;  // sequence
    int lines = 0;
  };
  Spool(std::filesystem::path name, Fd file, const Limits& limits)
      : name_(std::move(name)), file_(std::move(file)), limits_(limits) {}
  static bool is_log(const Entry& entry) { return entry.kind == ItemKind::log; }
  Result<Entry> write(const Item& item);
  Result<Entry> write_mark(const Item& line, int lines);
  Result<Item> read(const Entry& entry) const;
  Result<void> replace(Entry& entry, std::string text, int lines);
  void lose(int rank, ItemKind kind, int lines, std::string why);
  Result<void> say_losses();
  void drop_oldest_logs();
  std::int64_t last_to_drop() const;
  void mark_dropped(Entry& newest, const Dropped& dropped);
  void erase(const Entry& entry);
  void count(const Entry& entry);
  void forget(const Entry& entry);
  void tidy();
  Result<void> rewrite(const std::filesystem::path& temporary);

  std::filesystem::path name_;
  Fd file_;
  Limits limits_;
  std::deque<Entry> entries_;        // by sequence
  std::map<int, Loss> losses_;       // by rank
  std::int64_t last_ = 0;            // the last sequence
  std::int64_t given_ = 0;           // the last that batch() gave
  std::int64_t end_ = 0;             // of the file
  std::int64_t logs_ = 0;            // bytes of entries_ that are logs
  std::int64_t reports_ = 0;         // of the others
  std::int64_t rewrite_failed_ = 0;  // end_ at that time; 0: it did not
};

}  // namespace lockstep
