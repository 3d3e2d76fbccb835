// Spool: what the agent collected and the daemon has not acknowledged, on disk, in order.
//
// The daemon may be away for days while ranks go on writing, so memory holds only where each item
// stands in the file. Items are numbered when they are first sent: what is dropped before leaves no
// gap, and what was sent is never changed, so an item that is sent twice is the same one.
// When the log lines waiting exceed the limit, the oldest give way, and one line in their place
// says how many there were (the rank's own file has them). Metrics, progress and checkpoints stay.
//
// The file is not synced: agents do not restart, so after a crash of the host nobody reads it.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/api/messages.h"

namespace lockstep {

class Spool {
 public:
  struct Limits {
    Bytes logs = 256_MiB;    // of lines that wait
    Bytes garbage = 64_MiB;  // of what is acknowledged or dropped, before the file is rewritten
  };

  // Replaces what is there.
  static Result<Spool> open(const std::filesystem::path& file, const Limits& limits);

  // `lines` counts for logs only. Fails when the disk does; then the item is lost.
  Result<void> add(const api::SpoolItem& item, int lines = 0);
  // The oldest items, up to `most` bytes of JSON and at least one; numbered from here on.
  Result<std::vector<api::SpoolItem>> batch(Bytes most);
  // Everything up to this sequence is the daemon's.
  Result<void> acknowledge(std::int64_t sequence);
  bool empty() const { return entries_.empty(); }
  // No item follows the one with this sequence.
  bool ends_with(std::int64_t sequence) const {
    return entries_.empty() || entries_.back().sequence == sequence;
  }

 private:
  struct Entry {
    std::int64_t offset = 0;
    std::int64_t size = 0;
    std::int64_t sequence = 0;  // 0: not sent yet
    int rank = 0;
    int lines = 0;
    bool is_log = false;
  };
  Spool(std::filesystem::path name, Fd file, const Limits& limits)
      : name_(std::move(name)), file_(std::move(file)), limits_(limits) {}
  Result<Entry> append(const api::SpoolItem& item, int lines);
  Result<api::SpoolItem> read(const Entry& entry) const;
  Result<void> number(std::size_t index);
  void drop_oldest_logs();
  void forget(const Entry& entry);
  Result<void> compact();

  std::filesystem::path name_;
  Fd file_;
  Limits limits_;
  std::deque<Entry> entries_;
  std::map<int, std::int64_t> dropped_;  // lines by rank, not said yet
  std::int64_t end_ = 0;                 // of the file
  std::int64_t live_ = 0;                // bytes of entries_
  std::int64_t logs_ = 0;                // bytes of those that are logs
  std::int64_t sent_ = 0;                // the last sequence given
};

}  // namespace lockstep
