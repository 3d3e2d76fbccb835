// HttpServer: HTTP/1.1 on a Loop, with a limit on everything a caller can make us hold or wait for.
//
// A refused request is answered (400, 408, 413, 414, 431 ...) and its connection closed. If there
// are too many connections, the server closes the one that has waited longest for a request.
// Requests whose Host is neither the address that was called nor a known name are refused: a web
// page that resolves its own name to this address (DNS rebinding) gets no answer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "net/http/http.h"
#include "net/http/http_stream.h"
#include "net/http/upgrade.h"
#include "net/loop.h"
#include "net/tls/tls.h"

namespace lockstep::net {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address of this machine
  int port = 0;                    // 0: any free one
  // Names, and addresses of a proxy, by which callers may reach us, besides "localhost" and the
  // address that they connected to.
  std::vector<std::string> host_names{};
  // HTTPS instead of HTTP. A caller that does not speak TLS gets 400.
  std::optional<TlsIdentity> tls{};
  Bytes body_max = 1_MiB;
  // A new connection above the limit closes an idle one, and gets 503 if all are busy. The limit is
  // lowered so that at least 64 of the process's descriptors remain for all else.
  int connections_max = 1024;
  // From the first byte to the empty line; also of the handshake of TLS.
  Duration head_time = std::chrono::seconds(10);
  Duration body_time = std::chrono::seconds(30);
  Duration handler_time = std::chrono::minutes(2);  // then the caller gets 503
  Duration write_time = std::chrono::seconds(30);
  Duration idle_time = std::chrono::seconds(60);  // between requests on one connection
  // Formats refusals of HTTP itself; plain text if there is none.
  std::function<HttpResponse(int status, const std::string& message)> refusal{};
  // Called with the head of each request; the result is called with the status of the answer.
  std::function<std::function<void(int status)>(const HttpRequest&)> observe{};
  // True for requests that the next function answers, instead of the handler. Their bodies may be
  // larger than `body_max`.
  std::function<bool(const HttpRequest&)> is_streamed{};
  // Called with the head, after the filter; an answer refuses the request.
  std::function<std::variant<std::unique_ptr<HttpStream>, HttpResponse>(const HttpRequest&)>
      open_stream{};
};

// Answers one request: now or later, on the loop's thread. The first answer counts; the caller of a
// request whose Responder is destroyed without an answer gets 500. May outlive the connection and
// the server: answers are then dropped.
class Responder {
 public:
  struct Exchange;
  explicit Responder(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  Responder(Responder&&) noexcept = default;
  Responder& operator=(Responder&&) noexcept;
  ~Responder() { abandon(); }

  using UseConnection = std::function<void(UpgradedConnection)>;

  void send(HttpResponse response);
  // True if the caller asks to speak this protocol instead of HTTP.
  bool can_upgrade(std::string_view protocol) const;
  // Answers 101, and passes the connection to `use` once that is sent. A caller that has gone
  // meanwhile gets no such call. Requires can_upgrade().
  void upgrade(std::string_view protocol, UseConnection use);
  // True if the caller takes server-sent events: `Accept: text/event-stream`, by GET.
  bool takes_events() const;
  // Answers 200 with a body of events that has no length, and passes the connection to `use`, as
  // upgrade() does. net/stream/event_writer.h writes them.
  void send_events(UseConnection use);
  // The caller disconnected, or got 503 in the meantime: the answer would be dropped.
  bool is_abandoned() const;

 private:
  void abandon();
  // Shared with the connection; either may be destroyed first.
  std::shared_ptr<Exchange> exchange_;
};

// Called on the loop's thread; must not block. An exception becomes 500.
using HttpHandler = std::function<void(HttpRequest, Responder)>;
// Receives a request before its body is read; an answer refuses it, so that only callers with
// permission to send bodies make the server hold them. The connection stays open if no body comes.
using HttpFilter = std::function<std::optional<HttpResponse>(const HttpRequest&)>;

class HttpServer {
 public:
  // Listens at once. The loop must outlive the server.
  static Result<HttpServer> start(Loop& loop, const HttpServerOptions& options, HttpHandler handler,
                                  HttpFilter gate = {});
  HttpServer(HttpServer&&) noexcept = default;
  HttpServer& operator=(HttpServer&&) = delete;
  // Closes all connections.
  ~HttpServer();

  int port() const;
  std::string url() const;  // http://127.0.0.1:41234; https: with TLS
  // Those of streams too.
  int connections() const;

  // For connections that are accepted from now on, over TLS as before. Code::invalid if it cannot
  // be used: the last one stays.
  Result<void> set_identity(const TlsIdentity& identity);

  // Stops listening, closes upgraded connections, lets running requests finish for `grace`, closes
  // the rest, then calls.
  void stop(Duration grace, std::function<void()> stopped);

  struct Core;

 private:
  explicit HttpServer(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  // Shared with the connections' coroutines, which end after they receive the stop request.
  std::shared_ptr<Core> core_;
};

}  // namespace lockstep::net
