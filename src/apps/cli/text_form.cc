#include "apps/cli/text_form.h"

#include <algorithm>

#include "apps/run/run_display.h"
#include "text/convert.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

std::string csv_field(const std::string& field) {
  if (field.find_first_of(",\"\n\r") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_line(const TextRow& row) {
  TextRow fields;
  for (const std::string& field : row) fields.push_back(csv_field(field));
  return joined(fields, ",");
}

std::string markdown_line(const TextRow& row) {
  TextRow cells;
  for (const std::string& field : row) {
    std::string cell;
    for (const char c : field) {
      if (c == '|' || c == '\\') cell += '\\';
      cell += c == '\n' || c == '\r' ? ' ' : c;
    }
    cells.push_back(std::move(cell));
  }
  return "| " + joined(cells, " | ") + " |";
}

}  // namespace

std::string rows_text(const TextRow& header, const std::vector<TextRow>& rows, TextForm form) {
  if (form == TextForm::table) {
    Table table(header);
    for (const TextRow& row : rows) table.add(row);
    return fit_to_terminal(table);
  }
  const auto line = form == TextForm::csv ? csv_line : markdown_line;
  std::string lines = line(header);
  if (form == TextForm::markdown)
    lines += "\n" + markdown_line(TextRow(header.size(), std::string("---")));
  for (const TextRow& row : rows) lines += "\n" + line(row);
  return lines;
}

}  // namespace lockstep::cli
