// The page's files and their headers, over HTTP.
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/server/page/page_file.h"
#include "platform/server/server_for_test.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::array kFiles = {
    PageFile{"index.html", "text/html; charset=utf-8", "aa11", "<the index>", true},
    PageFile{"assets/app-1.js", "text/javascript; charset=utf-8", "bb22", "<the script>", true},
    PageFile{"logo.png", "image/png", "cc33", "<the logo>", false},
};

class PageTest : public ServerTest {
 protected:
  PageTest() : ServerTest(kFiles) {}
  net::HttpResponse ask(const std::string& target, net::Headers headers = {},
                        const std::string& method = "GET") {
    return call({.method = method, .target = target, .headers = std::move(headers)}, std::nullopt);
  }
  static std::string header(const net::HttpResponse& response, std::string_view name) {
    return std::string(response.headers.find(name).value_or(""));
  }
};

TEST_F(PageTest, EachFileHasItsTypeAndComesAsItIsStored) {
  const auto index = ask("/");
  EXPECT_EQ(index.status, 200);
  EXPECT_EQ(index.content_type, "text/html; charset=utf-8");
  EXPECT_EQ(index.body, "<the index>");
  EXPECT_EQ(header(index, "Content-Encoding"), "gzip");
  const auto logo = ask("/logo.png");
  EXPECT_EQ(logo.content_type, "image/png");
  EXPECT_EQ(header(logo, "Content-Encoding"), "");
  EXPECT_EQ(logo.body, "<the logo>");
}

TEST_F(PageTest, AssetsAreKeptAndTheIndexIsAskedForAgain) {
  EXPECT_THAT(header(ask("/assets/app-1.js"), "Cache-Control"), HasSubstr("immutable"));
  EXPECT_EQ(header(ask("/"), "Cache-Control"), "no-cache");
  EXPECT_EQ(header(ask("/logo.png"), "Cache-Control"), "no-cache");
}

TEST_F(PageTest, AFileThatTheBrowserHasIsNotSentAgain) {
  EXPECT_EQ(header(ask("/"), "ETag"), "\"aa11\"");
  for (const char* known : {"\"aa11\"", "W/\"aa11\"", "\"x\", \"aa11\"", "*"}) {
    const auto again = ask("/", {{"If-None-Match", known}});
    EXPECT_EQ(again.status, 304) << known;
    EXPECT_EQ(again.body, "");
    EXPECT_EQ(header(again, "Content-Encoding"), "");
  }
  EXPECT_EQ(ask("/", {{"If-None-Match", "\"aa1\""}}).status, 200);
}

TEST_F(PageTest, EveryAnswerForbidsForeignCodeAndFrames) {
  for (const char* target : {"/", "/runs/demo/1", "/logo.png", "/assets/gone.js"}) {
    const auto answer = ask(target);
    const std::string policy = header(answer, "Content-Security-Policy");
    EXPECT_THAT(policy, HasSubstr("default-src 'none'; script-src 'self'; style-src 'self'"));
    EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_EQ(header(answer, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(header(answer, "Referrer-Policy"), "same-origin");
  }
}

TEST_F(PageTest, EachViewIsTheIndex) {
  for (const char* target : {"/runs/demo/1", "/runs/a.b/1?zoom=1", "/login", "/compare?runs=a/1",
                             "/settings", "/index.html", "/apis"})
    EXPECT_EQ(ask(target).body, "<the index>") << target;
}

TEST_F(PageTest, OtherPartsOfTheDaemonAreNoViews) {
  for (const char* target : {"/api/v1/no_such", "/api", "/login/x", "/assets/app-2.js"})
    EXPECT_EQ(ask(target).status, 404) << target;
  EXPECT_EQ(ask("/health").content_type, "application/json");
  EXPECT_EQ(ask("/health", {}, "POST").status, 405);
  EXPECT_EQ(ask("/runs/demo/1", {}, "POST").status, 404);
  EXPECT_EQ(ask("/api/v1/runs").status, 401);
  EXPECT_EQ(ask("/metrics").status, 401);
}

TEST_F(PageTest, NoPathLeavesTheTableOfFiles) {
  for (const char* target :
       {"/../index.html", "/assets/../logo.png", "/assets/%2e%2e/logo.png", "/assets%2fapp-1.js",
        "/%2e%2e/%2e%2e/etc/passwd", "/assets/..%2flogo.png", "/assets/app-1.js%00", "/%ff",
        "/assets\\app-1.js", "//etc/passwd/"}) {
    const auto answer = ask(target);
    EXPECT_TRUE(answer.status == 400 || answer.body == "<the index>") << target << answer.body;
    EXPECT_THAT(answer.body, Not(HasSubstr("the logo"))) << target;
    EXPECT_THAT(answer.body, Not(HasSubstr("the script"))) << target;
  }
  EXPECT_EQ(ask("/assets/%61pp-1.js").body, "<the script>");
}

TEST_F(PageTest, ACallerThatRefusesGzipIsToldSo) {
  for (const char* refusing : {"identity", "br", "gzip;q=0, br", "*;q=0"})
    EXPECT_EQ(ask("/", {{"Accept-Encoding", refusing}}).status, 406) << refusing;
  for (const char* taking : {"gzip", "deflate, gzip, br, zstd", "GZIP;q=0.5", "*"})
    EXPECT_EQ(ask("/", {{"Accept-Encoding", taking}}).status, 200) << taking;
  EXPECT_EQ(ask("/logo.png", {{"Accept-Encoding", "identity"}}).status, 200);
}

TEST_F(PageTest, HeadHasTheHeadersWithoutTheBody) {
  const auto answer = ask("/", {}, "HEAD");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(header(answer, "ETag"), "\"aa11\"");
  EXPECT_EQ(answer.body, "");
}

TEST_F(ServerTest, ADaemonWithoutThePageSaysHowToBuildIt) {
  for (const char* target : {"/", "/login", "/runs/demo/1", "/compare?runs=a/1", "/settings"}) {
    const auto answer = call({.method = "GET", .target = target}, std::nullopt);
    EXPECT_EQ(answer.status, 404) << target;
    EXPECT_THAT(answer.body, HasSubstr("./dev build")) << target;
    EXPECT_THAT(answer.content_type, HasSubstr("text/plain")) << target;
  }
  for (const char* target : {"/api/v1/no_such", "/login/x"})
    EXPECT_EQ(call({.method = "GET", .target = target}, std::nullopt).content_type,
              "application/json")
        << target;
}

}  // namespace
}  // namespace lockstep::server
