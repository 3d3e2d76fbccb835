#include "text/display/table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/format.h"

namespace lockstep {
namespace {

constexpr std::size_t kGap = 2, kNarrowest = 8;

struct CharacterRange {
  char32_t first, last;
};

// The common blocks of combining marks and zero-width characters.
constexpr std::array<CharacterRange, 5> kZeroWidth = {
    {{0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}}};
// The common blocks that are wide in Unicode's East Asian Width.
constexpr std::array<CharacterRange, 8> kWide = {{{0x1100, 0x115F},
                                                  {0x2E80, 0x303E},
                                                  {0x3041, 0xA4CF},
                                                  {0xAC00, 0xD7A3},
                                                  {0xF900, 0xFAFF},
                                                  {0xFF00, 0xFF60},
                                                  {0x1F300, 0x1FAFF},
                                                  {0x20000, 0x3FFFD}}};

template <std::size_t N>
bool in(const std::array<CharacterRange, N>& ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](CharacterRange range) { return c >= range.first && c <= range.last; });
}

struct Character {
  std::size_t bytes;
  std::size_t width;
};

// The first character; a byte that is not UTF-8 counts as one of width one.
Character next_character(std::string_view input) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(input[i]); };
  std::size_t bytes = byte(0) < 0xC0 ? 1 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (bytes == 1 || bytes > input.size()) return {1, 1};
  char32_t c = byte(0) & (0xFFu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) c = c << 6 | (byte(i) & 0x3Fu);
  return {bytes, in(kZeroWidth, c) ? 0u : in(kWide, c) ? 2u : 1u};
}

std::string without_controls(std::string input) {
  for (char& c : input)
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = ' ';
  return input;
}

// "12", "-1.5", "3.4M", "98%", "-"
bool is_numeric(std::string_view cell) {
  if (cell == "-" || cell.empty()) return true;
  if (cell.front() == '-') cell.remove_prefix(1);
  if (cell.empty() || std::isdigit(static_cast<unsigned char>(cell.front())) == 0) return false;
  if (std::string_view("kMGTPE%").find(cell.back()) != cell.npos) cell.remove_suffix(1);
  return std::all_of(cell.begin(), cell.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.';
  });
}

struct Column {
  std::size_t width = 0;
  bool is_numeric = true;
};

// Narrows the widest text column until all fits or all are narrow.
void narrow(std::vector<Column>& columns, std::size_t width_max) {
  std::size_t total = kGap * (columns.size() - 1);
  for (const Column& column : columns) total += column.width;
  for (; total > width_max; --total) {
    auto widest = columns.end();
    for (auto column = columns.begin(); column != columns.end(); ++column)
      if (!column->is_numeric && column->width > kNarrowest &&
          (widest == columns.end() || column->width > widest->width))
        widest = column;
    if (widest == columns.end()) return;
    --widest->width;
  }
}

std::string line_of(const std::vector<std::string>& row, const std::vector<Column>& columns) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0) line += std::string(kGap, ' ');
    std::size_t width = display_width(row[i]);
    if (columns[i].is_numeric && width < columns[i].width)
      line += std::string(columns[i].width - width, ' ') + row[i];
    else
      line += fit_to_width(row[i], columns[i].width);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::size_t display_width(std::string_view input) {
  std::size_t width = 0;
  while (!input.empty()) {
    Character character = next_character(input);
    width += character.width;
    input.remove_prefix(character.bytes);
  }
  return width;
}

std::string fit_to_width(std::string_view input, std::size_t width) {
  std::size_t full = display_width(input);
  if (full <= width) return std::string(input) + std::string(width - full, ' ');
  if (width == 0) return {};
  std::size_t end = 0, taken = 0;
  while (true) {
    Character character = next_character(input.substr(end));
    if (taken + character.width > width - 1) break;
    taken += character.width;
    end += character.bytes;
  }
  return std::string(input.substr(0, end)) + "…" + std::string(width - 1 - taken, ' ');
}

void Table::add(std::vector<std::string> row) {
  LS_CHECK(row.size() == header_.size(), "{} cells under {} headers", row.size(), header_.size());
  for (std::string& cell : row) cell = without_controls(std::move(cell));
  rows_.push_back(std::move(row));
}

std::string Table::text(std::size_t width_max, TableStyle style) const {
  std::vector<Column> columns(header_.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].width = display_width(header_[i]);
    for (const auto& row : rows_) {
      columns[i].width = std::max(columns[i].width, display_width(row[i]));
      columns[i].is_numeric = columns[i].is_numeric && is_numeric(row[i]);
    }
  }
  if (width_max > 0 && !columns.empty()) narrow(columns, width_max);
  std::string head = line_of(header_, columns);
  std::string result = style == TableStyle::colour ? "\x1b[1m" + head + "\x1b[0m\n" : head + "\n";
  for (const auto& row : rows_) result += line_of(row, columns) + "\n";
  return result;
}

std::string human_number(double value) {
  static constexpr double kSuffixedMost = 999.95e18;
  static constexpr std::array<const char*, 7> kSuffixes = {"", "k", "M", "G", "T", "P", "E"};
  if (!std::isfinite(value)) return format("{}", value);
  if (std::abs(value) >= kSuffixedMost) return format("{:.2e}", value);
  std::size_t suffix = 0;
  // 999.95 and more would be shown as 1000.0.
  while (std::abs(value) >= (suffix == 0 ? 1000 : 999.95) && suffix + 1 < kSuffixes.size()) {
    value /= 1000;
    ++suffix;
  }
  if (suffix > 0) return format("{:.1f}{}", value, kSuffixes[suffix]);
  return value == std::trunc(value) ? format("{:.0f}", value) : format("{:.3g}", value);
}

std::string age(Time then, Time now) {
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - then).count();
  if (seconds < 1) return "now";
  if (seconds < 60) return format("{}s ago", seconds);
  if (seconds < 3600) return format("{}m ago", seconds / 60);
  if (seconds < 86400) return format("{}h ago", seconds / 3600);
  return format("{}d ago", seconds / 86400);
}

}  // namespace lockstep
