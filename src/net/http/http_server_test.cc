#include "net/http/http_server.h"

#include <deque>
#include <future>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "net/detail/peer_for_test.h"
#include "net/http/echo_for_test.h"

namespace lockstep::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Sends the bytes, and returns all answers until the server closes.
std::string ask(int port, std::string_view bytes) {
  RawCaller caller(port);
  caller.send(bytes);
  return caller.read_to_end();
}

std::string with_headers(std::string_view headers, std::string_view body = "") {
  return "POST /x HTTP/1.1\r\n" + std::string(headers) + "\r\n" + std::string(body);
}

TEST(HttpServer, AnswersARequest) {
  ServerThread server(echo);
  const std::string answer = ask(server.port(),
                                 "POST /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                 "Content-Length: 5\r\n\r\nhello");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nDate: "));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 13\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nPOST /a hello"));
}

TEST(HttpServer, OneConnectionCarriesManyRequestsAlsoSentAhead) {
  ServerThread server(echo);
  RawCaller caller(server.port());
  caller.send(
      "GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "POST /2 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\nGET /3 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(caller.read_until("GET /1 "), EndsWith("\r\n\r\nGET /1 "));
  EXPECT_THAT(caller.read_until("POST /2 abcde"), EndsWith("\r\n\r\nPOST /2 abcde"));
  EXPECT_THAT(caller.read_until("GET /3 "), EndsWith("\r\n\r\nGET /3 "));
}

TEST(HttpServer, AnObserverSeesTheStatusOfEachAnswer) {
  std::vector<std::string> seen;
  {
    ServerThread server(echo,
                        {.observe = [&](const HttpRequest& request) -> std::function<void(int)> {
                          return [&seen, name = request.target](int status) {
                            seen.push_back(name + " " + std::to_string(status));
                          };
                        }},
                        [](const HttpRequest& request) -> std::optional<HttpResponse> {
                          if (request.target != "/no") return std::nullopt;
                          return HttpResponse{.status = 403};
                        });
    RawCaller caller(server.port());
    caller.send(
        "GET /yes HTTP/1.1\r\nHost: localhost\r\n\r\n"
        "GET /no HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    caller.read_to_end();
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"/yes 200", "/no 403"}));
}

TEST(HttpServer, HeadGetsTheLengthAndNoBody) {
  ServerThread server(echo);
  const std::string answer =
      ask(server.port(), "HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("Content-Length: 7\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
}

TEST(HttpServer, ABodyIsAskedForWhenItsSenderWaits) {
  ServerThread server(echo);
  RawCaller caller(server.port());
  caller.send(
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
      "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(caller.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  caller.send("ok");
  EXPECT_THAT(caller.read_until("POST / ok"), EndsWith("POST / ok"));
}

TEST(HttpServer, HostileRequestsAreRefusedAndTheConnectionClosed) {
  ServerThread server(echo);
  const std::string host = "Host: localhost\r\n";
  const std::vector<std::string> requests = {
      with_headers(host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
      with_headers(host + "Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"),
      with_headers(host + "Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
      with_headers(host + "Content-Length: +5\r\n", "abcde"),
      with_headers(host + "Content-Length: 0x5\r\n", "abcde"),
      with_headers(host + "Content-Length: 5,5\r\n", "abcde"),
      with_headers(host + "Content-Length: -1\r\n"),
      with_headers(host + "Content-Length: \r\n"),
      with_headers(host + "Content-Length: 99999999999999999999999\r\n"),
      with_headers(host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
      with_headers(host + "Transfer-Encoding: chunked\r\n", "ffffffffffffffffff\r\nabc"),
      with_headers(host + "Transfer-Encoding: chunked\r\n", "-1\r\nabc"),
      with_headers(host + "Transfer-Encoding: chunked\r\n", "3\nabc\n0\n\n"),
      with_headers(host + "Transfer-Encoding: chunked\r\n", "2\r\nabc\r\n0\r\n\r\n"),
      with_headers(host + "Transfer-Encoding : chunked\r\n", "0\r\n\r\n"),
      with_headers(host + "X: a\r\n b\r\n"),
      with_headers(host + "X: a\rb\r\n"),
      with_headers(host + "X: a\x01z\r\n"),
      with_headers(host + std::string("X: a\0b\r\n", 8)),
      with_headers(host + "No colon\r\n"),
      with_headers(host + ": nameless\r\n"),
      with_headers(host + "Authorization: a\r\nAuthorization: b\r\n"),
      with_headers(host + host),
      with_headers(""),
      with_headers("Host: evil.example\r\n"),
      with_headers("Host: 10.1.2.3\r\n"),
      with_headers("Host: [::1]\r\n"),
      with_headers("Host: localhost@evil\r\n"),
      with_headers("Host: \r\n"),
      "GET / HTTP/1.1\nHost: localhost\n\n",
      "\r\nGET / HTTP/1.1\r\n" + host + "\r\n",
      "GET / HTTP/x\r\n" + host + "\r\n",
      "GET / HTTP/1.1x\r\n" + host + "\r\n",
      "GET / HTTP/1.1 \r\n" + host + "\r\n",
      "GET  / HTTP/1.1\r\n" + host + "\r\n",
      "GET /\r\n\r\n",
      "GET /a b HTTP/1.1\r\n" + host + "\r\n",
      "G(T / HTTP/1.1\r\n" + host + "\r\n",
      "GET http://localhost/ HTTP/1.1\r\n" + host + "\r\n",
      "CONNECT localhost:80 HTTP/1.1\r\n" + host + "\r\n",
      "GET /../etc/passwd HTTP/1.1\r\n" + host + "\r\n",
      "GET /%2e%2e/x HTTP/1.1\r\n" + host + "\r\n",
      "GET /a%2fb HTTP/1.1\r\n" + host + "\r\n",
      "GET /%zz HTTP/1.1\r\n" + host + "\r\n",
      "GET /% HTTP/1.1\r\n" + host + "\r\n",
      "GET /%ff HTTP/1.1\r\n" + host + "\r\n",
      "GET /?a=1&a=2 HTTP/1.1\r\n" + host + "\r\n",
      "GET /#x HTTP/1.1\r\n" + host + "\r\n",
      "OPTIONS * HTTP/1.1\r\n" + host + "\r\n",
      "GET /a%00 HTTP/1.1\r\n" + host + "\r\n",
      "GET /a\\b HTTP/1.1\r\n" + host + "\r\n",
      "POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15),  // TLS
  };
  for (const std::string& request : requests) {
    const std::string answer = ask(server.port(), request);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 Bad Request\r\n")) << request;
    EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n")) << request;
  }
}

TEST(HttpServer, WhatItDoesNotImplementIsSaidSo) {
  ServerThread server(echo);
  const std::string host = "Host: localhost\r\n";
  for (std::string coding : {"gzip", "chunked, gzip", "xchunked", "identity"})
    EXPECT_THAT(ask(server.port(), with_headers(host + "Transfer-Encoding: " + coding + "\r\n")),
                StartsWith("HTTP/1.1 501"))
        << coding;
  EXPECT_THAT(ask(server.port(), "GET / HTTP/2.0\r\n" + host + "\r\n"), StartsWith("HTTP/1.1 505"));
  EXPECT_THAT(ask(server.port(), with_headers(host + "Expect: tea\r\n")),
              StartsWith("HTTP/1.1 417"));
}

TEST(HttpServer, TheAddressThatWasCalledAndKnownNamesAreGoodHosts) {
  ServerThread server(echo, {.host_names = {"head.example", "10.1.2.3"}});
  for (std::string host :
       {"localhost:80", "LOCALHOST", "127.0.0.1", "10.1.2.3:80", "Head.Example:8080"})
    EXPECT_THAT(ask(server.port(), with_headers("Host: " + host + "\r\nConnection: close\r\n")),
                StartsWith("HTTP/1.1 200"))
        << host;
}

TEST(HttpServer, OnAllAddressesTheOneThatWasCalledIsGood) {
  ServerThread server(echo, {.host = "::"});
  EXPECT_THAT(ask(server.port(), with_headers("Host: 127.0.0.1\r\nConnection: close\r\n")),
              StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask(server.port(), with_headers("Host: 10.1.2.3\r\n")), StartsWith("HTTP/1.1 400"));
}

TEST(HttpServer, HttpOneZeroIsAnsweredOnceAndWithoutAHost) {
  ServerThread server(echo);
  const std::string answer = ask(server.port(), "GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
}

TEST(HttpServer, RefusalsLookAsItsOwnerWants) {
  ServerThread server(echo, {.refusal = [](int status, const std::string& message) {
                        return HttpResponse{.status = status,
                                            .content_type = "application/json",
                                            .body = "{\"" + message + "\"}"};
                      }});
  const std::string answer = ask(server.port(), "GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(answer, EndsWith("{\"there is no Host header\"}"));
}

TEST(HttpServer, WhatIsTooLargeIsRefused) {
  ServerThread server(echo, {.body_max = 10_B});
  const std::string host = "Host: localhost\r\n";
  const std::string many = [] {
    std::string headers;
    for (int i = 0; i < 101; ++i) headers += "X: y\r\n";
    return headers;
  }();
  const int port = server.port();
  EXPECT_THAT(ask(port, "GET /" + std::string(9000, 'a')), StartsWith("HTTP/1.1 414"));
  EXPECT_THAT(ask(port, with_headers(host + "X: " + std::string(33000, 'a') + "\r\n")),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask(port, with_headers(host + many)), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask(port, with_headers(host + "Content-Length: 11\r\n", "12345678901")),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(ask(port, with_headers(host + "Transfer-Encoding: chunked\r\n",
                                     "b\r\n12345678901\r\n0\r\n\r\n")),
              StartsWith("HTTP/1.1 413"));
}

TEST(HttpServer, SlowCallersAreCutOff) {
  // Each timeout is short on a separate server: on a busy machine the caller also starts slowly.
  ServerThread idle(echo, {.idle_time = milliseconds(50)});
  EXPECT_EQ(ask(idle.port(), ""), "");
  ServerThread head(echo, {.head_time = milliseconds(50)});
  ServerThread body(echo, {.body_time = milliseconds(50)});
  const std::string half_a_body = with_headers("Host: localhost\r\nContent-Length: 5\r\n", "ab");
  for (const std::string& answer : {ask(head.port(), "GET / HT"), ask(body.port(), half_a_body)}) {
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
    EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
  }
}

TEST(HttpServer, ACallerThatReadsNothingIsCutOff) {
  HttpServerOptions options{.write_time = milliseconds(50)};
  ServerThread server(
      [](HttpRequest, Responder responder) {
        responder.send({.body = std::string(32 << 20, 'x')});
      },
      options);
  RawCaller caller(server.port());
  caller.send(kGet);
  EXPECT_THAT(caller.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(eventually([&] { return server.connections() == 0; }));
  // Only the bytes that fitted into the kernel's buffers arrive.
  EXPECT_LT(caller.read_to_end().size(), 32u << 20);
}

TEST(HttpServer, TheGateRefusesBeforeTheBodyIsSent) {
  ServerThread server(echo, {}, [](const HttpRequest& request) -> std::optional<HttpResponse> {
    if (request.headers.find("authorization") == "secret") return std::nullopt;
    return HttpResponse{.status = 401};
  });
  const std::string head = "Host: localhost\r\nContent-Length: 500000\r\nConnection: close\r\n";
  EXPECT_THAT(ask(server.port(), with_headers(head)), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(ask(server.port(),
                  with_headers(head + "Authorization: secret\r\n", std::string(500000, 'x'))),
              StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, AHandlerThatThrowsOrForgetsIsAnInternalError) {
  ServerThread server([](HttpRequest request, Responder responder) {
    if (request.target == "/throw") throw std::runtime_error("a mistake");
    if (request.target == "/split") responder.send({.headers = {{"X", "a\r\nSet-Cookie: b"}}});
  });
  for (std::string path : {"/throw", "/forget", "/split"})
    EXPECT_THAT(ask(server.port(), "GET " + path +
                                       " HTTP/1.1\r\nHost: localhost\r\n"
                                       "Connection: close\r\n\r\n"),
                StartsWith("HTTP/1.1 500"))
        << path;
}

// Keeps every request until a caller requests /release, then answers all.
class Waiters {
 public:
  void handle(HttpRequest request, Responder responder) {
    if (request.target == "/release") {
      for (Responder& waiter : waiting_) waiter.send({.body = "released"});
      waiting_.clear();
      responder.send({});
    } else if (request.target == "/count") {
      std::erase_if(waiting_, [](const Responder& waiter) { return waiter.is_abandoned(); });
      responder.send({.body = format("waiting: {};", waiting_.size())});
    } else {
      waiting_.push_back(std::move(responder));
    }
  }

  std::size_t count() const { return waiting_.size(); }

 private:
  std::vector<Responder> waiting_;
};

TEST(HttpServer, ManyCallersMayWaitForALaterAnswerAndManyMoreBeIdle) {
  Waiters waiters;
  ServerThread server([&](HttpRequest request, Responder responder) {
    waiters.handle(std::move(request), std::move(responder));
  });
  std::deque<RawCaller> idle;
  for (int i = 0; i < 200; ++i) idle.emplace_back(server.port());
  std::deque<RawCaller> callers;
  for (int i = 0; i < 50; ++i) callers.emplace_back(server.port()).send(kGet);
  RawCaller control(server.port());
  std::string count;
  EXPECT_TRUE(eventually([&] {
    control.send("GET /count HTTP/1.1\r\nHost: localhost\r\n\r\n");
    control.read_until("\r\n\r\n");
    count = control.read_until(";");
    return count == "waiting: 50;";
  }));
  control.send("GET /release HTTP/1.1\r\nHost: localhost\r\n\r\n");
  for (RawCaller& caller : callers)
    EXPECT_THAT(caller.read_until("released"), EndsWith("released"));
  idle.front().send("GET /count HTTP/1.1\r\nHost: localhost\r\n\r\n");
  idle.front().read_until("\r\n\r\n");
  EXPECT_EQ(idle.front().read_until(";"), "waiting: 0;");
}

TEST(HttpServer, AWaitingCallerThatHangsUpIsNoticed) {
  Waiters waiters;
  ServerThread server([&](HttpRequest request, Responder responder) {
    waiters.handle(std::move(request), std::move(responder));
  });
  RawCaller control(server.port());
  const auto waiting = [&] {
    control.send("GET /count HTTP/1.1\r\nHost: localhost\r\n\r\n");
    control.read_until("\r\n\r\n");
    return control.read_until(";");
  };
  RawCaller caller(server.port());
  caller.send(kGet);
  EXPECT_TRUE(eventually([&] { return waiting() == "waiting: 1;"; }));
  caller.hang_up();
  EXPECT_TRUE(eventually([&] { return waiting() == "waiting: 0;"; }));
}

TEST(HttpServer, AHandlerThatTakesTooLongIsAnsweredFor) {
  Waiters waiters;
  ServerThread server(
      [&](HttpRequest request, Responder responder) {
        waiters.handle(std::move(request), std::move(responder));
      },
      {.handler_time = milliseconds(30)});
  EXPECT_THAT(ask(server.port(), "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 503"));
}

TEST(HttpServer, OfTooManyConnectionsTheOneThatWaitsLongestGivesWay) {
  ServerThread server(echo, {.connections_max = 3});
  RawCaller oldest(server.port());
  oldest.send("GET / HT");
  EXPECT_TRUE(eventually([&] { return server.connections() == 1; }));
  RawCaller idle(server.port());
  RawCaller used(server.port());
  used.send(kGet);
  used.read_until("GET / ");
  std::deque<RawCaller> later;
  for (RawCaller* gone : {&oldest, &idle}) {
    RawCaller& late = later.emplace_back(server.port());
    late.send(kGet);
    EXPECT_THAT(late.read_until("GET / "), EndsWith("GET / "));
    EXPECT_EQ(gone->read_to_end(), "");
  }
  used.send(kGet);
  EXPECT_THAT(used.read_until("GET / "), EndsWith("GET / "));
}

TEST(HttpServer, WhenAllConnectionsAreBusyMoreAreTurnedAway) {
  Waiters waiters;
  ServerThread server(
      [&](HttpRequest request, Responder responder) {
        waiters.handle(std::move(request), std::move(responder));
      },
      {.connections_max = 2});
  std::deque<RawCaller> busy;
  for (std::size_t count : {1u, 2u}) {
    busy.emplace_back(server.port()).send(kGet);
    EXPECT_TRUE(
        eventually([&] { return server.on_loop([&] { return waiters.count(); }) >= count; }));
  }
  const std::string answer = ask(server.port(), "");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
}

TEST(HttpServer, WhatTheGateRefusesWithoutABodyLeavesTheConnection) {
  ServerThread server(echo, {}, [](const HttpRequest& request) -> std::optional<HttpResponse> {
    if (request.target == "/good") return std::nullopt;
    return HttpResponse{.status = 404, .body = "no such thing"};
  });
  RawCaller caller(server.port());
  caller.send("GET /bad HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(caller.read_until("no such thing"), StartsWith("HTTP/1.1 404"));
  caller.send("GET /good HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(caller.read_until("GET /good "), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, StoppingFinishesWhatRunsAndClosesWhatIsIdle) {
  std::vector<Responder> waiting;
  std::promise<void> received;
  std::promise<void> stopped;
  ServerThread server([&](HttpRequest, Responder responder) {
    waiting.push_back(std::move(responder));
    received.set_value();
  });
  RawCaller idle(server.port());
  RawCaller busy(server.port());
  busy.send(kGet);
  received.get_future().wait();
  server.loop().post([&] {
    server.server().stop(seconds(10), [&] { stopped.set_value(); });
    waiting[0].send({.body = "last words"});
  });
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_THAT(busy.read_to_end(), EndsWith("last words"));
  EXPECT_EQ(stopped.get_future().wait_for(seconds(10)), std::future_status::ready);
}

TEST(HttpServer, StoppingCutsOffWhatDoesNotEndInTime) {
  std::vector<Responder> waiting;
  std::promise<void> received;
  std::promise<void> stopped;
  ServerThread server([&](HttpRequest, Responder responder) {
    waiting.push_back(std::move(responder));
    received.set_value();
  });
  RawCaller busy(server.port());
  busy.send(kGet);
  received.get_future().wait();
  server.loop().post([&] { server.server().stop(milliseconds(10), [&] { stopped.set_value(); }); });
  EXPECT_EQ(stopped.get_future().wait_for(seconds(10)), std::future_status::ready);
  EXPECT_EQ(busy.read_to_end(), "");
}

TEST(HttpServer, AResponderMayOutliveServerAndLoop) {
  std::vector<Responder> waiting;
  {
    std::promise<void> received;
    ServerThread server([&](HttpRequest, Responder responder) {
      waiting.push_back(std::move(responder));
      received.set_value();
    });
    RawCaller caller(server.port());
    caller.send(kGet);
    received.get_future().wait();
  }
  EXPECT_TRUE(waiting[0].is_abandoned());
  waiting[0].send({});
}

TEST(HttpServer, APortInUseIsSaid) {
  ServerThread server(echo);
  Loop loop;
  auto second = HttpServer::start(loop, {.port = server.port()}, echo);
  EXPECT_THAT(second.error().message, HasSubstr("Address already in use"));
  EXPECT_EQ(HttpServer::start(loop, {.host = "nonsense"}, echo).error().code, Code::invalid);
}

}  // namespace
}  // namespace lockstep::net
