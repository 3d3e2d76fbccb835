#include "text/convert.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

enum class Color { red, green };
constexpr auto enum_names(Color) {
  return names<Color>({{Color::red, "red"}, {Color::green, "green"}});
}

struct Part {
  std::string id;
  Bytes memory{};
  bool operator==(const Part&) const = default;
  static constexpr auto fields() {
    return record<Part>(required(field("id", &Part::id, "its name")),
                        field("memory", &Part::memory, "how much it holds"));
  }
};

struct Order {
  std::string name;
  int nodes = 1;
  std::uint16_t port = 0;
  std::int64_t big = 0;
  bool fast = false;
  double loss = 0;
  Duration timeout{};
  Bandwidth bandwidth{};
  Time created{};
  Id<struct OrderTag> id;
  Color color = Color::red;
  std::optional<Bytes> memory;
  std::vector<Part> parts;
  std::map<std::string, std::string> env;
  Json extra;
  bool operator==(const Order&) const = default;
  static constexpr auto fields() {
    return record<Order>(
        required(field("name", &Order::name, "what people call it")),
        field("nodes", &Order::nodes, "hosts it needs"),
        field("port", &Order::port, "where it listens"),
        field("big", &Order::big, "a large number"),
        field("fast", &Order::fast, "whether to hurry"), field("loss", &Order::loss, "may be NaN"),
        field("timeout", &Order::timeout, "when it ends"),
        field("bandwidth", &Order::bandwidth, "of its network"),
        field("created", &Order::created, "when it was made"),
        field("id", &Order::id, "its number"), field("color", &Order::color, "how it looks"),
        field("memory", &Order::memory, "if it is known"),
        field("parts", &Order::parts, "what it is made of"),
        field("env", &Order::env, "its environment"), field("extra", &Order::extra, "anything"));
  }
};

Order full_order() {
  Order order;
  order.name = "demo";
  order.nodes = -3;
  order.port = 65535;
  order.big = std::numeric_limits<std::int64_t>::max();
  order.fast = true;
  order.loss = 0.1;
  order.timeout = std::chrono::hours(26) + Duration(5'000'001);
  order.bandwidth = Bandwidth(1'234'567);
  order.created = Time(Duration(1'790'000'000'000'250));
  order.id = Id<OrderTag>(7);
  order.color = Color::green;
  order.memory = 1536_KiB;
  order.parts = {{"a", 1_B}, {"b", 3_GiB}};
  order.env = {{"PATH", "/bin"}, {"ÄÖ", "\n\"quoted\""}};
  order.extra = Json{{"x", Json::array({1, 2.5, nullptr})}};
  return order;
}

Order read_order(std::string_view words) {
  return from_json<Order>(parse_json(words).value()).value();
}
std::string error_of(std::string_view words) {
  auto json = parse_json(words);
  if (!json) return json.error().message;
  auto order = from_json<Order>(*json);
  if (order) return "no error";
  EXPECT_EQ(order.error().code, Code::invalid);
  return order.error().message;
}
std::string yaml_error_of(std::string_view words) {
  auto document = parse_yaml(words, "run.yaml");
  if (!document) return document.error().message;
  auto order = from_document<Order>(*document);
  if (order) return "no error";
  EXPECT_EQ(order.error().code, Code::invalid);
  return order.error().message;
}

TEST(Convert, EveryTypeOfFieldComesBackExactly) {
  Order order = full_order();
  EXPECT_EQ(read_order(dump_json(to_json(order))), order);
  EXPECT_EQ(from_json<Order>(to_json(order)).value(), order);
}

TEST(Convert, ADefaultRecordComesBackAndAnEmptyOptionalIsNull) {
  Order order;
  order.name = "x";
  EXPECT_TRUE(to_json(order)["memory"].is_null());
  EXPECT_EQ(from_json<Order>(to_json(order)).value(), order);
}

TEST(Convert, AbsentFieldsKeepTheirDefaults) { EXPECT_EQ(read_order(R"({"name":"x"})").nodes, 1); }

TEST(Convert, NumbersThatAreNotFiniteAreStrings) {
  Order order;
  order.name = "x";
  order.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(to_json(order)["loss"], "NaN");
  EXPECT_TRUE(std::isnan(from_json<Order>(to_json(order)).value().loss));
  EXPECT_EQ(read_order(R"({"name":"x","loss":"-Infinity"})").loss,
            -std::numeric_limits<double>::infinity());
}

TEST(Convert, QuantitiesAreExactAtTheirEdges) {
  for (std::int64_t us : {0L, 1L, 999L, 1'000L, 59'999'999L, 86'400'000'000L, 1L << 52})
    for (std::int64_t sign : {1L, -1L})
      EXPECT_EQ(parse_exact<Duration>(exact_text(Duration(sign * us))).value(),
                Duration(sign * us));
  for (std::int64_t n : {0L, 1L, 1023L, 1024L, (1L << 40) + 1, 125'000L, 1'234'567'890'123L}) {
    EXPECT_EQ(parse_exact<Bytes>(exact_text(Bytes(-n))).value(), Bytes(-n));
    EXPECT_EQ(parse_exact<Bandwidth>(exact_text(Bandwidth(n))).value(), Bandwidth(n));
    EXPECT_EQ(parse_exact<Bandwidth>(exact_text(Bandwidth(-n))).value(), Bandwidth(-n));
  }
  EXPECT_EQ(exact_text(Duration(std::chrono::minutes(90))), "1h 30m");
  EXPECT_EQ(exact_text(10_Gbit), "10 Gbit/s");
}

TEST(Convert, ErrorsNameThePathTheExpectedAndTheGiven) {
  EXPECT_THAT(error_of(R"({"name":"x","nodes":"two"})"),
              AllOf(HasSubstr("nodes: "), HasSubstr("integer"), HasSubstr("\"two\"")));
  EXPECT_THAT(error_of(R"({"name":"x","nodes":2.0})"),
              AllOf(HasSubstr("nodes: "), HasSubstr("integer"), HasSubstr("2.0")));
  EXPECT_THAT(error_of(R"({"name":"x","port":65536})"),
              AllOf(HasSubstr("port: "), HasSubstr("0 to 65535"), HasSubstr("got 65536")));
  EXPECT_THAT(error_of(R"({"name":"x","port":-1})"),
              AllOf(HasSubstr("port: "), HasSubstr("0 to 65535"), HasSubstr("-1")));
  EXPECT_THAT(error_of(R"({"name":"x","nodes":18446744073709551615})"),
              AllOf(HasSubstr("nodes: "), HasSubstr("-2147483648 to 2147483647"),
                    HasSubstr("18446744073709551615")));
  EXPECT_THAT(error_of(R"({"name":3})"), AllOf(HasSubstr("name: "), HasSubstr("text"),
                                               HasSubstr("got 3"), HasSubstr("\"3\"")));
  EXPECT_THAT(error_of(R"({"name":null})"),
              AllOf(HasSubstr("name: "), HasSubstr("text"), HasSubstr("null")));
  EXPECT_THAT(error_of(R"({"name":"x","fast":1})"),
              AllOf(HasSubstr("fast: "), HasSubstr("true or false"), HasSubstr("got 1")));
  EXPECT_THAT(error_of(R"({"name":"x","timeout":30})"),
              AllOf(HasSubstr("timeout: "), HasSubstr("text"), HasSubstr("\"1h 30m\""),
                    HasSubstr("got 30")));
  EXPECT_THAT(error_of(R"({"name":"x","timeout":"soon"})"),
              AllOf(HasSubstr("timeout: "), HasSubstr("'soon'"), HasSubstr("duration"),
                    HasSubstr("90s, 30m or 1h30m")));
  EXPECT_THAT(error_of(R"({"name":"x","parts":[{"id":"a"},{"id":[]}]})"),
              AllOf(HasSubstr("parts[1].id: "), HasSubstr("text"), HasSubstr("got a list")));
  EXPECT_THAT(error_of(R"({"name":"x","parts":{}})"),
              AllOf(HasSubstr("parts: "), HasSubstr("a list"), HasSubstr("an object")));
  EXPECT_THAT(error_of("[]"), AllOf(HasSubstr("object"), HasSubstr("got a list")));
}

TEST(Convert, AMissingRequiredFieldIsNamedWithItsMeaning) {
  EXPECT_THAT(error_of("{}"),
              AllOf(HasSubstr("'name'"), HasSubstr("missing"), HasSubstr("what people call it")));
  EXPECT_THAT(error_of(R"({"name":"x","parts":[{}]})"),
              AllOf(HasSubstr("parts[0]: "), HasSubstr("'id'"), HasSubstr("missing"),
                    HasSubstr("its name")));
}

TEST(Convert, AnUnknownNameIsAnsweredWithTheNearest) {
  EXPECT_THAT(error_of(R"({"name":"x","nodez":2})"),
              AllOf(HasSubstr("unknown field 'nodez'"), HasSubstr("did you mean 'nodes'?")));
  EXPECT_THAT(
      error_of(R"({"name":"x","parts":[{"id":"a","qqq":2}]})"),
      AllOf(HasSubstr("parts[0]: "), HasSubstr("unknown field 'qqq'"), HasSubstr("id, memory")));
  EXPECT_THAT(error_of(R"({"name":"x","color":"gren"})"),
              AllOf(HasSubstr("color: "), HasSubstr("'gren'"), HasSubstr("red, green"),
                    HasSubstr("did you mean 'green'?")));
}

TEST(Convert, WhatANewerVersionSaysMoreIsPassedOverAtAnyDepth) {
  const auto json =
      parse_json(R"({"name":"x","new":{"a":[1]},"parts":[{"id":"a","new":2}],"env":{"KEY":"1"}})")
          .value();
  EXPECT_FALSE(from_json<Order>(json));
  const auto order = from_json<Order>(json, UnknownFields::ignore);
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_EQ(order->parts, std::vector{Part{.id = "a"}});
  EXPECT_EQ(order->env.at("KEY"), "1");
  const auto wrong = parse_json(R"({"new":1,"name":"x","parts":[{"id":2}]})").value();
  const auto refused = from_json<Order>(wrong, UnknownFields::ignore);
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("parts[0].id: "), HasSubstr("text"),
                                             HasSubstr("got 2"), HasSubstr("\"2\"")))
      << "what is known is as strict as ever";
}

TEST(Convert, ErrorsInAFileNameItsLine) {
  EXPECT_THAT(yaml_error_of("name: x\n\nnodes: many\n"),
              AllOf(HasSubstr("run.yaml:3: nodes: "), HasSubstr("integer"), HasSubstr("\"many\"")));
  EXPECT_THAT(yaml_error_of("name: x\nparts:\n  - id: a\n  - memory: 1\n"),
              AllOf(HasSubstr("run.yaml:4: parts[1].memory: "), HasSubstr("text"),
                    HasSubstr("\"4 GiB\""), HasSubstr("got 1")));
  EXPECT_THAT(yaml_error_of("name: x\nparts:\n  - id: a\n    memry: 1\n"),
              AllOf(HasSubstr("run.yaml:4: parts[0]: "), HasSubstr("unknown field 'memry'"),
                    HasSubstr("did you mean 'memory'?")));
  EXPECT_THAT(yaml_error_of("nodes: 2\n"),
              AllOf(HasSubstr("run.yaml:1: "), HasSubstr("'name'"), HasSubstr("missing"),
                    HasSubstr("what people call it")));
}

TEST(Convert, TheSchemaTellsTypesRequiredFieldsAndMeanings) {
  Json schema = json_schema<Order>();
  EXPECT_EQ(schema["type"], "object");
  EXPECT_EQ(schema["required"], Json::array({"name"}));
  EXPECT_EQ(schema["additionalProperties"], false);
  const Json& fields = schema["properties"];
  EXPECT_EQ(fields["nodes"]["description"], "hosts it needs");
  EXPECT_EQ(fields["port"]["maximum"], 65535);
  EXPECT_EQ(fields["color"]["enum"], Json::array({"red", "green"}));
  EXPECT_EQ(fields["memory"]["anyOf"][1]["type"], "null");
  EXPECT_EQ(fields["parts"]["items"]["required"], Json::array({"id"}));
  EXPECT_EQ(fields["loss"]["anyOf"][1]["enum"][0], "NaN");
}

struct Search {
  std::optional<std::string> name;
  std::optional<Color> color;
  int limit = 50;
  std::optional<std::int64_t> after;
  double wait = 0;
  bool all = false;
  static constexpr auto fields() {
    return record<Search>(field("name", &Search::name, "only this one"),
                          field("color", &Search::color, "only of this color"),
                          between(1, 1000, field("limit", &Search::limit, "at most so many")),
                          between(-1, 9, field("after", &Search::after, "what follows")),
                          between(0, 30, field("wait", &Search::wait, "seconds")),
                          field("all", &Search::all, "also old ones"));
  }
};

std::string word_error(const std::map<std::string, std::string>& words) {
  auto search = from_query<Search>(words);
  if (search) return "no error";
  EXPECT_EQ(search.error().code, Code::invalid);
  return search.error().message;
}

TEST(Words, BecomeARecordsFields) {
  auto search = from_query<Search>(
      {{"name", "12"}, {"color", "green"}, {"limit", "7"}, {"wait", "1.5"}, {"all", "true"}});
  ASSERT_TRUE(search) << search.error().message;
  EXPECT_EQ(search->name, "12");
  EXPECT_EQ(search->color, Color::green);
  EXPECT_EQ(search->limit, 7);
  EXPECT_FALSE(search->after);
  EXPECT_EQ(search->wait, 1.5);
  EXPECT_TRUE(search->all);
  EXPECT_EQ(from_query<Search>({})->limit, 50);
}

TEST(Words, OfARecordBecomeItAgain) {
  Search search{.name = "a b", .color = {}, .limit = 3, .after = 4, .wait = 0.5, .all = true};
  const auto words = to_query(search);
  auto again = from_query<Search>({words.begin(), words.end()});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_json(*again), to_json(search));
  EXPECT_EQ(words.front(), std::pair(std::string("name"), std::string("a b")));
  EXPECT_EQ(words.size(), 5u) << "the color is left out";
}

TEST(Words, ThatDoNotFitAreRefusedByName) {
  EXPECT_THAT(word_error({{"limit", "x"}}),
              AllOf(HasSubstr("limit: "), HasSubstr("integer"), HasSubstr("\"x\"")));
  EXPECT_THAT(word_error({{"limit", ""}}),
              AllOf(HasSubstr("limit: "), HasSubstr("integer"), HasSubstr("\"\"")));
  EXPECT_THAT(word_error({{"limit", "1e2"}}),
              AllOf(HasSubstr("limit: "), HasSubstr("integer"), HasSubstr("100.0")));
  EXPECT_THAT(word_error({{"limit", "0"}}),
              AllOf(HasSubstr("limit: "), HasSubstr("1 to 1000"), HasSubstr("got 0")));
  EXPECT_THAT(word_error({{"after", "10"}}),
              AllOf(HasSubstr("after: "), HasSubstr("-1 to 9"), HasSubstr("got 10")));
  EXPECT_THAT(word_error({{"after", "null"}}),
              AllOf(HasSubstr("after: "), HasSubstr("integer"), HasSubstr("\"null\"")));
  EXPECT_THAT(word_error({{"wait", "NaN"}}),
              AllOf(HasSubstr("wait: "), HasSubstr("0 to 30"), HasSubstr("\"NaN\"")));
  EXPECT_THAT(word_error({{"wait", "-0.5"}}),
              AllOf(HasSubstr("wait: "), HasSubstr("0 to 30"), HasSubstr("-0.5")));
  EXPECT_THAT(word_error({{"color", "blue"}}),
              AllOf(HasSubstr("color: "), HasSubstr("'blue'"), HasSubstr("red, green")));
  EXPECT_THAT(word_error({{"limt", "1"}}),
              AllOf(HasSubstr("unknown field 'limt'"), HasSubstr("did you mean 'limit'?")));
}

TEST(Schema, TellsRangesWhereTheNumberIs) {
  const Json fields = json_schema<Search>()["properties"];
  EXPECT_EQ(fields["limit"]["minimum"], 1);
  EXPECT_EQ(fields["after"]["anyOf"][0]["maximum"], 9);
  EXPECT_EQ(fields["wait"]["type"], "number") << "NaN is in no range";
  EXPECT_EQ(fields["wait"]["maximum"], 30);
}

TEST(Names, AreFoundBothWays) {
  EXPECT_EQ(name_of(Color::green), "green");
  EXPECT_EQ(parse_name<Color>("red").value(), Color::red);
}

}  // namespace
}  // namespace lockstep
