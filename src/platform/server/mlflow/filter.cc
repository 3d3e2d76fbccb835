#include "platform/server/mlflow/filter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/format.h"
#include "net/http/http.h"

namespace lockstep::mlflow {
namespace {

constexpr std::size_t kFilterBytes = 10'000, kFilterTerms = 50;

struct Word {
  enum class Kind { name, quoted_name, text, number, symbol, end };
  Kind kind = Kind::end;
  std::string text;
};

bool is_name_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '-' ||
         letter == '/' || letter == '.';
}

bool begins_number(std::string_view rest) {
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  if (is_digit(rest.front())) return true;
  return rest.size() > 1 && (rest.front() == '-' || rest.front() == '.') &&
         (is_digit(rest[1]) || rest[1] == '.');
}

// Splits a text into words.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  Result<Word> next();
  // `entity.` was read: the rest of the column's name.
  Result<std::string> next_key();

 private:
  void skip_spaces() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front())) != 0)
      rest_.remove_prefix(1);
  }
  std::string take(std::size_t size) {
    std::string taken(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return taken;
  }
  Result<std::string> take_quoted();
  std::string take_while(bool (*is_part)(char)) {
    return take(static_cast<std::size_t>(std::ranges::find_if_not(rest_, is_part) - rest_.begin()));
  }

  std::string_view rest_;
};

Result<std::string> Words::take_quoted() {
  const auto end = rest_.find(rest_.front(), 1);
  if (end == std::string_view::npos)
    return Error{Code::invalid, format("the quotation mark before {} has no end", rest_.substr(1))};
  std::string inner(rest_.substr(1, end - 1));
  rest_.remove_prefix(end + 1);
  return inner;
}

Result<Word> Words::next() {
  using enum Word::Kind;
  skip_spaces();
  if (rest_.empty()) return Word{};
  const char first = rest_.front();
  if (first == '\'' || first == '"') return Word{text, TRY(take_quoted())};
  if (first == '`') return Word{quoted_name, TRY(take_quoted())};
  if (begins_number(rest_))
    return Word{number,
                take_while([](char letter) { return is_name_letter(letter) || letter == '+'; })};
  for (const std::string_view sign : {"!=", "<=", ">=", "==", "=", "<", ">", "(", ")", ","})
    if (rest_.starts_with(sign)) return Word{symbol, take(sign.size())};
  std::string word = take_while(is_name_letter);
  if (word.empty()) return Error{Code::invalid, format("'{}' is not expected", first)};
  return Word{name, std::move(word)};
}

Result<std::string> Words::next_key() {
  if (rest_.empty()) return Error{Code::invalid, "a name is missing after '.'"};
  if (rest_.front() == '`' || rest_.front() == '"') return take_quoted();
  std::string key = take_while(is_name_letter);
  if (key.empty()) return Error{Code::invalid, "a name is missing after '.'"};
  return key;
}

struct EntityName {
  std::string_view name;
  Entity entity;
};
constexpr std::array kEntities = {EntityName{"metric", Entity::metric},
                                  EntityName{"metrics", Entity::metric},
                                  EntityName{"param", Entity::param},
                                  EntityName{"params", Entity::param},
                                  EntityName{"parameter", Entity::param},
                                  EntityName{"parameters", Entity::param},
                                  EntityName{"tag", Entity::tag},
                                  EntityName{"tags", Entity::tag},
                                  EntityName{"attribute", Entity::attribute},
                                  EntityName{"attributes", Entity::attribute},
                                  EntityName{"attr", Entity::attribute},
                                  EntityName{"run", Entity::attribute}};

constexpr std::array<std::string_view, 7> kNumbers = {"start_time",
                                                      "end_time",
                                                      "version_number",
                                                      "creation_timestamp",
                                                      "last_updated_timestamp",
                                                      "creation_time",
                                                      "last_update_time"};

// MLflow's other names of the attributes of runs.
std::string attribute_name(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kOthers = {
      {{"run name", "run_name"},
       {"Run name", "run_name"},
       {"Run Name", "run_name"},
       {"created", "start_time"},
       {"Created", "start_time"},
       {"run_uuid", "run_id"},
       {"user", "user_id"}}};
  const auto* other = std::ranges::find(kOthers, name, &decltype(kOthers)::value_type::first);
  return other == kOthers.end() ? name : std::string(other->second);
}

Result<Column> attribute_of(const std::string& name, Attributes attributes) {
  std::string key = attributes.data() == kAttributes ? attribute_name(name) : name;
  if (std::ranges::find(attributes, key) != attributes.end())
    return Column{Entity::attribute, std::move(key)};
  return Error{Code::invalid,
               format("'{}' is no attribute; write one of {}, or metrics., params. or tags. and a "
                      "name",
                      name, joined(attributes, ", "))};
}

// `metrics.a.b` is one word up to the first character that needs quotation marks.
Result<Column> column_of(const Word& first, Words& words, Attributes attributes) {
  if (first.kind == Word::Kind::quoted_name) return attribute_of(first.text, attributes);
  if (first.kind != Word::Kind::name)
    return Error{Code::invalid, format("a column was expected, not '{}'", first.text)};
  const auto point = first.text.find('.');
  if (point == std::string::npos) return attribute_of(first.text, attributes);
  const auto* entity = std::ranges::find(kEntities, first.text.substr(0, point), &EntityName::name);
  if (entity == kEntities.end())
    return Error{Code::invalid, format("'{}' is none of metrics, params, tags and attributes",
                                       first.text.substr(0, point))};
  std::string key = first.text.substr(point + 1);
  if (key.empty()) key = TRY(words.next_key());
  if (entity->entity == Entity::attribute) return attribute_of(key, attributes);
  return Column{entity->entity, std::move(key)};
}

bool is_word(const Word& word, std::string_view name) {
  return word.kind == Word::Kind::name && net::equal_ignoring_case(word.text, name);
}

Result<Operator> operator_of(const Word& first, Words& words) {
  using enum Operator;
  constexpr std::array<std::pair<std::string_view, Operator>, 7> kSymbols = {{{"=", equal},
                                                                              {"==", equal},
                                                                              {"!=", unequal},
                                                                              {"<", less},
                                                                              {"<=", at_most},
                                                                              {">", greater},
                                                                              {">=", at_least}}};
  const auto* symbol =
      std::ranges::find(kSymbols, first.text, &decltype(kSymbols)::value_type::first);
  if (first.kind == Word::Kind::symbol && symbol != kSymbols.end()) return symbol->second;
  if (is_word(first, "like")) return like;
  if (is_word(first, "ilike")) return ilike;
  if (is_word(first, "in")) return in;
  const bool negates = is_word(first, "not"), is = is_word(first, "is");
  if (negates || is) {
    const Word second = TRY(words.next());
    if (negates && is_word(second, "in")) return not_in;
    if (is && is_word(second, "null")) return is_null;
    if (is && is_word(second, "not") && is_word(TRY(words.next()), "null")) return is_not_null;
  }
  return Error{Code::invalid, format("'{}' is no operator; write one of =, !=, <, <=, >, >=, LIKE, "
                                     "ILIKE, IN, NOT IN, IS NULL, IS NOT NULL",
                                     first.text)};
}

bool is_ordering(Operator is) {
  return is == Operator::less || is == Operator::at_most || is == Operator::greater ||
         is == Operator::at_least;
}

Result<void> check_operator(const Comparison& comparison) {
  const Operator is = comparison.is;
  const bool tests_presence = is == Operator::is_null || is == Operator::is_not_null;
  const bool is_compared = is == Operator::equal || is == Operator::unequal || is_ordering(is);
  if (is_number(comparison.column) && !is_compared)
    return Error{Code::invalid, format("{} is a number: compare it by =, !=, <, <=, > or >=",
                                       comparison.column.key)};
  if (!is_number(comparison.column) && is_ordering(is))
    return Error{Code::invalid, format("{} is a text: compare it by =, !=, LIKE, ILIKE or IN",
                                       comparison.column.key)};
  if (tests_presence && comparison.column.entity == Entity::attribute)
    return Error{Code::invalid, format("{} is never absent", comparison.column.key)};
  return {};
}

Result<double> number_of(const Word& word) {
  double number = 0;
  const char* end = word.text.data() + word.text.size();
  const auto [last, error] = std::from_chars(word.text.data(), end, number);
  if (error == std::errc() && last == end) return number;
  return Error{Code::invalid, format("a number was expected, not '{}'", word.text)};
}

Result<std::string> text_of(const Word& word) {
  if (word.kind == Word::Kind::text) return word.text;
  return Error{Code::invalid,
               format("a text in quotation marks was expected, not '{}'", word.text)};
}

Result<std::vector<std::string>> list_of(Words& words) {
  std::vector<std::string> texts;
  if (TRY(words.next()).text != "(") return Error{Code::invalid, "'(' was expected after IN"};
  for (;;) {
    texts.push_back(TRY(text_of(TRY(words.next()))));
    const Word mark = TRY(words.next());
    if (mark.text == ")") return texts;
    if (mark.text != ",") return Error{Code::invalid, "',' or ')' was expected in the list"};
  }
}

Result<void> read_value(Comparison& comparison, Words& words) {
  using enum Operator;
  if (comparison.is == is_null || comparison.is == is_not_null) return {};
  if (comparison.is == in || comparison.is == not_in) {
    comparison.texts = TRY(list_of(words));
    return {};
  }
  const Word value = TRY(words.next());
  if (is_number(comparison.column))
    comparison.number = TRY(number_of(value));
  else
    comparison.texts = {TRY(text_of(value))};
  return {};
}

Result<std::vector<Comparison>> parse(std::string_view text, Attributes attributes) {
  if (text.size() > kFilterBytes)
    return Error{Code::invalid, format("has {} bytes, of which at most {} are allowed", text.size(),
                                       kFilterBytes)};
  std::vector<Comparison> all;
  Words words(text);
  Word first = TRY(words.next());
  while (first.kind != Word::Kind::end) {
    Comparison comparison{.column = TRY(column_of(first, words, attributes))};
    comparison.is = TRY(operator_of(TRY(words.next()), words));
    TRY(check_operator(comparison));
    TRY(read_value(comparison, words));
    all.push_back(std::move(comparison));
    if (all.size() > kFilterTerms)
      return Error{Code::invalid, format("at most {} comparisons are allowed", kFilterTerms)};
    const Word link = TRY(words.next());
    if (link.kind == Word::Kind::end) break;
    if (!is_word(link, "and"))
      return Error{Code::invalid, format("AND was expected, not '{}'", link.text)};
    first = TRY(words.next());
    if (first.kind == Word::Kind::end)
      return Error{Code::invalid, "a comparison is missing after AND"};
  }
  return all;
}

Result<Ordering> parse_order(std::string_view text, Attributes attributes) {
  Words words(text);
  Ordering ordering{.column = TRY(column_of(TRY(words.next()), words, attributes))};
  const Word direction = TRY(words.next());
  if (direction.kind == Word::Kind::end) return ordering;
  ordering.ascending = is_word(direction, "asc");
  if (ordering.ascending || is_word(direction, "desc"))
    if (TRY(words.next()).kind == Word::Kind::end) return ordering;
  return Error{Code::invalid, format("ASC or DESC was expected, not '{}'", direction.text)};
}

}  // namespace

bool is_number(const Column& column) {
  return column.entity == Entity::metric ||
         (column.entity == Entity::attribute &&
          std::ranges::find(kNumbers, column.key) != kNumbers.end());
}

Result<std::vector<Comparison>> parse_filter(std::string_view text, Attributes attributes) {
  auto parsed = parse(text, attributes);
  return parsed ? std::move(parsed) : std::move(parsed).error().with_context("filter");
}

Result<Ordering> parse_ordering(std::string_view text, Attributes attributes) {
  auto parsed = parse_order(text, attributes);
  return parsed ? std::move(parsed) : std::move(parsed).error().with_context("order_by");
}

}  // namespace lockstep::mlflow
