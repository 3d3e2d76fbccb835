#include "apps/cli/terminal.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "base/format.h"
#include "base/result.h"
#include "base/units.h"
#include "base/utf8.h"

namespace lockstep::cli {
namespace {

constexpr std::int64_t kQuietSeconds = 1;
constexpr auto kLiveEvery = std::chrono::seconds(2);

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool is_dumb() {
  const char* terminal = std::getenv("TERM");
  return terminal != nullptr && std::string_view(terminal) == "dumb";
}

void check_written(bool written) {
  if (written) return;
  if (errno == EPIPE) std::_Exit(kBrokenPipe);
  print_to_stderr("lockstep: " + os_error("writing to standard output", errno).message);
  std::_Exit(kFailed);
}

}  // namespace

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

int terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  int width = columns == nullptr ? 0 : std::atoi(columns);
  return width > 0 ? width : 80;
}

int terminal_height() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

TableStyle style_for(int fd) {
  return is_terminal(fd) && !is_set("NO_COLOR") && !is_dumb() ? TableStyle::colour
                                                              : TableStyle::plain;
}

void print(std::string_view line) {
  print_buffered(line);
  flush();
}

void print_buffered(std::string_view line) {
  bool written = std::fwrite(line.data(), 1, line.size(), stdout) == line.size();
  check_written(written && std::fputc('\n', stdout) != EOF);
}

void flush() { check_written(std::fflush(stdout) == 0); }

void print_to_stderr(std::string_view line) { std::fputs(format("{}\n", line).c_str(), stderr); }

std::string escaped_for(int fd, std::string_view line) {
  return is_terminal(fd) ? escape_controls(line) : std::string(line);
}

void LiveLine::show(std::string_view what) {
  if (what == shown_ && (visible_ || what.empty())) return;
  if (what.empty()) wipe();
  if (what.empty() || is_terminal(STDOUT_FILENO) || is_terminal(STDERR_FILENO)) {
    shown_ = what;
    return draw(what);
  }
  const auto now = std::chrono::steady_clock::now();
  if (what == shown_ || now - last_printed_ < kLiveEvery) return;
  shown_ = what;
  last_printed_ = now;
  print_to_stderr(format("{} (unfinished)", what));
}

void LiveLine::draw(std::string_view words) {
  if (words.empty()) return;
  visible_ = true;
  const std::string line = escape_controls(words);
  const auto width = static_cast<std::size_t>(terminal_width() - 1);
  std::FILE* out = is_terminal(STDOUT_FILENO) ? stdout : stderr;
  std::fputs(
      format("\r\033[K{}", display_width(line) > width ? fit_to_width(line, width) : line).c_str(),
      out);
  std::fflush(out);
}

void LiveLine::wipe() {
  if (!visible_) return;
  visible_ = false;
  std::FILE* out = is_terminal(STDOUT_FILENO) ? stdout : stderr;
  std::fputs("\r\033[K", out);
  std::fflush(out);
}

void WaitingLine::show(std::string_view what) {
  show(what, std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - since_));
}

void WaitingLine::show(std::string_view what, Duration waited) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(waited);
  if (seconds.count() < kQuietSeconds || seconds.count() == drawn_) return;
  drawn_ = seconds.count();
  if (!is_terminal(STDERR_FILENO)) {
    if (off_terminal_ == NonTerminalOutput::once && !std::exchange(printed_, true))
      print_to_stderr(what);
    return;
  }
  visible_ = true;
  std::string line = format("{} ({})", what, text(Duration(seconds)));
  auto width = static_cast<std::size_t>(terminal_width() - 1);
  std::fputs(
      format("\r\033[K{}", display_width(line) > width ? fit_to_width(line, width) : line).c_str(),
      stderr);
}

void WaitingLine::wipe() {
  if (visible_) std::fputs("\r\033[K", stderr);
  visible_ = false;
}

}  // namespace lockstep::cli
