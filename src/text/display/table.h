// Text for terminals: aligned tables, and numbers and times for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace lockstep {

// Columns that UTF-8 text takes on a terminal: combining marks none, East Asian wide characters and
// emoji two. Enough for names; does not handle ligatures or joined emoji.
std::size_t display_width(std::string_view input);
// Padded with blanks on the right, or cut to the width with "…" at its end.
std::string fit_to_width(std::string_view input, std::size_t width);

enum class TableStyle { plain, colour };

// Rows below a header, each column as wide as its widest cell. Columns whose every cell is a number
// or "-" are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}

  // A row of another length than the header is a bug.
  void add(std::vector<std::string> row);
  bool empty() const { return rows_.empty(); }

  // Not wider than width_max (0: any): the widest text column is cut first. A newline or another
  // control character in a cell becomes a blank. With colour, the header is bold.
  std::string text(std::size_t width_max = 0, TableStyle style = TableStyle::plain) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// "999", "1.2k", "3.4M", "-5.6G"; "nan" and "inf" unchanged. Numbers of three digits or fewer are
// unchanged; fractions have three digits: "0.125".
std::string human_number(double value);
// "5s ago", "12m ago", "3h ago", "4d ago"; "now" within a second or in the future.
std::string age(Time then, Time now);

}  // namespace lockstep
