#include "platform/agent/spool.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "text/convert.h"
#include "text/json.h"

namespace lockstep {
namespace {

Result<void> write_at(int fd, std::string_view content, std::int64_t offset) {
  while (!content.empty()) {
    ssize_t n = ::pwrite(fd, content.data(), content.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("writing the spool", errno);
    content.remove_prefix(static_cast<std::size_t>(n));
    offset += n;
  }
  return {};
}

Result<std::string> read_at(int fd, std::int64_t size, std::int64_t offset) {
  std::string content(static_cast<std::size_t>(size), '\0');
  for (std::size_t done = 0; done < content.size();) {
    ssize_t n = ::pread(fd, content.data() + done, content.size() - done,
                        offset + static_cast<std::int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("reading the spool", errno);
    if (n == 0)
      return Error{Code::corrupt, "reading the spool: it is shorter than what was written"};
    done += static_cast<std::size_t>(n);
  }
  return content;
}

}  // namespace

Result<Spool> Spool::open(const std::filesystem::path& file, const Limits& limits) {
  Fd opened = TRY(open_file(file, O_RDWR | O_CREAT | O_TRUNC));
  return Spool(file, std::move(opened), limits);
}

Result<void> Spool::add(const api::SpoolItem& item, int lines) {
  entries_.push_back(TRY(append(item, lines)));
  drop_oldest_logs();
  return compact();
}

// Every item ends with a newline, for whoever reads the file.
Result<Spool::Entry> Spool::append(const api::SpoolItem& item, int lines) {
  std::string words = dump_json(to_json(item)) + "\n";
  TRY(write_at(file_.get(), words, end_));
  Entry entry{.offset = end_,
              .size = static_cast<std::int64_t>(words.size()),
              .rank = item.rank,
              .lines = lines,
              .is_log = item.kind == "log"};
  end_ += entry.size;
  live_ += entry.size;
  if (entry.is_log) logs_ += entry.size;
  return entry;
}

Result<api::SpoolItem> Spool::read(const Entry& entry) const {
  std::string words = TRY(read_at(file_.get(), entry.size - 1, entry.offset));
  auto item = TRY(from_json<api::SpoolItem>(TRY(parse_json(words))));
  item.sequence = entry.sequence;
  return item;
}

// Gives the entry its number, and before it one to the line that says what was dropped ahead of it.
Result<void> Spool::number(std::size_t index) {
  Entry& entry = entries_[index];
  if (entry.sequence > 0) return {};
  auto dropped = entry.is_log ? dropped_.find(entry.rank) : dropped_.end();
  if (dropped == dropped_.end()) {
    entry.sequence = ++sent_;
    return {};
  }
  api::SpoolItem mark = TRY(read(entry));
  mark.text = format(
      "[lockstep: {} lines were dropped here while the daemon was away; rank-{}.log "
      "has them]",
      dropped->second, entry.rank);
  Entry marked = TRY(append(mark, 1));
  marked.sequence = ++sent_;
  dropped_.erase(dropped);
  entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(index), marked);
  return {};
}

Result<std::vector<api::SpoolItem>> Spool::batch(Bytes most) {
  std::vector<api::SpoolItem> items;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    TRY(number(i));  // may put another entry here
    bytes += entries_[i].size;
    if (!items.empty() && bytes > most.count()) break;
    items.push_back(TRY(read(entries_[i])));
  }
  return items;
}

void Spool::forget(const Entry& entry) {
  live_ -= entry.size;
  if (entry.is_log) logs_ -= entry.size;
}

Result<void> Spool::acknowledge(std::int64_t sequence) {
  while (!entries_.empty() && entries_.front().sequence > 0 &&
         entries_.front().sequence <= sequence) {
    forget(entries_.front());
    entries_.pop_front();
  }
  return compact();
}

// Down to seven eighths of the limit, so that the search is not repeated for each line.
void Spool::drop_oldest_logs() {
  if (logs_ <= limits_.logs.count()) return;
  std::int64_t excess = logs_ - limits_.logs.count() / 8 * 7;
  std::erase_if(entries_, [&](const Entry& entry) {
    if (excess <= 0 || !entry.is_log || entry.sequence > 0 || &entry == &entries_.back())
      return false;
    excess -= entry.size;
    dropped_[entry.rank] += entry.lines;
    forget(entry);
    return true;
  });
}

Result<void> Spool::compact() {
  if (entries_.empty() && end_ > 0) {
    if (::ftruncate(file_.get(), 0) != 0) return os_error("emptying the spool", errno);
    end_ = 0;
    return {};
  }
  std::int64_t garbage = end_ - live_;
  if (garbage <= std::max(limits_.garbage.count(), live_)) return {};

  std::filesystem::path temporary = name_;
  temporary += ".tmp";
  Fd file = TRY(open_file(temporary, O_RDWR | O_CREAT | O_TRUNC));
  std::vector<std::int64_t> offsets;
  std::int64_t end = 0;
  for (const Entry& entry : entries_) {
    TRY(write_at(file.get(), TRY(read_at(file_.get(), entry.size, entry.offset)), end));
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

}  // namespace lockstep
