// Files of /proc and /sys: lines of words and numbers.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::telemetry {

using Words = std::vector<std::string_view>;

// Separated by blanks.
Words words_of(std::string_view line);
// The lines of the text, without empty ones.
std::vector<std::string_view> lines_of(std::string_view text);
// A decimal number that is the whole word; otherwise nullopt.
std::optional<double> number_of(std::string_view word);
// The word at this place, as a number.
std::optional<double> number_at(const Words& words, std::size_t place);
// The content of the file, without the white space at its end; empty if it cannot be read.
std::string text_in(const std::filesystem::path& file);
// The file has one number.
std::optional<double> number_in(const std::filesystem::path& file);
// The paths in the folder, sorted; none if there is no such folder.
std::vector<std::filesystem::path> entries_in(const std::filesystem::path& folder);

}  // namespace lockstep::telemetry
