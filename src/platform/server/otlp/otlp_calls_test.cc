// Metrics of OpenTelemetry through POST /v1/metrics.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/server/server_for_test.h"
#include "text/json.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

class OtlpCallsTest : public ServerTest {
 protected:
  net::HttpResponse send(const std::string& body, const std::string& type = "application/json") {
    return call({.method = "POST",
                 .target = "/v1/metrics",
                 .headers = {{"Content-Type", type}},
                 .body = body},
                "Bearer " + user_token_);
  }
  Json accepted(const Json& body) {
    const net::HttpResponse response = send(dump_json(body));
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body).value();
  }
  static Json attributes(const Json& values) {
    Json list = Json::array();
    for (const auto& [key, value] : values.items())
      list.push_back({{"key", key}, {"value", {{"stringValue", value}}}});
    return list;
  }
  static Json resource(const Json& named, const std::vector<Json>& metrics) {
    return {{"resource", {{"attributes", attributes(named)}}},
            {"scopeMetrics", {{{"metrics", metrics}}}}};
  }
  static Json body_of(const std::vector<Json>& resources) {
    return {{"resourceMetrics", resources}};
  }
  static Json gauge(const std::string& name, double value) {
    const Json point = {{"timeUnixNano", "1790000000000000000"},
                        {"asDouble", value},
                        {"attributes", attributes({{"lockstep.step", "7"}})}};
    return {{"name", name}, {"gauge", {{"dataPoints", {point}}}}};
  }
  static Json histogram(const Json& bounds, const Json& counts) {
    const Json point = {{"timeUnixNano", "1790000000000000000"},
                        {"count", "3"},
                        {"explicitBounds", bounds},
                        {"bucketCounts", counts},
                        {"attributes", attributes({{"lockstep.step", "7"}})}};
    return {{"name", "seconds"}, {"histogram", {{"dataPoints", {point}}}}};
  }
};

TEST_F(OtlpCallsTest, ValuesAndBucketsLandInTheRunThatTheResourceNames) {
  submit();
  const std::vector<Json> metrics = {gauge("loss", 0.5),
                                     histogram({0, 5, 10}, {"0", "2", "1", "0"})};
  const Json body =
      body_of({resource({{"lockstep.run", "demo/1"}, {"lockstep.rank", "3"}}, metrics)});
  EXPECT_EQ(accepted(body), Json::object());
  EXPECT_EQ(accepted(body), Json::object()) << "a repeated call";
  const Json points = get("/api/v1/runs/demo/1/metrics?name=loss&ranks=each");
  EXPECT_THAT(dump_json(points), HasSubstr("0.5"));
  const Json listed = get("/api/v1/runs/demo/1/histograms")["histograms"];
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0]["name"], "seconds");
  EXPECT_EQ(listed[0]["step"], 7);
  EXPECT_EQ(listed[0]["rank"], 3);
  EXPECT_EQ(listed[0]["edges"], Json({0, 5, 10}));
  EXPECT_EQ(listed[0]["counts"], Json({2, 1}));
}

TEST_F(OtlpCallsTest, WithoutARunTheServiceHasOne) {
  const Json body = body_of({resource({{"service.name", "trainer"}, {"lockstep.project", "demo"}},
                                      {gauge("loss", 0.5)})});
  accepted(body);
  EXPECT_EQ(get("/api/v1/runs/demo/1")["spec"]["name"], "trainer");
}

TEST_F(OtlpCallsTest, BucketsThatCannotBeStoredAreAPartialSuccess) {
  submit();
  const Json body =
      body_of({resource({{"lockstep.run", "demo/1"}}, {histogram({5, 0}, {"0", "2", "1"})})});
  const Json partial = accepted(body)["partialSuccess"];
  EXPECT_EQ(partial["rejectedDataPoints"], "1");
  EXPECT_THAT(dump_json(partial), HasSubstr("ascend"));
}

TEST_F(OtlpCallsTest, AResourceThatCannotBeStoredKeepsNoOtherFromBeingStored) {
  submit();
  const Json body = body_of({resource({{"lockstep.run", "demo/77"}}, {gauge("loss", 1)}),
                             resource({{"lockstep.run", "demo/1"}}, {gauge("loss", 0.5)})});
  const Json partial = accepted(body)["partialSuccess"];
  EXPECT_EQ(partial["rejectedDataPoints"], "1");
  EXPECT_THAT(dump_json(partial), HasSubstr("demo/77"));
}

TEST_F(OtlpCallsTest, WrongCallsAreRefusedInTheFormOfOtlp) {
  submit();
  const auto refusal = [&](const std::string& body, int status) {
    const net::HttpResponse response = send(body);
    EXPECT_EQ(response.status, status) << response.body;
    return parse_json(response.body).value()["message"].get<std::string>();
  };
  EXPECT_THAT(refusal("[]", 400), HasSubstr("no ExportMetricsServiceRequest"));
  EXPECT_THAT(refusal("{", 400), HasSubstr(""));
  const auto of_run = [&](const Json& named) {
    return dump_json(body_of({resource(named, {gauge("loss", 1)})}));
  };
  EXPECT_THAT(refusal(of_run({{"lockstep.run", "demo/77"}}), 404), HasSubstr("demo/77"));
  EXPECT_THAT(refusal(of_run({{"lockstep.run", "nonsense"}}), 400), HasSubstr("nonsense"));
  EXPECT_THAT(refusal(of_run({{"lockstep.run", "demo/1"}, {"lockstep.rank", "first"}}), 400),
              HasSubstr("'first' is no rank"));
  EXPECT_EQ(send("\x0a\x7f", "application/x-protobuf").status, 400);
  EXPECT_EQ(send("{}", "text/plain").status, 415);
  EXPECT_EQ(call({.method = "POST",
                  .target = "/v1/metrics",
                  .headers = {{"Content-Type", "application/json"}},
                  .body = "{}"},
                 std::nullopt)
                .status,
            401);
}

TEST_F(OtlpCallsTest, ANameThatIsTooLongIsAPartialSuccess) {
  submit();
  const Json body = body_of({resource({{"lockstep.run", "demo/1"}},
                                      {gauge(std::string(300, 'n'), 1), gauge("loss", 1)})});
  EXPECT_EQ(accepted(body)["partialSuccess"]["rejectedDataPoints"], "1");
}

}  // namespace
}  // namespace lockstep::server
