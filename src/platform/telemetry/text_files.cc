#include "platform/telemetry/text_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/os/files.h"

namespace lockstep::telemetry {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Words words_of(std::string_view line) { return split(line, kBlanks); }

std::vector<std::string_view> lines_of(std::string_view text) { return split(text, "\n"); }

std::optional<double> number_of(std::string_view word) {
  double number = 0;
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (failed != std::errc() || end != word.data() + word.size() || !std::isfinite(number))
    return std::nullopt;
  return number;
}

std::optional<double> number_at(const Words& words, std::size_t place) {
  return place < words.size() ? number_of(words[place]) : std::nullopt;
}

std::string text_in(const std::filesystem::path& file) {
  std::string text = read_file(file).value_or("");
  text.erase(text.find_last_not_of(kBlanks) + 1);
  return text;
}

std::optional<double> number_in(const std::filesystem::path& file) {
  return number_of(text_in(file));
}

std::vector<std::filesystem::path> entries_in(const std::filesystem::path& folder) {
  return list_folder(folder).value_or(std::vector<std::filesystem::path>());
}

}  // namespace lockstep::telemetry
