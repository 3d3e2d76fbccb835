#include "platform/spool/abandoned_spool.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "base/os/files.h"
#include "platform/spool/detail/line.h"

namespace lockstep::spool {

Result<AbandonedSpool> AbandonedSpool::open(const std::filesystem::path& file) {
  AbandonedSpool left(TRY(open_file(file, O_RDONLY)));
  TRY(left.find_lines());
  return left;
}

Result<void> AbandonedSpool::find_lines() {
  std::string head;  // of the line that begins at `begin`
  std::int64_t begin = 0;
  std::vector<char> buffer(1 << 20);
  for (std::int64_t at = 0;;) {
    const ssize_t n = ::pread(file_.get(), buffer.data(), buffer.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("reading a left spool", errno);
    if (n == 0) break;
    for (std::string_view rest(buffer.data(), static_cast<std::size_t>(n)); !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      head.append(rest.substr(0, std::min(end, spool::kSequenceMax - head.size())));
      at += static_cast<std::int64_t>(end);
      rest.remove_prefix(end);
      if (rest.empty()) break;
      index_line(head, begin, at - begin);
      rest.remove_prefix(1);
      begin = ++at;
      head.clear();
    }
  }
  // If two items have the same number, the later in the file counts.
  std::ranges::stable_sort(lines_, {}, &Line::sequence);
  const auto last = std::unique(lines_.rbegin(), lines_.rend(), [](const Line& a, const Line& b) {
    return a.sequence == b.sequence;
  });
  lines_.erase(lines_.begin(), last.base());
  return {};
}

void AbandonedSpool::index_line(std::string_view head, std::int64_t offset, std::int64_t size) {
  if (head.starts_with(spool::kDroppedMark)) return;
  if (const auto sequence = spool::sequence_of(head))
    lines_.push_back({.sequence = *sequence, .offset = offset, .size = size});
  else
    ++broken_;
}

Result<std::vector<TelemetryItem>> AbandonedSpool::batch(std::int64_t after_sequence, Bytes most) {
  std::vector<TelemetryItem> items;
  std::int64_t bytes = 0;
  for (auto line = std::ranges::upper_bound(lines_, after_sequence, {}, &Line::sequence);
       line != lines_.end(); ++line) {
    bytes += line->size;
    if (!items.empty() && bytes > most.count()) break;
    auto item = spool::item_of(TRY(spool::read_at(file_.get(), line->size, line->offset)));
    if (item)
      items.push_back(*std::move(item));
    else
      ++broken_;
  }
  return items;
}

}  // namespace lockstep::spool
