// CsvReader: CSV (RFC 4180) row by row, for readers that report "jobs.csv:12: ...".
//
//   CsvReader reader = TRY(CsvReader::open(input, "jobs.csv"));
//   while (const CsvRow* row = TRY(reader.next())) ... row->fields[0] ...
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct CsvRow {
  int line = 1;  // of the file, on which it begins
  std::vector<std::string_view> fields;
};

// Fields in quotes may hold commas, line ends and doubled quotes. Empty lines and a byte order mark
// are skipped. Refused: no header, a row with more or fewer fields, a quote without end.
class CsvReader {
 public:
  // `name` is the file's name for messages. `input` must outlive the reader.
  static Result<CsvReader> open(std::string_view input, std::string_view name);

  const std::string& name() const { return name_; }
  const std::vector<std::string>& header() const { return header_; }
  // With as many fields as the header; null after the last. Valid until the next call.
  Result<const CsvRow*> next();

 private:
  CsvReader(std::string_view input, std::string_view name) : name_(name), rest_(input) {}

  Result<bool> read_row();
  void read_plain();
  Result<void> read_quoted();
  bool end_line();
  Error error_at(int line, std::string_view what) const;

  std::string name_;
  std::vector<std::string> header_;
  std::string_view rest_;  // not yet read
  int line_ = 1;           // on which it begins
  CsvRow row_;
  std::deque<std::string> unquoted_;  // fields of the row that differ from their text in the file
};

}  // namespace lockstep
