#include "map/labels.h"

#include <algorithm>
#include <cctype>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::map {
namespace {

constexpr std::size_t kLabelWordMax = 63;

bool is_alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool is_label_word(std::string_view word) {
  return !word.empty() && word.size() <= kLabelWordMax && is_alphanumeric(word.front()) &&
         std::ranges::all_of(word, [](char c) {
           return is_alphanumeric(c) || std::string_view("-_./").find(c) != std::string_view::npos;
         });
}

}  // namespace

Result<void> check_labels(const Labels& labels) {
  if (labels.size() > kLabelsMax)
    return Error{Code::invalid, format("{} labels at most, got {}", kLabelsMax, labels.size())};
  for (const auto& [key, value] : labels)
    for (const std::string& word : {key, value})
      if (!is_label_word(word))
        return Error{Code::invalid,
                     format("'{}' is no word of a label; write KEY=VALUE, such as rack=a3, each of "
                            "1 to {} letters, digits and -_./",
                            escape_controls(word), kLabelWordMax)};
  return {};
}

bool has_labels(const Labels& has, const Labels& asked) {
  return std::ranges::all_of(asked, [&](const auto& label) {
    const auto found = has.find(label.first);
    return found != has.end() && found->second == label.second;
  });
}

std::string labels_text(const Labels& labels) {
  std::string result;
  for (const auto& [key, value] : labels)
    result += format("{}{}={}", result.empty() ? "" : ", ", key, value);
  return result;
}

Result<Labels> parse_labels(const std::vector<std::string>& words) {
  Labels labels;
  for (const std::string& word : words) {
    const auto end = word.find('=');
    if (end == std::string::npos)
      return Error{Code::invalid, format("{}: write KEY=VALUE, such as rack=a3", word)};
    labels[word.substr(0, end)] = word.substr(end + 1);
  }
  return labels;
}

}  // namespace lockstep::map
