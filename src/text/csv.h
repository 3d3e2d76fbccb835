// CSV (RFC 4180) as rows that know their lines, for readers that say "jobs.csv:12: ...".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct CsvRow {
  int line = 1;  // of the file, on which it begins
  std::vector<std::string> fields;
};

struct Csv {
  std::string name;  // of the file, for messages
  std::vector<std::string> header;
  std::vector<CsvRow> rows;  // each with as many fields as the header
};

// Fields in quotes may hold commas, line ends and doubled quotes. Empty lines are skipped, and so
// is a byte order mark. Refused: no header, a row with more or fewer fields, a quote without end.
Result<Csv> parse_csv(std::string_view words, std::string_view name);

}  // namespace lockstep
