// Output for people: the result (standard output) and messages (standard error), with or without
// colour, and the progress of a long wait.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/units.h"
#include "text/display/table.h"

namespace lockstep::cli {

bool is_terminal(int fd);
// Columns of standard output's terminal; else $COLUMNS, else 80.
int terminal_width();
// Lines of standard output's terminal; else 24.
int terminal_height();
// Colour only on terminals, and not if NO_COLOR (https://no-color.org) or TERM=dumb forbids it.
TableStyle style_for(int fd);

// Prints to standard output. If the reader is gone (`| head`), the program ends with kBrokenPipe;
// if the output cannot be written, with kFailed.
void print(std::string_view line);
// The same without flushing: for many lines, followed by flush().
void print_buffered(std::string_view line);
void flush();
// Prints to standard error: messages that are not the command's result.
void print_to_stderr(std::string_view line);

// Escapes control characters of a line for a terminal; for other files the line stays as it is.
std::string escaped_for(int fd, std::string_view line);

// A line that is not complete yet, such as a progress bar, redrawn as it changes. It is written to
// standard output if that is a terminal, else to standard error. If neither is a terminal, it
// becomes lines on standard error, at most one in two seconds. The destructor erases it.
class LiveLine {
 public:
  LiveLine() = default;
  ~LiveLine() { wipe(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  // An empty text clears the line.
  void show(std::string_view what);
  // Call before any other output.
  void wipe();

 private:
  void draw(std::string_view words);

  std::string shown_;
  bool visible_ = false;
  std::chrono::steady_clock::time_point last_printed_{};
};

// The output of WaitingLine if standard error is not a terminal.
enum class NonTerminalOutput { nothing, once };

// Shows on standard error what the command waits for and for how long, after the first second. It
// is redrawn on a terminal; the destructor erases it.
class WaitingLine {
 public:
  explicit WaitingLine(NonTerminalOutput off_terminal = NonTerminalOutput::nothing)
      : off_terminal_(off_terminal), since_(std::chrono::steady_clock::now()) {}
  ~WaitingLine() { wipe(); }
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

  // Call it often; it draws at most once a second.
  void show(std::string_view what);
  // The same, for a wait that began at another moment.
  void show(std::string_view what, Duration waited);
  // Call before any other output.
  void wipe();

 private:
  NonTerminalOutput off_terminal_;
  bool printed_ = false;
  std::chrono::steady_clock::time_point since_;
  std::int64_t drawn_ = 0;  // the second that was last drawn
  bool visible_ = false;
};

}  // namespace lockstep::cli
