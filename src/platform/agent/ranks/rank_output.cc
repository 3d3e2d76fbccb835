#include "platform/agent/ranks/rank_output.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <tuple>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/files.h"

namespace lockstep::agent {
namespace {

constexpr auto kLineBytes = static_cast<std::size_t>(kLineMax.count());
constexpr auto kNewestBytes = static_cast<std::size_t>(kNewestLines.count());
constexpr Duration kLongest = std::chrono::seconds(60);  // until any burst is allowed again
constexpr std::size_t kLastLinesMax = 4096;
constexpr auto kTextBytes = static_cast<std::size_t>(kTextMax.count());

// The position for a cut that splits no UTF-8 character.
std::size_t cut_before(std::string_view line, std::size_t size) {
  std::size_t cut = size;
  while (cut > 0 && size - cut < 4 && (static_cast<unsigned char>(line[cut]) & 0xc0) == 0x80) --cut;
  return cut;
}

}  // namespace

Result<RankOutput> RankOutput::open(const std::filesystem::path& file, Sink sink, Bytes most) {
  Fd opened = TRY(open_file(file, O_WRONLY | O_CREAT | O_APPEND));
  struct stat found{};
  if (::fstat(opened.get(), &found) != 0) return os_error("opening " + file.string(), errno);
  return RankOutput(file, std::move(opened), std::move(sink), found.st_size, most);
}

// --- The file ---

void RankOutput::write_bounded(std::string_view bytes) {
  if (size_ + static_cast<std::int64_t>(bytes.size()) > size_max_.count()) {
    const std::size_t line_end = bytes.find('\n') + 1;  // 0: none
    write(bytes.substr(0, line_end));
    bytes.remove_prefix(line_end);
    rotate();
  }
  write(bytes);
}

// A full disk affects the file, not the training: it is reported once, and the lines still go to
// the daemon.
void RankOutput::write(std::string_view bytes) {
  if (lost_ > 0 && append(format("[lockstep: {} bytes were lost here]\n", lost_))) {
    LS_LOG(warning, "{}: there is space again; {} bytes were lost", name_.string(), lost_);
    lost_ = 0;
  }
  if (lost_ == 0 && append(bytes)) return;
  if (lost_ == 0)
    LS_LOG(error, "{}: {}; output goes to the daemon only", name_.string(), errno_text(errno));
  lost_ += static_cast<std::int64_t>(bytes.size());
}

// All or nothing; sets errno.
bool RankOutput::append(std::string_view bytes) {
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t n = ::write(file_.get(), rest.data(), rest.size());
    if (n >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      const int error = errno;
      if (::ftruncate(file_.get(), size_) != 0) LS_LOG(warning, "{} cannot be cut", name_.string());
      errno = error;
      return false;
    }
  }
  size_ += static_cast<std::int64_t>(bytes.size());
  return true;
}

// If it fails, the file keeps growing, and the next bytes try again.
void RankOutput::rotate() {
  std::filesystem::path older = name_;
  older += ".1";
  const bool replaces = ::access(older.c_str(), F_OK) == 0;
  if (::rename(name_.c_str(), older.c_str()) != 0) return;
  auto fresh = open_file(name_, O_WRONLY | O_CREAT | O_APPEND);
  if (!fresh) {
    LS_LOG(error, "{}", fresh.error().message);
    std::ignore = ::rename(older.c_str(), name_.c_str());
    return;
  }
  file_ = *std::move(fresh);
  size_ = 0;
  write(format("[lockstep: what came before is in {}{}]\n", older.filename().string(),
               replaces ? "; what came before that is gone" : ""));
}

// --- The lines ---

void RankOutput::add_bytes(std::string_view bytes) {
  write_bounded(bytes);
  while (!bytes.empty()) {
    const std::size_t line_end = std::min(bytes.find('\n'), bytes.size());
    std::string_view line = bytes.substr(0, line_end);
    for (std::size_t end = line.find('\r'); end != std::string_view::npos; end = line.find('\r')) {
      if (end > 0) add_to_line(line.substr(0, end));
      carriage_returned_ = true;
      line.remove_prefix(end + 1);
    }
    if (!line.empty()) add_to_line(line);
    if (line_end == bytes.size()) return;
    end_line();
    bytes.remove_prefix(line_end + 1);
  }
}

void RankOutput::add_to_line(std::string_view bytes) {
  if (carriage_returned_) clear_line();
  open_ = true;
  std::size_t room = kLineBytes - std::min(line_.size(), kLineBytes);
  if (cut_ > 0) room = 0;
  if (bytes.size() > room) {
    std::size_t fits = cut_before(bytes, room);
    cut_ += bytes.size() - fits;
    bytes = bytes.substr(0, fits);
  }
  line_.append(bytes);
}

void RankOutput::clear_line() {
  line_.clear();
  cut_ = 0;
  carriage_returned_ = false;
}

void RankOutput::end_line() {
  if (cut_ > 0) line_ += format(" [cut: {} bytes more in {}]", cut_, name_.filename().string());
  const auto size = static_cast<std::int64_t>(line_.size()) + 1;
  if (newest_.empty() && size <= allowed_) {
    allowed_ -= size;
    if (lines_ > 0 && text_.size() + line_.size() >= kTextBytes) pass_text();
    if (lines_ > 0) text_ += '\n';
    text_ += line_;
    ++lines_;
  } else {
    keep_newest(line_);
  }
  clear_line();
  open_ = false;
}

void RankOutput::keep_newest(std::string_view line) {
  newest_ += line;
  newest_ += '\n';
  if (newest_.size() <= 2 * kNewestBytes) return;
  const std::size_t kept = newest_.find('\n', newest_.size() - kNewestBytes) + 1;
  left_out_ += std::ranges::count(std::string_view(newest_).substr(0, kept), '\n');
  newest_.erase(0, kept);
}

void RankOutput::allow_lines(Duration elapsed) {
  const auto micros = std::min<std::int64_t>(elapsed.count(), Duration(kLongest).count());
  allowed_ = std::min(allowed_ + kLineRate.count() * micros / 1'000'000, kLineBurst.count());
}

void RankOutput::pass_text() {
  if (std::exchange(lines_, 0) > 0) sink_(std::exchange(text_, {}));
}

void RankOutput::pass_newest() {
  if (newest_.empty()) return;
  newest_.pop_back();
  if (left_out_ > 0)
    newest_.insert(0, format("[lockstep: {} lines came too fast and are only in {}]\n", left_out_,
                             name_.filename().string()));
  left_out_ = 0;
  sink_(std::exchange(newest_, {}));
}

void RankOutput::flush() {
  pass_text();
  pass_newest();
}

std::string_view RankOutput::unfinished_line() const {
  constexpr auto kMost = static_cast<std::size_t>(kUnfinishedMax.count());
  if (!open_ || line_.find_first_not_of(' ') == std::string::npos) return {};
  const std::string_view line = line_;
  return line.size() <= kMost ? line : line.substr(0, cut_before(line, kMost));
}

void RankOutput::finish() {
  if (open_) end_line();
  flush();
}

std::string last_lines(const std::filesystem::path& file) {
  const auto opened = open_file(file, O_RDONLY);
  struct stat found{};
  if (!opened || ::fstat(opened->get(), &found) != 0) return "";
  std::string text(kLastLinesMax, '\0');
  const off_t begin = std::max<off_t>(0, found.st_size - static_cast<off_t>(text.size()));
  const ssize_t n = ::pread(opened->get(), text.data(), text.size(), begin);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  if (begin > 0) text.erase(0, text.find('\n') + 1);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace lockstep::agent
