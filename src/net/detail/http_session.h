// One connection of the HTTP server: reads a request, has it handled, writes the answer, again.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include "base/clock.h"
#include "net/detail/request_parser.h"
#include "net/detail/server_stream.h"
#include "net/detail/tls_context.h"
#include "net/detail/upgraded_impl.h"
#include "net/detail/watchdog.h"
#include "net/http/http_server.h"

namespace lockstep::net {

class HttpSession;
class UpgradedCaller;

// Status line and headers of an answer, as they are sent.
// `size` is that of a body that is not in `response`.
std::string head_of(const HttpResponse& response, bool keep_alive,
                    std::optional<std::int64_t> size = {});

// One request in progress. The session waits on `wake`; null when it no longer waits.
struct Responder::Exchange {
  std::optional<HttpResponse> response{};
  std::string upgrade_to{};  // the protocol that the caller asks for; empty: none
  bool takes_events = false;
  UseConnection use{};  // set: gets the connection after the head of the answer
  boost::asio::steady_timer* wake = nullptr;

  // The caller has disconnected.
  void disconnect() {
    if (wake != nullptr) std::exchange(wake, nullptr)->cancel();
  }
};

struct HttpServer::Core {
  HttpServerOptions options;
  HttpHandler handler;
  HttpFilter filter;
  Loop* loop;
  detail::TlsContext tls;  // of new connections; null: plain HTTP
  int port = 0;
  bool stopping = false;  // no new connections, no further request on old ones
  bool closed = false;    // the server is gone: handler and gate must not be called
  boost::asio::ip::tcp::acceptor* acceptor = nullptr;  // owned by its coroutine
  std::set<HttpSession*> sessions;                     // owned by theirs
  std::set<UpgradedCaller*> upgraded;                  // owned by their users
  std::function<void()> stopped;
  Timer grace;
  Deadline next_error_log =
      Deadline::after({});  // until then a failure to accept is not logged again

  void close_acceptor();
  void close_all();
  void close_upgraded();
  int connections() const { return static_cast<int>(sessions.size() + upgraded.size()); }
  // Closes the connection that has waited longest for a request, to make room for a new one; false
  // if all are busy.
  bool close_idlest();
  HttpResponse refusal(int status, const std::string& message) const;
  void remove_session(HttpSession* session);
};

// A caller's connection that no longer speaks HTTP. The server closes it when it stops.
class UpgradedCaller : public UpgradedConnection::Impl {
 public:
  UpgradedCaller(const std::shared_ptr<HttpServer::Core>& core,
                 std::unique_ptr<detail::ServerStream> stream, std::string early);
  ~UpgradedCaller() override;

  boost::asio::awaitable<std::pair<boost::system::error_code, std::size_t>> read_some(
      boost::asio::mutable_buffer buffer) override;
  boost::asio::awaitable<boost::system::error_code> write(boost::asio::const_buffer bytes) override;
  void close() override;
  boost::asio::io_context& context() override;

 private:
  const std::weak_ptr<HttpServer::Core> core_;  // the server may be gone first
  const std::unique_ptr<detail::ServerStream> stream_;
  std::string early_;  // bytes that came with the request
};

class HttpSession {
 public:
  HttpSession(std::shared_ptr<HttpServer::Core> core, boost::asio::ip::tcp::socket socket);
  ~HttpSession();

  boost::asio::awaitable<void> run();
  // Between requests: closing loses nothing.
  bool is_idle() const { return idle_; }
  // When it began to wait for the end of a request's head; nothing if it does not.
  std::optional<std::chrono::steady_clock::time_point> waits_since() const { return waits_since_; }
  // Closes at once, in any state.
  void close_now();

 private:
  // The next action after a step of a request.
  enum class Next {
    proceed,
    decline,  // answer with the refusal and go on with the next request
    refuse,   // answer with the refusal and close: the rest of the request is not read
    close,
  };

  // Accepts TLS. Code 400 for a caller that speaks plain HTTP.
  boost::asio::awaitable<Next> open_tls();
  boost::asio::awaitable<void> serve_requests();
  boost::asio::awaitable<Next> read_head();
  boost::asio::awaitable<Next> read_body();
  boost::asio::awaitable<HttpResponse> handle(bool& gone);
  // Passes what was parsed of the body to the stream. False: the stream failed.
  bool pass_body();
  boost::asio::awaitable<bool> write_stream();
  boost::asio::awaitable<bool> write(HttpResponse response, bool keep_alive);
  boost::asio::awaitable<void> linger();
  // Answers 101 and gives the connection away.
  boost::asio::awaitable<void> hand_over(const HttpResponse& response);
  // Reads more of the request into the buffer; false if the connection or its time is over.
  boost::asio::awaitable<bool> read_some();
  Next examine_head();
  Next apply_filter();
  Next open_stream();
  // Tells the observer of the current request, once.
  void observe_answer(int status);
  Next refuse(int status, const std::string& message);
  // Sends the reason of a timeout while reading, if the caller is still connected.
  Next too_slow(std::string_view what);
  bool is_known_host(const std::string& host) const;
  void watch_for_end(const std::shared_ptr<Responder::Exchange>& exchange);

  // Shared with the server and its other connections.
  std::shared_ptr<HttpServer::Core> core_;
  std::unique_ptr<detail::ServerStream> stream_;  // null once it was given away
  detail::Watchdog watchdog_{stream_->socket()};
  boost::beast::flat_buffer buffer_;
  std::string peer_;
  bool is_local_ = false;
  bool idle_ = true;
  std::optional<std::chrono::steady_clock::time_point> waits_since_;
  // State of the current request.
  std::optional<detail::RequestParser> parser_;
  detail::RequestHead head_;
  HttpRequest request_;
  HttpResponse refusal_;
  std::unique_ptr<HttpStream> streamed_;  // instead of the handler
  std::function<void(int)> observer_;
  std::weak_ptr<Responder::Exchange> exchange_;
  Responder::UseConnection use_;  // of the current request, if it was upgraded
};

}  // namespace lockstep::net
