// Streams over two upgraded connections that a server joins, as the daemon does.
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "net/detail/peer_for_test.h"
#include "net/detail/tls_peer_for_test.h"
#include "net/http/echo_for_test.h"
#include "net/http/http_client.h"
#include "net/stream/relay.h"
#include "net/stream/splice.h"

namespace lockstep::net {
namespace {

constexpr std::string_view kProtocol = "test-stream";

std::pair<Fd, Fd> socket_pair() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

// Joins each two callers that ask for an upgrade.
class JoiningServer {
 public:
  explicit JoiningServer(HttpServerOptions options = {})
      : server_(std::make_unique<ServerThread>(
            [this](const HttpRequest&, Responder responder) {
              if (!responder.can_upgrade(kProtocol)) return responder.send({.body = "plain"});
              responder.upgrade(
                  kProtocol, [this](UpgradedConnection connection) { add(std::move(connection)); });
            },
            options)) {}

  // Connections end before the loop that they belong to.
  ~JoiningServer() {
    server_->on_loop([&] {
      is_closed_ = true;
      splice_.reset();
      first_.reset();
      return true;
    });
  }
  JoiningServer(const JoiningServer&) = delete;
  JoiningServer& operator=(const JoiningServer&) = delete;

  std::string url() { return server_->server().url(); }
  int port() { return server_->port(); }
  int connections() { return server_->connections(); }
  bool has_ended() {
    return server_->on_loop([&] { return ended_; });
  }
  void cut() {
    server_->on_loop([&] { return splice_.reset(), true; });
  }

 private:
  // A caller may have its answer before the server has the connection.
  void add(UpgradedConnection connection) {
    if (is_closed_) return;
    if (!first_) return void(first_.emplace(std::move(connection)));
    splice_.emplace(
        Splice::start(server_->loop(), *std::move(first_), std::move(connection), [this] {
          ended_ = true;
          splice_.reset();
        }));
    first_.reset();
  }

  // Used by the loop's thread:
  std::optional<UpgradedConnection> first_;
  std::optional<Splice> splice_;
  bool ended_ = false;
  bool is_closed_ = false;

  std::unique_ptr<ServerThread> server_;  // ends first
};

HttpCall upgrade_call() { return {.target = "/stream", .headers = upgrade_headers(kProtocol)}; }

UpgradedConnection connect_to(const std::string& url, TlsTrust trust = {}) {
  HttpClient client(parse_url(url).value(), 1_MiB, std::nullopt, std::move(trust));
  const auto answer = client.call(upgrade_call(), soon());
  EXPECT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 101);
  return client.take_connection();
}

// One end of a stream: a relay on its own thread, and the program's end of its local socket.
class StreamEnd {
 public:
  explicit StreamEnd(UpgradedConnection connection, RelayTimes times = {}) {
    auto [own, local] = socket_pair();
    own_.emplace(std::move(own));
    result_ = std::async(std::launch::async,
                         [connection = std::move(connection), socket = std::move(local), times,
                          stop = stop_.get_token()]() mutable {
                           return relay(std::move(connection), std::move(socket), stop, times);
                         });
  }

  RawCaller& program() { return *own_; }
  void end_sending() { ::shutdown(own_->fd(), SHUT_WR); }
  Result<void> result() { return result_.get(); }
  void stop() { stop_.request_stop(); }

 private:
  std::stop_source stop_;
  std::optional<RawCaller> own_;
  std::future<Result<void>> result_;
};

// Over TCP, and over TLS.
class Stream : public testing::TestWithParam<bool> {
 protected:
  Stream() {
    HttpServerOptions options;
    if (GetParam()) {
      const auto authority = authority_for_test();
      options.tls = identity_for_test(authority);
      trust_.authorities = authority.certificates;
    }
    server_ = std::make_unique<JoiningServer>(std::move(options));
  }
  UpgradedConnection connect() { return connect_to(server_->url(), trust_); }

  TlsTrust trust_;
  std::unique_ptr<JoiningServer> server_;
};
INSTANTIATE_TEST_SUITE_P(Over, Stream, testing::Bool(),
                         [](const auto& tls) { return tls.param ? "Tls" : "Tcp"; });

TEST_P(Stream, BytesArriveInBothDirectionsAndEachSideEndsItsOwn) {
  StreamEnd one(connect()), other(connect());
  one.program().send("a question");
  one.end_sending();
  EXPECT_EQ(other.program().read_to_end(), "a question");
  other.program().send("the answer");
  other.end_sending();
  EXPECT_EQ(one.program().read_to_end(), "the answer");
  EXPECT_TRUE(one.result());
  EXPECT_TRUE(other.result());
  EXPECT_TRUE(eventually([&] { return server_->has_ended(); }));
  EXPECT_TRUE(eventually([&] { return server_->connections() == 0; }));
}

TEST_P(Stream, ManyBytesPassAtTheSpeedOfTheReader) {
  const std::string block(1 << 20, 'x');
  constexpr int kBlocks = 100;
  StreamEnd one(connect()), other(connect());
  const auto write_all = [&](StreamEnd& end) {
    return std::async(std::launch::async, [&] {
      for (int i = 0; i < kBlocks; ++i) end.program().send(block);
      end.end_sending();
    });
  };
  const auto count_all = [&](StreamEnd& end) {
    return std::async(std::launch::async, [&] { return end.program().read_to_end().size(); });
  };
  auto first = write_all(one), second = write_all(other);
  // Nothing is read yet: the writers wait, because buffers are bounded.
  EXPECT_EQ(first.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  auto at_one = count_all(one), at_other = count_all(other);
  EXPECT_EQ(at_one.get(), kBlocks * block.size());
  EXPECT_EQ(at_other.get(), kBlocks * block.size());
  EXPECT_TRUE(one.result());
  EXPECT_TRUE(other.result());
}

TEST_P(Stream, ACutConnectionIsAnErrorAndNoEnd) {
  StreamEnd one(connect()), other(connect());
  one.program().send("x");
  EXPECT_EQ(other.program().read_until("x"), "x");
  server_->cut();
  EXPECT_EQ(one.result().error().code, Code::unavailable);
  EXPECT_EQ(other.result().error().code, Code::unavailable);
}

TEST_P(Stream, AProgramThatDisappearsEndsTheStreamForTheOther) {
  StreamEnd one(connect()), other(connect());
  other.program().hang_up();
  one.program().send("bytes that nothing reads");
  EXPECT_EQ(one.program().read_to_end(), "");
  const auto seen = one.result();
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().code, Code::peer_lost);
  EXPECT_NE(seen.error().message.find("the other end of the connection failed"), std::string::npos);
  EXPECT_TRUE(other.result());
}

TEST_P(Stream, AReasonFromTheOtherEndIsTheError) {
  StreamEnd one(connect());
  reset_stream(connect(), "connecting to port 80: Connection refused");
  const auto seen = one.result();
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().message, "connecting to port 80: Connection refused");
}

TEST_P(Stream, PingsKeepAnIdleStreamAlive) {
  const RelayTimes times{.ping = std::chrono::milliseconds(20),
                         .silence = std::chrono::milliseconds(400)};
  const auto quiet = Deadline::after(std::chrono::milliseconds(900));
  StreamEnd one(connect(), times), other(connect(), times);
  EXPECT_TRUE(eventually([&] { return quiet.passed(); }));
  one.program().send("still there");
  one.end_sending();
  other.end_sending();
  EXPECT_EQ(other.program().read_to_end(), "still there");
  EXPECT_TRUE(one.result());
}

TEST_P(Stream, AnEndThatIsSilentCountsAsLost) {
  StreamEnd one(connect(), {.silence = std::chrono::milliseconds(50)});
  const UpgradedConnection other = connect();
  EXPECT_EQ(one.result().error().code, Code::unavailable);
}

TEST_P(Stream, ItCanBeStopped) {
  StreamEnd one(connect()), other(connect());
  one.stop();
  EXPECT_EQ(one.result().error().code, Code::cancelled);
  EXPECT_EQ(other.result().error().code, Code::unavailable);
}

TEST_P(Stream, ACallWithoutUpgradeIsAnsweredAsUsual) {
  HttpClient client(parse_url(server_->url()).value(), 1_MiB, std::nullopt, trust_);
  EXPECT_EQ(client.call({}, soon())->body, "plain");
  HttpCall other = upgrade_call();
  other.headers = upgrade_headers("other-protocol");
  EXPECT_EQ(client.call(other, soon())->body, "plain");
  EXPECT_EQ(client.call(upgrade_call(), soon())->status, 101);
}

constexpr std::string_view kUpgrade =
    "GET /stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: test-stream\r\n";

TEST(Upgrade, BytesAfterTheRequestBelongToTheStream) {
  JoiningServer server;
  RawCaller one(server.port()), other(server.port());
  one.send(std::string(kUpgrade) + "\r\nearly");
  EXPECT_TRUE(one.read_until("\r\n\r\n").starts_with("HTTP/1.1 101 Switching Protocols\r\n"));
  other.send(std::string(kUpgrade) + "\r\n");
  EXPECT_TRUE(other.read_until("\r\n\r\n").starts_with("HTTP/1.1 101"));
  EXPECT_EQ(other.read_until("early"), "early");
}

TEST(Upgrade, ARequestWithABodyOrATooLongHeadGetsNone) {
  JoiningServer server;
  RawCaller one(server.port()), other(server.port());
  one.send(std::string(kUpgrade) + "Content-Length: 1\r\n\r\nx");
  EXPECT_TRUE(one.read_until("\r\n\r\n").starts_with("HTTP/1.1 200"));
  other.send(std::string(kUpgrade) + "X: " + std::string(40'000, 'x') + "\r\n\r\n");
  EXPECT_TRUE(other.read_until("\r\n\r\n").starts_with("HTTP/1.1 431"));
}

TEST(Upgrade, FramesThatAreNoneAreAnError) {
  JoiningServer server;
  StreamEnd one(connect_to(server.url()));
  RawCaller other(server.port());
  other.send(std::string(kUpgrade) + "\r\nSSH-2.0-OpenSSH");
  EXPECT_EQ(one.result().error().code, Code::corrupt);
}

TEST(Upgrade, AServerThatStopsClosesStreams) {
  auto server = std::make_unique<JoiningServer>();
  StreamEnd one(connect_to(server->url())), other(connect_to(server->url()));
  one.program().send("x");
  EXPECT_EQ(other.program().read_until("x"), "x");
  server.reset();
  EXPECT_EQ(one.result().error().code, Code::unavailable);
}

}  // namespace
}  // namespace lockstep::net
