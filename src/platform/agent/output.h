// A rank's output: bytes in, lines out.
//
// The file of the rank gets every byte as it came, up to a limit: beyond that it is renamed
// (rank-0.log.1) and a new one begun, whose first line says so; what was in an older one is gone.
// A full disk costs the file what it does not take; once there is space, a line says how much.
//
// The daemon gets lines as a terminal would show them: what a carriage return overwrote (progress
// bars) is left out, a long line is cut and marked, and a line without an end is taken as whole
// when the rank has ended. Memory is bounded by one line and one text, whatever the rank writes.
#pragma once

#include <cstdint>
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
inline constexpr Bytes kUnfinishedMax = 1_KiB;

// Of a rank's file; with the older one a rank can fill twice that.
inline constexpr Bytes kRankLogMax = 256_MiB;

class Output {
 public:
  // Whole lines, with '\n' between them and none at the end.
  using Sink = std::function<void(std::string text)>;

  // Appends to the file.
  static Result<Output> open(const std::filesystem::path& file, Sink sink,
                             Bytes most = kRankLogMax);

  void take(std::string_view bytes);
  // Gives the sink the whole lines that it has not had.
  void flush();
  // The same, and the rest of a line.
  void finish();
  bool has_lines() const { return lines_ > 0; }
  // What a terminal shows of the line that has no end yet, at most kUnfinishedMax; empty: nothing.
  std::string_view unfinished() const;

 private:
  Output(std::filesystem::path name, Fd file, Sink sink, std::int64_t size, Bytes most)
      : name_(std::move(name)),
        file_(std::move(file)),
        sink_(std::move(sink)),
        size_(size),
        most_(most) {}
  void keep(std::string_view bytes);
  void write(std::string_view bytes);
  bool append(std::string_view bytes);
  void rotate();
  void add_to_line(std::string_view bytes);
  void start_over();
  void end_line();

  std::filesystem::path name_;
  Fd file_;
  Sink sink_;
  std::int64_t size_;  // of the file
  Bytes most_;
  std::int64_t lost_ = 0;  // bytes that the disk did not take, not said yet
  std::string line_;
  std::size_t cut_ = 0;    // bytes of the line that did not fit
  bool returned_ = false;  // a carriage return came last: what follows overwrites the line
  bool open_ = false;      // something of a line has come
  std::string text_;
  int lines_ = 0;
};

}  // namespace lockstep
