// LS_LOG(info, "node {} is ready", node): one line on standard error, with time and level.
// For programs' logs; text for the user is printed, not logged. platform/core must not use it.
#pragma once

#include <functional>
#include <string_view>

#include "base/format.h"
#include "base/log_level.h"

namespace lockstep {

// From info on, or from the level that LOCKSTEP_LOG (debug|info|warning|error) says.
bool log_enabled(LogLevel level);
// A prefix of each line, such as "agent demo/1.1/0". Set once, at the start of a program.
void set_log_name(std::string_view name);
// Redirects lines from standard error to `sink`; empty: back to standard error. Not while other
// threads log.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;
void set_log_sink(LogSink sink);
// Writes the line in one write(2), so that lines of several processes do not mix.
void log_line(LogLevel level, std::string_view message);

#define LS_LOG(level, ...)                                                                \
  do {                                                                                    \
    if (::lockstep::log_enabled(::lockstep::LogLevel::level))                             \
      ::lockstep::log_line(::lockstep::LogLevel::level, ::lockstep::format(__VA_ARGS__)); \
  } while (false)

}  // namespace lockstep
