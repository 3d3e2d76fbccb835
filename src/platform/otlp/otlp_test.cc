#include "platform/otlp/otlp.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

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
  EXPECT_EQ(series_name(loss.point), "loss{split=train}");
  EXPECT_EQ(step_of(loss.point), 12);
  EXPECT_EQ(loss.value, 0.5);
  EXPECT_EQ(loss.point.time.time_since_epoch(), std::chrono::microseconds(1'790'000'000'250'000));
  EXPECT_EQ(all[0].values[1].value, -7);
  EXPECT_EQ(step_of(all[0].values[1].point), 1'790'000'000);
  EXPECT_EQ(all[0].values[2].point.name, "time.count");
  EXPECT_TRUE(std::isnan(all[0].values[3].value));
  EXPECT_EQ(all[0].values[4].point.name, "time.sum");
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
  EXPECT_EQ(series_name(all[0].values[0].point), "loss{split=train}");
}

std::string packed(const std::vector<std::uint64_t>& numbers) {
  std::string bytes(numbers.size() * 8, '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

// A metric of one point, as field `kind` of Metric.
std::string metric_body(std::uint32_t kind, const WireWriter& point) {
  WireWriter metric;
  metric.add_bytes(1, "time");
  metric.add_bytes(kind, nested(1, point.message()));
  return nested(1, nested(2, nested(2, metric.message())));
}

TEST(Otlp, ProtobufHasTheBucketsOfHistograms) {
  WireWriter point;
  point.add_bytes(9, attribute("split", "train"));
  point.add_bytes(6, packed({2, 3, 1}));
  point.add_doubles(7, {0, 5});
  point.add_double(11, -1);
  point.add_double(12, 7);
  const auto all = read_protobuf(metric_body(9, point)).value();
  ASSERT_EQ(all[0].histograms.size(), 1u);
  EXPECT_EQ(series_name(all[0].histograms[0].point), "time{split=train}");
  EXPECT_EQ(all[0].histograms[0].bins, (Bins{{-1, 0, 5, 7}, {2, 3, 1}}));
}

TEST(Otlp, ProtobufHasTheBucketsOfExponentialHistograms) {
  WireWriter side;
  side.add_varint(1, 2);  // sint32: the offset 1
  side.add_bytes(2, std::string_view("\x03\x02", 2));
  WireWriter point;
  point.add_varint(6, 0);
  point.add_bytes(8, side.message());
  const auto all = read_protobuf(metric_body(10, point)).value();
  ASSERT_EQ(all[0].histograms.size(), 1u);
  EXPECT_EQ(all[0].histograms[0].bins, (Bins{{2, 4, 8}, {3, 2}}));
}

TEST(Otlp, JsonHasTheBucketsOfBothKinds) {
  const auto all = read_json(parse_json(R"({"resourceMetrics":[{"scopeMetrics":[{"metrics":[
    {"name":"time","histogram":{"dataPoints":[
      {"timeUnixNano":"1790000000250000000","count":"6","explicitBounds":[0,5],
       "bucketCounts":["2","3","1"],"min":-1,"max":7}]}},
    {"name":"size","exponentialHistogram":{"dataPoints":[
      {"timeUnixNano":"1790000000250000000","count":"12","scale":0,"zeroCount":"7",
       "positive":{"offset":1,"bucketCounts":["3","2"]}}]}}]}]}]})")
                                 .value())
                       .value();
  ASSERT_EQ(all[0].histograms.size(), 2u);
  EXPECT_EQ(all[0].histograms[0].bins, (Bins{{-1, 0, 5, 7}, {2, 3, 1}}));
  EXPECT_EQ(all[0].histograms[1].bins, (Bins{{0, 2, 4, 8}, {7, 3, 2}}));
  EXPECT_EQ(step_of(all[0].histograms[1].point), 1'790'000'000);
}

TEST(Otlp, DamagedBucketsAreRefused) {
  WireWriter point;
  point.add_bytes(6, "123");  // no whole number
  EXPECT_FALSE(read_protobuf(metric_body(9, point)));
}

TEST(Otlp, ADamagedBodyIsRefused) {
  EXPECT_FALSE(read_protobuf("\x0a\x7f"));
  EXPECT_FALSE(read_json(Json::array()));
}

}  // namespace
