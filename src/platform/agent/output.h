// A rank's output: bytes in, lines out.
//
// The file of the rank gets every byte as it came. The daemon gets lines as a terminal would show
// them: what a carriage return overwrote (progress bars) is left out, a long line is cut and
// marked, and a line without an end is taken as whole when the rank has ended. Memory is bounded by
// one line and one text, whatever the rank writes.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "base/units.h"

namespace lockstep {

inline constexpr Bytes kLineMax = 16_KiB;
inline constexpr Bytes kTextMax = 64_KiB;

class Output {
 public:
  // Whole lines, with '\n' between them and none at the end.
  using Sink = std::function<void(std::string text, int lines)>;

  // Appends to the file.
  static Result<Output> open(const std::filesystem::path& file, Sink sink);

  void take(std::string_view bytes);
  // Gives the sink the whole lines that it has not had.
  void flush();
  // The same, and the rest of a line.
  void finish();
  bool has_lines() const { return lines_ > 0; }

 private:
  Output(std::filesystem::path name, Fd file, Sink sink)
      : name_(std::move(name)), file_(std::move(file)), sink_(std::move(sink)) {}
  void keep(std::string_view bytes);
  void add_to_line(std::string_view bytes);
  void start_over();
  void end_line();

  std::filesystem::path name_;
  Fd file_;
  Sink sink_;
  bool file_failed_ = false;
  std::string line_;
  std::size_t cut_ = 0;    // bytes of the line that did not fit
  bool returned_ = false;  // a carriage return came last: what follows overwrites the line
  bool open_ = false;      // something of a line has come
  std::string text_;
  int lines_ = 0;
};

}  // namespace lockstep
