// Uploads over HTTP: a client sends a folder, submits a run with it, and an agent gets it.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "net/crypto.h"
#include "platform/server/server_for_test.h"
#include "text/json.h"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kHello = "hello";
constexpr std::string_view kHelloInBase64 = "aGVsbG8=";

class UploadRoutesTest : public ServerTest {
 protected:
  Json post(std::string target, const Json& body) {
    const net::HttpResponse response = call_as_user("POST", std::move(target), dump_json(body));
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body).value_or(Json());
  }
  static Json manifest() {
    return {{"manifest",
             {{"files", {{{"path", "a"}, {"sha256", net::sha256_hex(kHello)}, {"size", "5 B"}}}}}}};
  }
  static std::string submission(const std::string& upload) {
    return format(R"({{"spec":{{"project":"demo","command":["train"],"devices":2,)"
                  R"("working_folder":"/","upload":"{}"}}}})",
                  upload);
  }
  net::HttpResponse call_as_agent(std::string method, std::string what, std::string body = "") {
    return call({.method = std::move(method),
                 .target = "/api/v1/runs/demo/1/attempts/1/nodes/0/" + std::move(what),
                 .headers = {{"Content-Type", "application/json"}},
                 .body = std::move(body)},
                "Bearer " + keys_->agent_token({"", kNodeId.attempt}));
  }
};

TEST_F(UploadRoutesTest, AFolderIsSentAndAgentsOfItsRunGetIt) {
  EXPECT_EQ(get("/api/v1/version")["upload_limit"], "500 MiB");
  Json answer = post("/api/v1/uploads", manifest());
  const std::string id = answer["id"];
  EXPECT_EQ(answer["missing"], Json::array({net::sha256_hex(kHello)}));
  const auto early = call_as_user("POST", "/api/v1/runs", submission(id));
  EXPECT_EQ(early.status, 400);
  EXPECT_THAT(early.body, HasSubstr("lockstep run --upload"));
  const Json part = {{"sha256", net::sha256_hex(kHello)}, {"offset", 0}, {"bytes", kHelloInBase64}};
  EXPECT_EQ(post("/api/v1/uploads/parts", {{"parts", Json::array({part})}})["files"], 1);
  EXPECT_EQ(post("/api/v1/uploads", manifest())["missing"], Json::array());

  EXPECT_EQ(call_as_user("POST", "/api/v1/runs", submission("../key")).status, 400);
  const auto submitted = call_as_user("POST", "/api/v1/runs", submission(id));
  ASSERT_EQ(submitted.status, 200) << submitted.body;
  EXPECT_THAT(submitted.body, HasSubstr(id));
  const auto listed = call_as_agent("GET", "upload");
  ASSERT_EQ(listed.status, 200) << listed.body;
  EXPECT_EQ(parse_json(listed.body)->at("files")[0]["path"], "a");
  const std::string wanted =
      dump_json({{"parts", Json::array({Json{{"sha256", net::sha256_hex(kHello)}}})}});
  const auto files = call_as_agent("POST", "files", wanted);
  ASSERT_EQ(files.status, 200) << files.body;
  EXPECT_EQ(parse_json(files.body)->at("parts")[0]["bytes"], kHelloInBase64);
  EXPECT_EQ(call_as_user("POST", "/api/v1/runs/demo/1/attempts/1/nodes/0/files", wanted).status,
            401)
      << "that is no agent";
}

TEST_F(UploadRoutesTest, ARunWithoutAFolderHasNone) {
  submit();
  EXPECT_EQ(call_as_agent("GET", "upload").status, 404);
}

}  // namespace
}  // namespace lockstep::server
