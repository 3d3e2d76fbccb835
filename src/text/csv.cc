#include "text/csv.h"

#include <algorithm>
#include <optional>

#include "base/format.h"

namespace lockstep {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

struct Unread {
  std::string_view rest;
  int line = 1;
};

// None when the quote has no end.
std::optional<std::string> quoted_field(Unread& unread) {
  std::string field;
  const std::string_view rest = unread.rest;
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '"' && !rest.substr(i + 1).starts_with('"')) {
      unread.rest.remove_prefix(i + 1);
      return field;
    }
    if (rest[i] == '"') ++i;  // a doubled one stands for itself
    if (rest[i] == '\n') ++unread.line;
    field += rest[i];
  }
  return std::nullopt;
}

std::string plain_field(Unread& unread) {
  const std::size_t end = std::min(unread.rest.find_first_of(",\r\n"), unread.rest.size());
  std::string field(unread.rest.substr(0, end));
  unread.rest.remove_prefix(end);
  return field;
}

// Whether there was a line's end to go over.
bool end_line(Unread& unread) {
  const bool both = unread.rest.starts_with("\r\n");
  if (!both && !unread.rest.starts_with('\n')) return false;
  unread.rest.remove_prefix(both ? 2 : 1);
  ++unread.line;
  return true;
}

Error at_line(std::string_view name, int line, std::string_view what) {
  return {Code::invalid, format("{}:{}: {}", name, line, what)};
}

Result<CsvRow> read_row(Unread& unread, std::string_view name) {
  CsvRow row{unread.line, {}};
  while (true) {
    auto field = unread.rest.starts_with('"') ? quoted_field(unread) : plain_field(unread);
    if (!field) return at_line(name, row.line, "a quote has no end; close it");
    row.fields.push_back(*std::move(field));
    if (unread.rest.starts_with(',')) {
      unread.rest.remove_prefix(1);
      continue;
    }
    if (unread.rest.empty() || end_line(unread)) return row;
    return at_line(name, unread.line,
                   format("'{}' follows a field; put a comma, or the whole field in quotes",
                          unread.rest.front() == '\r' ? "\\r" : unread.rest.substr(0, 1)));
  }
}

}  // namespace

Result<Csv> parse_csv(std::string_view words, std::string_view name) {
  if (words.starts_with(kByteOrderMark)) words.remove_prefix(kByteOrderMark.size());
  Csv csv{.name = std::string(name), .header = {}, .rows = {}};
  Unread unread{words};
  while (!unread.rest.empty()) {
    if (end_line(unread)) continue;  // an empty line
    CsvRow row = TRY(read_row(unread, name));
    if (csv.header.empty()) {
      csv.header = std::move(row.fields);
      continue;
    }
    if (row.fields.size() != csv.header.size())
      return at_line(name, row.line,
                     format("{} fields, but the header has {}; give each column one value",
                            row.fields.size(), csv.header.size()));
    csv.rows.push_back(std::move(row));
  }
  if (csv.header.empty())
    return at_line(name, 1, "there is no header; name the columns in the first line");
  return csv;
}

}  // namespace lockstep
