// Rows in the form that the reader needs.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

// A table that fits the terminal; CSV (RFC 4180) with a header; a table of Markdown.
enum class TextForm { table, csv, markdown };

using TextRow = std::vector<std::string>;

// Ends without a newline. A row of another length than the header is a bug.
std::string rows_text(const TextRow& header, const std::vector<TextRow>& rows, TextForm form);

}  // namespace lockstep::cli
