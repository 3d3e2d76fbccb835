#include "apps/terminal.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/exit_codes.h"
#include "base/format.h"
#include "base/result.h"
#include "base/units.h"

namespace lockstep {
namespace {

constexpr std::int64_t kQuietSeconds = 2;

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
  if (errno == EPIPE) std::_Exit(kNobodyReads);
  say("lockstep: " + os_error("writing to standard output", errno).message);
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

Style style_for(int fd) {
  return is_terminal(fd) && !is_set("NO_COLOR") && !is_dumb() ? Style::colour : Style::plain;
}

void print(std::string_view line) {
  put(line);
  flush();
}

void put(std::string_view line) {
  bool written = std::fwrite(line.data(), 1, line.size(), stdout) == line.size();
  check_written(written && std::fputc('\n', stdout) != EOF);
}

void flush() { check_written(std::fflush(stdout) == 0); }

void say(std::string_view line) { std::fputs(format("{}\n", line).c_str(), stderr); }

void WaitingLine::show(std::string_view what) {
  auto waited = std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - since_);
  if (waited.count() < kQuietSeconds || waited.count() == drawn_ || !is_terminal(STDERR_FILENO))
    return;
  drawn_ = waited.count();
  visible_ = true;
  std::string line = format("{} ({})", what, text(Duration(waited)));
  auto width = static_cast<std::size_t>(terminal_width() - 1);
  std::fputs(format("\r\033[K{}", display_width(line) > width ? fitted(line, width) : line).c_str(),
             stderr);
}

void WaitingLine::wipe() {
  if (visible_) std::fputs("\r\033[K", stderr);
  visible_ = false;
}

}  // namespace lockstep
