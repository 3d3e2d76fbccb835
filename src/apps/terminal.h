// Writing for people: to the result (standard output) or beside it (standard error), in colour or
// not, and what shows them that a long wait goes on.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/units.h"
#include "text/table.h"

namespace lockstep {

bool is_terminal(int fd);
// Columns of standard output's terminal; else $COLUMNS, else 80.
int terminal_width();
// Colour on terminals only, and not where NO_COLOR (https://no-color.org) or TERM=dumb refuse it.
Style style_for(int fd);

// To standard output. A reader that went away (`| head`) ends the program by kNobodyReads; output
// that cannot be written, by kFailed.
void print(std::string_view line);
// The same without showing it yet: for many lines, with flush() behind them.
void put(std::string_view line);
void flush();
// To standard error: what is not the command's result.
void say(std::string_view line);

// A line as a terminal may show it: what would act on it is spelled out. Elsewhere as it is.
std::string shown_on(int fd, std::string_view line);

// What is not a whole line yet, such as a progress bar, drawn over as it changes. On standard
// output if that is a terminal, else on standard error; where neither is, as lines of standard
// error, at most one in two seconds. Goes away with the object.
class LiveLine {
 public:
  LiveLine() = default;
  ~LiveLine() { wipe(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  // Empty: there is nothing.
  void show(std::string_view what);
  // Before anything else is written.
  void wipe();

 private:
  void draw(std::string_view words);

  std::string shown_;
  bool visible_ = false;
  std::chrono::steady_clock::time_point said_{};
};

// What a wait is told to where standard error is not a terminal.
enum class OffTerminal { nothing, once };

// What is being waited for and for how long, on standard error, once a second has passed. Drawn
// over on a terminal; goes away with the object.
class WaitingLine {
 public:
  explicit WaitingLine(OffTerminal off_terminal = OffTerminal::nothing)
      : off_terminal_(off_terminal), since_(std::chrono::steady_clock::now()) {}
  ~WaitingLine() { wipe(); }
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

  // Call it often; draws at most once a second.
  void show(std::string_view what);
  // The same, where the wait began at another moment.
  void show(std::string_view what, Duration waited);
  // Before anything else is written.
  void wipe();

 private:
  OffTerminal off_terminal_;
  bool said_ = false;
  std::chrono::steady_clock::time_point since_;
  std::int64_t drawn_ = 0;  // the second that was last drawn
  bool visible_ = false;
};

}  // namespace lockstep
