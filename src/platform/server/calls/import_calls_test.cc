// The records of other programs, through the API: runs without nodes, points, items and media.
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/base64.h"
#include "platform/server/server_for_test.h"
#include "text/json.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

struct ImportedPoint {
  std::uint32_t series = 0;
  std::int64_t step = 0;
  double value = 0;
};

template <class T>
void append_column(std::string& bytes, const std::vector<T>& column) {
  for (const T& one : column) bytes.append(reinterpret_cast<const char*>(&one), sizeof one);
}

// In columns: series, steps, times, values.
std::string packed_points(const std::vector<ImportedPoint>& points) {
  std::vector<std::uint32_t> series;
  std::vector<std::int64_t> steps;
  std::vector<double> values;
  for (const ImportedPoint& point : points) {
    series.push_back(point.series);
    steps.push_back(point.step);
    values.push_back(point.value);
  }
  std::string bytes;
  append_column(bytes, series);
  append_column(bytes, steps);
  append_column(bytes, std::vector<std::int64_t>(points.size(), 1'790'000'000'000'000));
  append_column(bytes, values);
  return net::to_base64(std::as_bytes(std::span(bytes)));
}

class ImportTest : public ServerTest {
 protected:
  Json post(const std::string& target, const Json& body, int status = 200) {
    const net::HttpResponse response = call_as_user("POST", target, dump_json(body));
    EXPECT_EQ(response.status, status) << target << ": " << response.body;
    return parse_json(response.body).value();
  }
  // The reason of a refusal with 400.
  std::string refusal(const std::string& target, const Json& body) {
    return dump_json(post(target, body, 400));
  }
  // "/api/v1/runs/demo/1/..." of an imported run.
  std::string made_run() {
    const Json made =
        post("/api/v1/imports", {{"key", "k"}, {"source", "tensorboard"}, {"project", "demo"}});
    return "/api/v1/runs/" + made["run"].get<std::string>();
  }
  static Json points(std::int64_t sequence, const std::vector<ImportedPoint>& points) {
    return {{"source", "events.1"},
            {"sequence", sequence},
            {"series", {{{"name", "loss"}, {"rank", 0}}}},
            {"points", packed_points(points)}};
  }
  static Json histogram(const Json& edges, const Json& counts) {
    return {{"kind", "histogram"},
            {"name", "weights"},
            {"step", 3},
            {"edges", edges},
            {"counts", counts}};
  }
};

TEST_F(ImportTest, AKeyIsOneRunThatHasEnded) {
  const Json request = {
      {"key", "k"}, {"source", "tensorboard"}, {"project", "demo"}, {"name", "my run"}};
  const Json made = post("/api/v1/imports", request);
  EXPECT_EQ(made["run"], "demo/1");
  EXPECT_EQ(post("/api/v1/imports", request)["run"], "demo/1");
  const Json run = get("/api/v1/runs/demo/1");
  EXPECT_EQ(run["launcher"], "an import of tensorboard");
  EXPECT_EQ(run["spec"]["name"], "my-run");
  EXPECT_EQ(run["attempts"][0]["nodes"][0]["ranks"][0]["state"], "exited");
}

TEST_F(ImportTest, ARunThatCannotBeMadeSaysWhy) {
  const std::string target = "/api/v1/imports";
  EXPECT_THAT(refusal(target, {{"key", std::string(51, 'k')}, {"source", "x"}}),
              HasSubstr("key: at most 50 bytes"));
  EXPECT_THAT(refusal(target, {{"key", "k"}, {"source", ""}}), HasSubstr("source: has 1 to 50"));
  EXPECT_THAT(refusal(target, {{"source", "x"}}), HasSubstr("key"));
}

TEST_F(ImportTest, ABatchOfPointsIsStoredOnce) {
  const std::string target = made_run() + "/imported-points";
  const Json first = post(target, points(7, {{0, 1, 0.5}, {0, 2, 0.25}}));
  EXPECT_EQ(first["stored"], 2);
  EXPECT_EQ(first["sequence"], 7);
  const Json again = post(target, points(7, {{0, 1, 9}, {0, 2, 9}}));
  EXPECT_EQ(again.value("stored", 0), 0);
  const Json asked = post(target, {{"source", "events.1"}, {"sequence", 0}});
  EXPECT_EQ(asked["sequence"], 7) << "an importer goes on from there";
}

TEST_F(ImportTest, PointsThatCannotBeReadAreRefusedAsAWhole) {
  const std::string target = made_run() + "/imported-points";
  Json damaged = points(1, {{0, 1, 0.5}});
  damaged["points"] = "!!!";
  EXPECT_THAT(refusal(target, damaged), HasSubstr("are no base64"));
  damaged["points"] = "AAAA";
  EXPECT_THAT(refusal(target, damaged), HasSubstr("28 bytes a point"));
  EXPECT_THAT(refusal(target, points(1, {{0, 1, 0.5}, {1, 1, 0.5}})),
              HasSubstr("points[1]: there is no series 1"));
  EXPECT_THAT(refusal(target, points(0, {{0, 1, 0.5}})), HasSubstr("points need one, from 1"));
  Json unnamed = points(1, {{0, 1, 0.5}});
  unnamed["source"] = "";
  EXPECT_THAT(refusal(target, unnamed), HasSubstr("source: has 1 to 400"));
  EXPECT_EQ(post(target, {{"source", "events.1"}, {"sequence", 0}})["sequence"], 0);
  post("/api/v1/runs/demo/77/imported-points", points(1, {{0, 1, 0.5}}), 404);
}

TEST_F(ImportTest, ItemsOfAPartAreStoredOnceAndTelemetryIsRefused) {
  const std::string target = made_run() + "/items";
  const auto item = [](std::string_view kind) {
    return Json{{"sequence", 1}, {"kind", kind}, {"step", 3}, {"values", {{"loss", 2.5}}}};
  };
  const Json items = {{"part", 2}, {"items", {item("metrics")}}};
  EXPECT_EQ(post(target, items)["sequence"], 1);
  EXPECT_EQ(post(target, items)["sequence"], 1);
  EXPECT_EQ(post(target, {{"part", 3}, {"items", Json::array()}})["sequence"], 0);
  EXPECT_THAT(refusal(target, {{"part", 2}, {"items", {item("telemetry")}}}),
              HasSubstr("telemetry comes from agents only"));
  EXPECT_THAT(refusal(target, {{"part", -1}, {"items", Json::array()}}), HasSubstr("part"));
}

TEST_F(ImportTest, AHistogramReplacesTheOneOfItsPlace) {
  const std::string run = made_run();
  post(run + "/media", histogram({0, 1, 2}, {3, 4}));
  post(run + "/media", histogram({0, 1}, {5}));
  const Json listed = get(run + "/histograms")["histograms"];
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0]["edges"], Json({0, 1}));
  EXPECT_EQ(listed[0]["counts"], Json::array({5}));
}

TEST_F(ImportTest, AHistogramThatIsNoneIsRefused) {
  const std::string target = made_run() + "/media";
  EXPECT_THAT(refusal(target, histogram({0, 1}, {3, 4})), HasSubstr("one more than there are"));
  EXPECT_THAT(refusal(target, histogram({1, 0}, {3})), HasSubstr("ascend"));
  EXPECT_THAT(refusal(target, histogram({0, 1}, std::vector<int>(10'001, 1))),
              HasSubstr("at most 10000"));
}

TEST_F(ImportTest, AnImageIsKeptAndOtherBytesAreRefused) {
  const std::string run = made_run();
  const std::string png = "\x89PNG\r\n\x1a\n and more";
  Json image = {{"kind", "image"},
                {"name", "sample"},
                {"step", 3},
                {"caption", "a cat"},
                {"data", net::to_base64(std::as_bytes(std::span(png)))}};
  EXPECT_EQ(post(run + "/media", image)["sha256"].get<std::string>().size(), 64U);
  const Json listed = get(run + "/images")["images"];
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0]["caption"], "a cat");
  EXPECT_EQ(get(run + "/image?name=sample&step=3")["data"], image["data"]);
  image["data"] = "no base64!";
  EXPECT_THAT(refusal(run + "/media", image), HasSubstr("data: is no base64"));
  image["data"] = "AAAA";
  EXPECT_THAT(refusal(run + "/media", image), HasSubstr("PNG"));
  EXPECT_EQ(call_as_user("GET", run + "/image?name=other&step=3").status, 404);
}

}  // namespace
}  // namespace lockstep::server
