#include "base/log.h"

#include <array>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log_copy.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"debug", "info", "warning", "error"};

LogLevel level_from_environment() {
  const char* wanted = std::getenv("LOCKSTEP_LOG");
  for (std::size_t i = 0; wanted != nullptr && i < kNames.size(); ++i)
    if (kNames[i] == wanted) return static_cast<LogLevel>(i);
  return LogLevel::info;
}

std::string& name_setting() {
  static std::string name;
  return name;
}

LogSink& sink_setting() {
  static LogSink sink;
  return sink;
}

int& copy_setting() {
  static int fd = -1;
  return fd;
}

}  // namespace

void copy_log_to(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  copy_setting() = fd;
}

bool log_enabled(LogLevel level) {
  static const LogLevel least = level_from_environment();
  return level >= least;
}
void set_log_name(std::string_view name) { name_setting() = name; }
void set_log_sink(LogSink sink) { sink_setting() = std::move(sink); }

void log_line(LogLevel level, std::string_view message) {
  if (sink_setting()) return sink_setting()(level, message);
  std::string line =
      format("{} {}", text(SystemClock().now()), kNames[static_cast<std::size_t>(level)]);
  if (!name_setting().empty()) line += format(" [{}]", name_setting());
  line += format(": {}\n", message);
  [[maybe_unused]] auto written = ::write(STDERR_FILENO, line.data(), line.size());
  if (copy_setting() >= 0) written = ::write(copy_setting(), line.data(), line.size());
}

}  // namespace lockstep
