#include "platform/spool/detail/line.h"

#include <cerrno>
#include <charconv>

#include <unistd.h>

#include "text/convert.h"
#include "text/json.h"

namespace lockstep::spool {

std::string line_of(const TelemetryItem& item) {
  return format("{} {}\n", item.sequence, dump_json(to_json(item)));
}

std::optional<std::int64_t> sequence_of(std::string_view line) {
  std::int64_t sequence = 0;
  const char* end = line.data() + line.size();
  const auto [after, error] = std::from_chars(line.data(), end, sequence);
  if (error != std::errc() || after == end || *after != ' ' || sequence <= 0) return std::nullopt;
  return sequence;
}

Result<TelemetryItem> item_of(std::string_view line) {
  const auto sequence = sequence_of(line);
  if (!sequence) return Error{Code::corrupt, "a line of the spool without its number"};
  auto item = TRY(from_json<TelemetryItem>(TRY(parse_json(line.substr(line.find(' ') + 1)))));
  if (item.sequence != *sequence)
    return Error{Code::corrupt,
                 format("line {} of the spool holds item {}", *sequence, item.sequence)};
  return item;
}

Result<void> write_at(int fd, std::string_view content, std::int64_t offset) {
  while (!content.empty()) {
    const ssize_t n = ::pwrite(fd, content.data(), content.size(), offset);
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
    const ssize_t n = ::pread(fd, content.data() + done, content.size() - done,
                              offset + static_cast<std::int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("reading the spool", errno);
    if (n == 0)
      return Error{Code::corrupt, "reading the spool: it is shorter than what was written"};
    done += static_cast<std::size_t>(n);
  }
  return content;
}

}  // namespace lockstep::spool
