// One connection of the HTTP server: reads a request, has it handled, writes the answer, again.
#pragma once

#include <chrono>
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
#include "net/detail/chunked.h"
#include "net/detail/request_head.h"
#include "net/detail/watchdog.h"
#include "net/http_server.h"

namespace lockstep {

class HttpSession;

// Status line and headers of an answer, as they are sent.
std::string head_of(const HttpResponse& response, bool keep_alive);

// One request under way. The session waits on `wake`; null when it no longer waits.
struct Responder::Exchange {
  std::optional<HttpResponse> response;
  boost::asio::steady_timer* wake = nullptr;

  // The caller is no longer there.
  void hang_up() {
    if (wake != nullptr) std::exchange(wake, nullptr)->cancel();
  }
};

struct HttpServer::Core {
  ServerOptions options;
  HttpHandler handler;
  HttpGate gate;
  Loop* loop;
  int port = 0;
  bool stopping = false;  // no new connections, no further request on old ones
  bool closed = false;    // the server is gone: handler and gate must not be called
  boost::asio::ip::tcp::acceptor* acceptor = nullptr;  // owned by its coroutine
  std::set<HttpSession*> sessions;                     // owned by theirs
  std::function<void()> stopped;
  Timer grace;
  Deadline quiet = Deadline::after({});  // until then a failure to accept is not logged again

  void close_acceptor();
  void cut_all();
  // Makes room for a connection by closing the one that has waited longest for a request; false if
  // all are busy.
  bool evict();
  HttpResponse refusal(int status, const std::string& message) const;
  void left(HttpSession* session);
};

class HttpSession {
 public:
  HttpSession(std::shared_ptr<HttpServer::Core> core, boost::asio::ip::tcp::socket socket);
  ~HttpSession();

  boost::asio::awaitable<void> run();
  // Between requests: nothing is lost by closing.
  bool is_idle() const { return idle_; }
  // Since when it waits for the end of a request's head; nothing if it does not.
  std::optional<std::chrono::steady_clock::time_point> waits_since() const { return waits_since_; }
  // Closes now, whatever is under way.
  void cut();

 private:
  // What to do after a step of a request.
  enum class Next {
    proceed,
    decline,  // answer with the refusal and go on with the next request
    refuse,   // answer with the refusal and close: what follows of the request is not read
    close,
  };

  boost::asio::awaitable<Next> read_head();
  boost::asio::awaitable<Next> read_body();
  boost::asio::awaitable<HttpResponse> handle(bool& gone);
  boost::asio::awaitable<bool> write(HttpResponse response, bool keep_alive);
  boost::asio::awaitable<void> linger();
  // More of the request into the buffer; false when the connection or its time is over.
  boost::asio::awaitable<bool> read_some();
  std::optional<Next> take_body(detail::ChunkedDecoder& decoder);
  Next examine_head(std::string_view bytes);
  Next pass_gate();
  Next refuse(int status, const std::string& message);
  // Why reading ended before its end: told to a caller who is still there.
  Next too_slow(std::string_view what);
  bool is_known_host(const std::string& host) const;
  void watch_for_end(const std::shared_ptr<Responder::Exchange>& exchange);

  // Shared with the server and its other connections.
  std::shared_ptr<HttpServer::Core> core_;
  boost::asio::ip::tcp::socket socket_;
  detail::Watchdog watchdog_{socket_};
  boost::beast::flat_buffer buffer_;
  std::string peer_;
  bool idle_ = true;
  std::optional<std::chrono::steady_clock::time_point> waits_since_;
  // Of the request under way.
  detail::RequestHead head_;
  std::size_t head_size_ = 0;
  HttpRequest request_;
  HttpResponse refusal_;
  std::weak_ptr<Responder::Exchange> exchange_;
};

}  // namespace lockstep
