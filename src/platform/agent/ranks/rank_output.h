// A rank's output: bytes in, lines out.
//
// The file of the rank gets every byte of its input unchanged, up to a limit. Then it is renamed
// (rank-0.log.1), replacing an older one, and a new file begins whose first line reports that. If
// the disk is full, the file loses the bytes that do not fit; once there is space, a line reports
// their number.
//
// The daemon gets lines as a terminal would show them. Text overwritten after a carriage return
// (progress bars) is left out, a long line is cut and marked, and the last line is complete when
// the rank has ended. Memory is bounded by one line and a few texts, whatever the rank writes.
//
// A rank that prints faster than kLineRate for long is not slowed: the file has all its lines, and
// the daemon gets some and, of each interval, the newest. A line between them reports the others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/result.h"
#include "base/units.h"

namespace lockstep::agent {

inline constexpr Bytes kLineMax = 16_KiB;
inline constexpr Bytes kTextMax = 64_KiB;
inline constexpr Bytes kUnfinishedMax = 1_KiB;

// Lines for the daemon: bytes a second, and how many more may come at once.
inline constexpr Bytes kLineRate = 8_MiB;
inline constexpr Bytes kLineBurst = 32_MiB;
inline constexpr Bytes kNewestLines = 32_KiB;  // of an interval in which more came

// Size of a rank's file; with the older one a rank uses at most twice that.
inline constexpr Bytes kRankLogMax = 256_MiB;

class RankOutput {
 public:
  // Complete lines, with '\n' between them and none at the end.
  using Sink = std::function<void(std::string text)>;

  // Appends to the file.
  static Result<RankOutput> open(const std::filesystem::path& file, Sink sink,
                                 Bytes most = kRankLogMax);

  void add_bytes(std::string_view bytes);
  // So much time has passed since the last call: more lines may be passed on.
  void allow_lines(Duration elapsed);
  // Passes new complete lines to the sink, and so ends an interval.
  void flush();
  // The same, including an incomplete last line.
  void finish();
  bool has_lines() const { return lines_ > 0 || !newest_.empty(); }
  // The incomplete last line as a terminal shows it, at most kUnfinishedMax; may be empty.
  std::string_view unfinished_line() const;

 private:
  RankOutput(std::filesystem::path name, Fd file, Sink sink, std::int64_t size, Bytes most)
      : name_(std::move(name)),
        file_(std::move(file)),
        sink_(std::move(sink)),
        size_(size),
        size_max_(most) {}
  void write_bounded(std::string_view bytes);
  void write(std::string_view bytes);
  bool append(std::string_view bytes);
  void rotate();
  void add_to_line(std::string_view bytes);
  void clear_line();
  void end_line();
  void keep_newest(std::string_view line);
  void pass_text();
  void pass_newest();

  std::filesystem::path name_;
  Fd file_;
  Sink sink_;
  std::int64_t size_;  // of the file
  Bytes size_max_;
  std::int64_t lost_ = 0;  // bytes that the disk did not take, not reported yet
  std::string line_;
  std::size_t cut_ = 0;             // bytes of the line that did not fit
  bool carriage_returned_ = false;  // the next byte overwrites the line
  bool open_ = false;               // the line has begun
  std::string text_;
  int lines_ = 0;
  std::int64_t allowed_ = kLineBurst.count();  // bytes of lines
  std::string newest_;                         // with an end after each line; none: all fit so far
  std::int64_t left_out_ = 0;                  // lines of this interval before them
};

// The end of a rank's file from the beginning of a line, 4 KiB at most. Empty: there is none.
std::string last_lines(const std::filesystem::path& file);

}  // namespace lockstep::agent
