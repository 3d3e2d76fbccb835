#include "text/csv.h"

#include <algorithm>

#include "base/format.h"

namespace lockstep {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

constexpr auto kEndsField = [](char c) { return c == ',' || c == '\n' || c == '\r'; };

}  // namespace

Result<CsvReader> CsvReader::open(std::string_view input, std::string_view name) {
  if (input.starts_with(kByteOrderMark)) input.remove_prefix(kByteOrderMark.size());
  CsvReader reader(input, name);
  if (!TRY(reader.read_row()))
    return reader.error_at(1, "there is no header; name the columns in the first line");
  reader.header_.assign(reader.row_.fields.begin(), reader.row_.fields.end());
  return reader;
}

Result<const CsvRow*> CsvReader::next() {
  if (!TRY(read_row())) return static_cast<const CsvRow*>(nullptr);
  if (row_.fields.size() != header_.size())
    return error_at(row_.line,
                    format("{} fields, but the header has {}; give each column one value",
                           row_.fields.size(), header_.size()));
  return &row_;
}

// False if there is no further row.
Result<bool> CsvReader::read_row() {
  while (end_line()) {
  }
  row_.line = line_;
  row_.fields.clear();
  if (!unquoted_.empty()) unquoted_.clear();
  if (rest_.empty()) return false;
  while (true) {
    if (rest_.starts_with('"'))
      TRY(read_quoted());
    else
      read_plain();
    if (rest_.empty() || end_line()) return true;
    if (!rest_.starts_with(','))
      return error_at(line_,
                      format("'{}' follows a field; put a comma, or the whole field in quotes",
                             rest_.front() == '\r' ? "\\r" : rest_.substr(0, 1)));
    rest_.remove_prefix(1);
  }
}

void CsvReader::read_plain() {
  const auto end = std::ranges::find_if(rest_, kEndsField);
  row_.fields.push_back(rest_.substr(0, static_cast<std::size_t>(end - rest_.begin())));
  rest_.remove_prefix(row_.fields.back().size());
}

Result<void> CsvReader::read_quoted() {
  std::string& field = unquoted_.emplace_back();
  for (std::size_t i = 1; i < rest_.size(); ++i) {
    if (rest_[i] == '"' && !rest_.substr(i + 1).starts_with('"')) {
      rest_.remove_prefix(i + 1);
      row_.fields.push_back(field);
      return {};
    }
    if (rest_[i] == '"') ++i;  // a doubled quote means one quote
    if (rest_[i] == '\n') ++line_;
    field += rest_[i];
  }
  return error_at(row_.line, "a quote has no end; close it");
}

// Skips the end of a line; false if there is none.
bool CsvReader::end_line() {
  const bool both = rest_.starts_with("\r\n");
  if (!both && !rest_.starts_with('\n')) return false;
  rest_.remove_prefix(both ? 2 : 1);
  ++line_;
  return true;
}

Error CsvReader::error_at(int line, std::string_view what) const {
  return {Code::invalid, format("{}:{}: {}", name_, line, what)};
}

}  // namespace lockstep
