// One connection of the HTTP server: reads a request, has it handled, writes the answer, again.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>

#include "net/detail/chunked.h"
#include "net/detail/request_head.h"
#include "net/http_server.h"

namespace lockstep {

class HttpSession;

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

  void close_acceptor();
  void cut_all();
  void left(HttpSession* session);
};

class HttpSession {
 public:
  HttpSession(std::shared_ptr<HttpServer::Core> core, boost::asio::ip::tcp::socket socket);
  ~HttpSession();

  boost::asio::awaitable<void> run();
  // Between requests: nothing is lost by closing.
  bool is_idle() const { return idle_; }
  // Closes now, whatever is under way.
  void cut();

 private:
  // What to do after a step of a request.
  enum class Next { proceed, refuse, close };

  boost::asio::awaitable<Next> read_head();
  boost::asio::awaitable<Next> read_body();
  boost::asio::awaitable<HttpResponse> handle(bool& gone);
  boost::asio::awaitable<bool> write(HttpResponse response, bool keep_alive);
  boost::asio::awaitable<void> linger();
  std::optional<Next> take_body(detail::ChunkedDecoder& decoder);
  Next examine_head(std::string_view bytes);
  Next refuse(int status, std::string message);
  void watch_for_end(const std::shared_ptr<Responder::Exchange>& exchange);

  // Shared with the server and its other connections.
  std::shared_ptr<HttpServer::Core> core_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  std::string peer_;
  bool idle_ = true;
  // Of the request under way.
  detail::RequestHead head_;
  std::size_t head_size_ = 0;
  HttpRequest request_;
  HttpResponse refusal_;
  std::weak_ptr<Responder::Exchange> exchange_;
};

}  // namespace lockstep
