#include "platform/otlp/otlp.h"

#include <cmath>

#include <gtest/gtest.h>

#include "platform/wire/wire.h"

using namespace lockstep;
using namespace lockstep::otlp;

namespace {

using wire::WireWriter;

constexpr std::string_view kJson = R"({"resourceMetrics":[{
  "resource":{"attributes":[{"key":"service.name","value":{"stringValue":"trainer"}},
                            {"key":"lockstep.rank","value":{"intValue":"3"}}]},
  "scopeMetrics":[{"metrics":[
    {"name":"loss","gauge":{"dataPoints":[
      {"timeUnixNano":"1790000000250000000","asDouble":0.5,
       "attributes":[{"key":"lockstep.step","value":{"intValue":"12"}},
                     {"key":"split","value":{"stringValue":"train"}}]}]}},
    {"name":"requests","sum":{"dataPoints":[{"timeUnixNano":"1790000000250000000","asInt":"-7"},
                                            {"timeUnixNano":"1","asInt":"1","flags":1}]}},
    {"name":"time","histogram":{"dataPoints":[
      {"timeUnixNano":"1790000000250000000","count":"4","sum":2.5,"min":"NaN"}]}}]}]}]})";

std::string attribute(std::string_view key, std::string_view value) {
  WireWriter any;
  any.add_bytes(1, value);
  WireWriter pair;
  pair.add_bytes(1, key);
  pair.add_bytes(2, any.message());
  return pair.message();
}

std::string nested(std::uint32_t number, std::string_view message) {
  WireWriter outer;
  outer.add_bytes(number, message);
  return outer.message();
}

TEST(Otlp, JsonOfAnExporterIsReadWithItsAttributes) {
  const auto all = read_json(parse_json(kJson).value()).value();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].attributes.at("lockstep.rank"), "3");
  ASSERT_EQ(all[0].values.size(), 5u);
  const MetricValue& loss = all[0].values[0];
  EXPECT_EQ(series_name(loss), "loss{split=train}");
  EXPECT_EQ(step_of(loss), 12);
  EXPECT_EQ(loss.value, 0.5);
  EXPECT_EQ(loss.time.time_since_epoch(), std::chrono::microseconds(1'790'000'000'250'000));
  EXPECT_EQ(all[0].values[1].value, -7);
  EXPECT_EQ(step_of(all[0].values[1]), 1'790'000'000);
  EXPECT_EQ(all[0].values[2].name, "time.count");
  EXPECT_TRUE(std::isnan(all[0].values[3].value));
  EXPECT_EQ(all[0].values[4].name, "time.sum");
}

TEST(Otlp, ProtobufHasTheSameValues) {
  WireWriter point;
  point.add_double(4, 0.25);
  point.add_bytes(7, attribute("split", "train"));
  WireWriter metric;
  metric.add_bytes(1, "loss");
  metric.add_bytes(5, nested(1, point.message()));
  WireWriter resource;
  resource.add_bytes(1, nested(1, attribute("service.name", "trainer")));
  resource.add_bytes(2, nested(2, metric.message()));
  const auto all = read_protobuf(nested(1, resource.message())).value();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].attributes, (Attributes{{"service.name", "trainer"}}));
  ASSERT_EQ(all[0].values.size(), 1u);
  EXPECT_EQ(all[0].values[0].value, 0.25);
  EXPECT_EQ(series_name(all[0].values[0]), "loss{split=train}");
}

TEST(Otlp, ADamagedBodyIsRefused) {
  EXPECT_FALSE(read_protobuf("\x0a\x7f"));
  EXPECT_FALSE(read_json(Json::array()));
}

}  // namespace
