// The service against a server that answers as a daemon without orders.
#include "platform/host_service/service.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"
#include "net/http/http_server.h"
#include "net/loop.h"
#include "platform/api/proof.h"
#include "text/convert.h"

namespace lockstep::host_service {
namespace {

class IdleDaemon {
 public:
  IdleDaemon() : thread_([this] { loop_.run(); }) {}
  ~IdleDaemon() {
    loop_.stop();
    thread_.join();
  }

  std::string url() const { return server_.url(); }
  // A client greets once on each connection.
  int greetings() const { return greetings_; }
  int reports() const { return reports_; }

 private:
  net::HttpResponse answer(const net::HttpRequest& request) {
    Json answer;
    if (const auto nonce = request.query.find("nonce"); nonce != request.query.end()) {
      ++greetings_;
      answer = to_json(
          api::Health{.proof = api::daemon_proof("credential", server_.port(), nonce->second)});
    } else {
      answer = to_json(api::ServiceOrders{
          .session = "s", .number = ++reports_, .start = {}, .kill = {}, .wait_seconds = 1});
    }
    return {.content_type = "application/json", .body = dump_json(answer)};
  }

  std::atomic<int> greetings_ = 0, reports_ = 0;
  net::Loop loop_;
  net::HttpServer server_ =
      net::HttpServer::start(loop_, {},
                             [this](const net::HttpRequest& request, net::Responder responder) {
                               responder.send(answer(request));
                             })
          .value();
  std::thread thread_;
};

TEST(HostService, MakesAllItsCallsOverTheSameTwoConnections) {
  const TemporaryFolder home;
  const SystemClock clock;
  IdleDaemon daemon;
  const auto nodes =
      engine::LocalEngine::open({.name = "lockstep", .file = "/bin/true"}, home).value();
  const auto service =
      HostService::open({.nodes = *nodes,
                         .clock = clock,
                         .membership = {.host = "a",
                                        .url = daemon.url(),
                                        .credential = "credential",
                                        .address = "127.0.0.1"},
                         .home = home,
                         .sources = {.gpus = {}, .folders = {}, .users = {}, .version = "1"}})
          .value();
  for (int i = 0; i < 30; ++i) {
    const auto called = service->poll();
    ASSERT_TRUE(called) << called.error().message;
    service->watch();
  }
  EXPECT_GE(daemon.reports(), 31) << "each poll, and the first look at the machine";
  EXPECT_LE(daemon.reports(), 33) << "a machine on which nothing changes is not reported again";
  EXPECT_EQ(daemon.greetings(), 2) << "the connection of the polls, and that of the reports";
}

}  // namespace
}  // namespace lockstep::host_service
