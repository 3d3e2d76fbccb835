#include "net/http/http_client.h"

#include <atomic>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "net/detail/peer_for_test.h"
#include "net/http/echo_for_test.h"
#include "net/reserved_port.h"

namespace lockstep::net {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

HttpClient client_of(int port) { return HttpClient(Url{"127.0.0.1", port}); }

// A server with scripted connections, one after another; ends with the test.
class Script {
 public:
  explicit Script(std::vector<std::function<void(RawCaller&)>> acts)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), plain, size), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    EXPECT_EQ(::getsockname(listener_.get(), plain, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, acts = std::move(acts)] {
      for (const auto& act : acts) {
        Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!connection) return;
        RawCaller peer(std::move(connection));
        act(peer);
      }
    });
  }
  ~Script() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  int port() const { return port_; }

 private:
  Fd listener_;
  int port_ = 0;
  std::thread thread_;
};

constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

TEST(HttpClient, CallsAndIsAnswered) {
  ServerThread server([](HttpRequest request, Responder responder) {
    responder.send({.status = 404,
                    .content_type = "application/json",
                    .body = request.body + std::string(*request.headers.find("X-Note")),
                    .headers = {{"X-Answer", "yes"}}});
  });
  auto client = client_of(server.port());
  auto answer = client.call(
      {.method = "POST", .target = "/a", .headers = {{"X-Note", "!"}}, .body = "hello"}, soon());
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->content_type, "application/json");
  EXPECT_EQ(answer->body, "hello!");
  EXPECT_EQ(answer->headers.find("x-answer"), "yes");
}

TEST(HttpClient, KeepsItsConnection) {
  ServerThread server([](HttpRequest, Responder responder) { responder.send({}); });
  auto client = client_of(server.port());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client.call({}, soon()).has_value());
  EXPECT_EQ(server.connections(), 1);
}

// Calls the handshake's path, and goes on if the answer is `right`.
ConnectionHandshake greeting(std::string right) {
  return {.call = [] { return HttpCall{.target = "/who"}; },
          .verify = [right](const HttpResponse& answer) -> Result<void> {
            if (answer.body == right) return {};
            return Error{Code::unavailable, "somebody else"};
          }};
}

TEST(HttpClient, AGreetingPrecedesTheCallsOfEachConnection) {
  std::vector<std::string> heard;  // read after the answers came
  ServerThread server([&](HttpRequest request, Responder responder) {
    heard.push_back(request.target);
    responder.send({.body = "me"});
  });
  HttpClient client(Url{"127.0.0.1", server.port()}, 64_MiB, greeting("me"));
  for (std::string target : {"/1", "/2"})
    EXPECT_EQ(client.call({.target = target}, soon())->body, "me");
  EXPECT_EQ(heard, (std::vector<std::string>{"/who", "/1", "/2"}));
}

TEST(HttpClient, WhoDoesNotGreetWellHearsNoCall) {
  std::vector<std::string> heard;
  ServerThread server([&](HttpRequest request, Responder responder) {
    heard.push_back(request.target);
    responder.send({.body = "me"});
  });
  HttpClient client(Url{"127.0.0.1", server.port()}, 64_MiB, greeting("you"));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(client.call({}, soon()).error().message, "somebody else");
  EXPECT_EQ(heard, (std::vector<std::string>{"/who", "/who"}));
}

TEST(HttpClient, WhoGreetsAndHangsUpHearsNoCall) {
  Script server({[](RawCaller& peer) {
                   peer.read_until("\r\n\r\n");
                   peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nme");
                 },
                 [](RawCaller& peer) { EXPECT_EQ(peer.read_until("\r\n"), ""); }});
  HttpClient client(Url{"127.0.0.1", server.port()}, 64_MiB, greeting("me"));
  EXPECT_EQ(client.call({}, soon()).error().code, Code::unavailable);
}

TEST(HttpClient, FindsAServerByName) {
  ServerThread server([](HttpRequest, Responder responder) { responder.send({}); });
  HttpClient client(Url{"localhost", server.port()});
  EXPECT_TRUE(client.call({}, soon()).has_value());
}

TEST(HttpClient, SaysWhenNobodyListens) {
  const auto port = ReservedPort::open().value();
  auto answer = client_of(port.number()).call({}, soon());
  EXPECT_EQ(answer.error().code, Code::unavailable);
  EXPECT_THAT(answer.error().message, AllOf(HasSubstr(format("http://127.0.0.1:{}", port.number())),
                                            HasSubstr("Connection refused")));
}

TEST(HttpClient, SaysWhenTheConnectionEndsInMidAnswer) {
  Script server({[](RawCaller& peer) {
    peer.read_until("\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort");
  }});
  auto answer = client_of(server.port()).call({}, soon());
  EXPECT_EQ(answer.error().code, Code::unavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("closed in mid-answer"));
}

TEST(HttpClient, GivesUpAtTheDeadline) {
  Script server({[](RawCaller& peer) { peer.read_to_end(); }});
  auto answer = client_of(server.port()).call({}, Deadline::after(milliseconds(50)));
  EXPECT_EQ(answer.error().code, Code::timeout);
}

TEST(HttpClient, GivesUpOnAnAnswerThatTrickles) {
  Script server({[](RawCaller& peer) {
    peer.read_until("\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab");
    peer.read_to_end();
  }});
  auto answer = client_of(server.port()).call({}, Deadline::after(milliseconds(50)));
  EXPECT_EQ(answer.error().code, Code::timeout);
}

TEST(HttpClient, SaysWhenTheAnswerIsNotHttp) {
  Script server({[](RawCaller& peer) {
    peer.read_until("\r\n\r\n");
    peer.send("SSH-2.0-OpenSSH_9.2\r\n");
    peer.read_to_end();
  }});
  EXPECT_EQ(client_of(server.port()).call({}, soon()).error().code, Code::corrupt);
}

TEST(HttpClient, RefusesAnAnswerThatIsTooLarge) {
  Script server({[](RawCaller& peer) {
    peer.read_until("\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
    peer.read_to_end();
  }});
  HttpClient client(Url{"127.0.0.1", server.port()}, 10_B);
  EXPECT_EQ(client.call({}, soon()).error().code, Code::exhausted);
}

TEST(HttpClient, ReadsAnAnswerThatEndsWithItsConnectionAndConnectsAnew) {
  const auto act = [](RawCaller& peer) {
    peer.read_until("\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\n\r\nto the end");
  };
  Script server({act, act});
  auto client = client_of(server.port());
  EXPECT_EQ(client.call({}, soon())->body, "to the end");
  EXPECT_EQ(client.call({}, soon())->body, "to the end");
}

TEST(HttpClient, NoticesThatAKeptConnectionWasClosedBeforeUsingIt) {
  std::atomic<bool> closed = false;
  Script server({[](RawCaller& peer) {
                   peer.read_until("\r\n\r\n");
                   peer.send(kOk);
                 },
                 [&](RawCaller& peer) {
                   closed = true;
                   peer.read_until("\r\n\r\n");
                   peer.send(kOk);
                 }});
  auto client = client_of(server.port());
  EXPECT_EQ(client.call({}, soon())->body, "ok");
  auto probe = client_of(server.port());  // accepted only once the first connection is closed
  EXPECT_EQ(probe.call({}, soon())->body, "ok");
  EXPECT_TRUE(closed);
  // Also for a call that must not be repeated: nothing was sent on the dead connection. The server
  // no longer accepts connections.
  auto answer = client.call({.method = "POST"}, Deadline::after(milliseconds(50)));
  EXPECT_EQ(answer.error().code, Code::timeout);
}

// The first connection answers once, reads a second request and closes; the second answers.
std::vector<std::function<void(RawCaller&)>> one_broken_connection() {
  return {[](RawCaller& peer) {
            peer.read_until("\r\n\r\n");
            peer.send(kOk);
            peer.read_until("\r\n\r\n");
          },
          [](RawCaller& peer) {
            peer.read_until("\r\n\r\n");
            peer.send(kOk);
          }};
}

TEST(HttpClient, RepeatsACallOnceWhenAKeptConnectionBreaksUnanswered) {
  Script server(one_broken_connection());
  auto client = client_of(server.port());
  EXPECT_EQ(client.call({}, soon())->body, "ok");
  EXPECT_EQ(client.call({}, soon())->body, "ok");
}

TEST(HttpClient, DoesNotRepeatWhatMustNotHappenTwice) {
  Script server(one_broken_connection());
  auto client = client_of(server.port());
  EXPECT_EQ(client.call({}, soon())->body, "ok");
  EXPECT_EQ(client.call({.method = "POST"}, soon()).error().code, Code::unavailable);
  EXPECT_EQ(client.call({.method = "POST", .repeatable = true}, soon())->body, "ok");
}

TEST(HttpClient, HearsARefusalThatComesBeforeItsBodyIsSent) {
  ServerThread server([](HttpRequest, Responder responder) { responder.send({}); },
                      {.body_max = 1_KiB});
  auto client = client_of(server.port());
  auto answer = client.call({.method = "POST", .body = std::string(8 << 20, 'x')}, soon());
  EXPECT_EQ(answer.value().status, 413);
}

TEST(HttpClient, DoesNotSendWhatWouldBecomeAnotherRequest) {
  auto client = client_of(1);
  for (const HttpCall& call :
       {HttpCall{.method = "GET /x"}, HttpCall{.target = "/a b"}, HttpCall{.target = "/a\r\nX: y"},
        HttpCall{.target = "x"}, HttpCall{.headers = {{"X", "a\r\nY: b"}}}})
    EXPECT_EQ(client.call(call, soon()).error().code, Code::invalid);
}

}  // namespace
}  // namespace lockstep::net
