#include "platform/server/mlflow/match.h"

#include <map>

#include <gtest/gtest.h>

namespace lockstep::mlflow {
namespace {

constexpr std::string_view kNamed[] = {"name", "version_number"};

ColumnOf row(const std::string& name, double number, std::map<std::string, std::string> tags = {}) {
  return [=](const Column& column) -> ColumnValue {
    using Value = std::variant<double, std::string>;
    if (column.key == "name") return Value(name);
    if (column.key == "version_number") return Value(number);
    const auto tag = tags.find(column.key);
    return tag == tags.end() ? std::nullopt : ColumnValue(Value(tag->second));
  };
}

bool holds(const std::string& filter, const ColumnOf& column) {
  return matches(parse_filter(filter, kNamed).value(), column);
}

TEST(Match, LikeTakesAnyTextAndOneLetter) {
  using enum LetterCase;
  EXPECT_TRUE(is_like("gpt-large", "gpt%", same));
  EXPECT_TRUE(is_like("gpt-large", "%lar_e", same));
  EXPECT_TRUE(is_like("abcabd", "%ab_", same));
  EXPECT_TRUE(is_like("", "%", same));
  EXPECT_FALSE(is_like("gpt", "gp", same));
  EXPECT_FALSE(is_like("GPT", "gpt", same));
  EXPECT_TRUE(is_like("GPT", "g%", any));
}

TEST(Match, AllComparisonsMustHold) {
  const auto one = row("gpt", 3, {{"stage", "a"}});
  EXPECT_TRUE(holds("", one));
  EXPECT_TRUE(holds("name = 'gpt' AND version_number > 2 AND tags.stage IN ('a', 'b')", one));
  EXPECT_FALSE(holds("name = 'gpt' AND version_number != 3", one));
  EXPECT_FALSE(holds("tags.other = 'a'", one));
  EXPECT_TRUE(holds("tag.`mlflow.prompt.is_prompt` != 'true'", one));
  EXPECT_TRUE(holds("tags.other IS NULL AND tags.stage IS NOT NULL", one));
  EXPECT_TRUE(holds("name ILIKE 'G%'", one));
}

TEST(Match, RowsWithoutAValueAreTheLast) {
  const std::vector<Ordering> order = {parse_ordering("tags.stage DESC", kNamed).value(),
                                       parse_ordering("version_number ASC", kNamed).value()};
  const auto a1 = row("x", 1, {{"stage", "a"}}), b2 = row("y", 2, {{"stage", "b"}}),
             none = row("z", 0), a3 = row("w", 3, {{"stage", "a"}});
  EXPECT_TRUE(is_before(order, b2, a1));
  EXPECT_TRUE(is_before(order, a1, a3));
  EXPECT_TRUE(is_before(order, a3, none));
  EXPECT_FALSE(is_before(order, none, a1));
}

}  // namespace
}  // namespace lockstep::mlflow
