// Writing for people: to the result (standard output) or beside it (standard error), in colour or
// not, and what shows them that a long wait goes on.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

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

// What is being waited for and for how long, on standard error if that is a terminal, from the
// second second on. Goes away with the object.
class WaitingLine {
 public:
  WaitingLine() : since_(std::chrono::steady_clock::now()) {}
  ~WaitingLine() { wipe(); }
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

  // Call it often; draws at most once a second.
  void show(std::string_view what);
  // Before anything else is written.
  void wipe();

 private:
  std::chrono::steady_clock::time_point since_;
  std::int64_t drawn_ = 0;  // the second that was last drawn
  bool visible_ = false;
};

}  // namespace lockstep
