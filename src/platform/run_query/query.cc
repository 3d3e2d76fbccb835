#include "platform/run_query/query.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/format.h"
#include "platform/run_query/value.h"

namespace lockstep::run_query {
namespace {

constexpr std::array<std::string_view, 22> kFields = {
    "id",      "name",    "project",  "state",  "reason",   "user",      "command", "class",
    "nodes",   "devices", "priority", "step",   "progress", "submitted", "started", "ended",
    "running", "timeout", "cost",     "commit", "note",     "host"};

bool is_blank(char letter) {
  return std::string_view(" \t\n\r\v\f").find(letter) != std::string_view::npos;
}

// A quote keeps blanks up to the next one, and may begin within a word.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size();) {
    if (is_blank(line[at])) {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    for (bool quoted = false; at < line.size() && (quoted || !is_blank(line[at])); ++at)
      if (line[at] == '"') quoted = !quoted;
    words.push_back(line.substr(begin, at - begin));
  }
  return words;
}

std::string without_quotes(std::string_view text) {
  std::string plain(text);
  std::erase(plain, '"');
  return plain;
}

// Bytes beyond ASCII belong to letters.
bool begins_name(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_' ||
         static_cast<unsigned char>(letter) >= 0x80;
}
bool continues_name(char letter) {
  return begins_name(letter) || (letter >= '0' && letter <= '9') ||
         std::string_view("./-").find(letter) != std::string_view::npos;
}

// The longer ones first.
constexpr std::array<std::pair<std::string_view, Operator>, 7> kOperators = {
    {{"!=", Operator::unequal},
     {"<=", Operator::at_most},
     {">=", Operator::at_least},
     {":", Operator::is_one_of},
     {"=", Operator::equal},
     {"<", Operator::less},
     {">", Operator::greater}}};

std::string_view sign_of(Operator is) {
  return std::ranges::find(kOperators, is, &std::pair<std::string_view, Operator>::second)->first;
}

// A word without a name and an operator is looked for as it is.
Term term_of(std::string_view word) {
  const bool negated = word.starts_with('-');
  const std::string_view words = word.substr(negated ? 1 : 0);
  std::size_t end = 0;
  if (!words.empty() && begins_name(words.front()))
    while (end < words.size() && continues_name(words[end])) ++end;
  if (end > 0)
    for (const auto& [sign, is] : kOperators)
      if (words.substr(end).starts_with(sign))
        return {.negated = negated,
                .field = std::string(words.substr(0, end)),
                .is = is,
                .value = without_quotes(words.substr(end + sign.size()))};
  return {.negated = negated && !words.empty(),
          .value = without_quotes(words.empty() ? word : words)};
}

Result<void> check_time(std::string_view word, const Term& term) {
  if (!is_comparison(term.is))
    return Error{Code::invalid,
                 format("`{}` needs a comparison, such as `{}>-7d`", word, term.field)};
  if (time_of(term.value, Time())) return {};
  return Error{Code::invalid,
               format("`{}` compares with a time, such as 2026-01-31 or -7d, and `{}` is none",
                      word, term.value)};
}

bool orders(const Term& term) {
  return (term.field == "sort" || term.field == "group") && term.is == Operator::is_one_of;
}

Result<void> check_term(std::string_view word, const Term& term) {
  if (orders(term) && term.negated)
    return Error{Code::invalid,
                 format("`{}`: write `{}`{}", word, word.substr(1),
                        term.field == "sort" ? ", or with `-` after the colon" : "")};
  if (term.field == "tag" && term.is != Operator::is_one_of && term.is != Operator::equal)
    return Error{Code::invalid, format("`{}` must be `tag:KEY` or `tag:KEY=VALUE`", word)};
  if (is_comparison(term.is) && term.value.empty())
    return Error{Code::invalid, format("`{}` lacks a number, such as `{}{}1`", word, term.field,
                                       sign_of(term.is))};
  if (is_time(term.field) && !term.value.empty()) return check_time(word, term);
  if (is_comparison(term.is) && !query_number(term.value))
    return Error{Code::invalid,
                 format("`{}` compares with a number, and `{}` is none", word, term.value)};
  return {};
}

std::optional<Sort> sort_of(std::string_view value) {
  const bool descending = value.starts_with('-');
  const std::string_view field = value.substr(descending ? 1 : 0);
  if (field.empty()) return std::nullopt;
  return Sort{.field = std::string(field), .descending = descending};
}

}  // namespace

Result<Query> parse_query(std::string_view line) {
  if (line.size() > kQueryBytesMax)
    return Error{Code::invalid, format("query: {} bytes, at most {}", line.size(), kQueryBytesMax)};
  Query query;
  std::string group;
  for (const std::string_view word : words_of(line)) {
    Term term = term_of(word);
    TRY(check_term(word, term));
    if (!orders(term)) {
      if (!term.value.empty() || term.field.empty()) query.terms.push_back(std::move(term));
    } else if (term.field == "group") {
      group = std::move(term.value);
    } else if (auto sort = sort_of(term.value)) {
      query.sort = std::move(sort);
    }
  }
  if (query.terms.size() > kTermsMax)
    return Error{Code::invalid,
                 format("query: {} terms, at most {}", query.terms.size(), kTermsMax)};
  if (!group.empty()) query.group.emplace(std::move(group));
  return query;
}

bool is_comparison(Operator is) {
  return is != Operator::is_one_of && is != Operator::equal && is != Operator::unequal;
}

bool is_field(std::string_view name) {
  return std::ranges::find(kFields, name) != kFields.end() || tag_of(name);
}

bool is_time(std::string_view name) {
  return name == "submitted" || name == "started" || name == "ended";
}

std::optional<std::string_view> tag_of(std::string_view name) {
  constexpr std::string_view kPrefix = "tag.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return name.substr(kPrefix.size());
}

std::optional<Time> time_of(std::string_view value, Time now) {
  if (value.starts_with('-') && value.back() > '9') {  // a unit
    const auto seconds = query_number(value);
    constexpr double kSecondsMax = 1e10;
    if (!seconds || *seconds < -kSecondsMax) return std::nullopt;
    return now + from_seconds(*seconds);
  }
  constexpr std::string_view kDate = "0000-00-00", kMinute = "0000-00-00T00:00Z",
                             kSecond = "0000-00-00T00:00:00Z";
  std::string form(value);
  for (char& letter : form)
    if (letter >= '0' && letter <= '9') letter = '0';
  std::string whole(value);
  if (form == kDate) whole += "T00:00:00Z";
  if (form == kMinute) whole.insert(whole.size() - 1, ":00");
  if (form != kDate && form != kMinute && form != kSecond) return std::nullopt;
  const auto time = parse_time(whole);
  if (!time) return std::nullopt;
  return *time;
}

}  // namespace lockstep::run_query
