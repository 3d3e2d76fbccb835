#include "net/http/http_server.h"

#include <algorithm>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <sys/resource.h>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "net/detail/http_session.h"
#include "net/detail/loop_impl.h"
#include "net/detail/tls_context.h"
#include "net/http/url.h"

namespace lockstep::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// --- Responder ---

Responder& Responder::operator=(Responder&& other) noexcept {
  if (this != &other) {
    abandon();
    exchange_ = std::move(other.exchange_);
  }
  return *this;
}

void Responder::send(HttpResponse response) {
  auto exchange = std::move(exchange_);
  if (!exchange || exchange->response) return;
  exchange->response = std::move(response);
  if (exchange->wake != nullptr) exchange->wake->cancel();
}

bool Responder::can_upgrade(std::string_view protocol) const {
  return exchange_ && equal_ignoring_case(exchange_->upgrade_to, protocol);
}

void Responder::upgrade(std::string_view protocol, UseConnection use) {
  LS_CHECK(can_upgrade(protocol), "the caller does not ask for {}", protocol);
  if (!exchange_->response) exchange_->use = std::move(use);
  send({.status = 101, .headers = upgrade_headers(protocol)});
}

bool Responder::takes_events() const { return exchange_ && exchange_->takes_events; }

void Responder::send_events(UseConnection use) {
  if (exchange_ && !exchange_->response) exchange_->use = std::move(use);
  send({.content_type = "text/event-stream", .headers = {{"Cache-Control", "no-store"}}});
}

bool Responder::is_abandoned() const { return !exchange_ || exchange_->wake == nullptr; }

void Responder::abandon() {
  if (exchange_ && !exchange_->response && exchange_->wake != nullptr)
    send({.status = 500, .body = "internal error\n"});
}

// --- Core: what connections share ---

void HttpServer::Core::close_acceptor() {
  error_code ignored;
  if (acceptor != nullptr) acceptor->close(ignored);
}

void HttpServer::Core::close_all() {
  for (HttpSession* session : sessions) session->close_now();
  close_upgraded();
}

void HttpServer::Core::close_upgraded() {
  for (UpgradedCaller* caller : upgraded) caller->close();
}

bool HttpServer::Core::close_idlest() {
  HttpSession* oldest = nullptr;
  for (HttpSession* session : sessions)
    if (session->waits_since() && (!oldest || *session->waits_since() < *oldest->waits_since()))
      oldest = session;
  if (oldest != nullptr) oldest->close_now();
  return oldest != nullptr;
}

HttpResponse HttpServer::Core::refusal(int status, const std::string& message) const {
  if (options.refusal) return options.refusal(status, message);
  return {.status = status, .body = message + "\n"};
}

void HttpServer::Core::remove_session(HttpSession* session) {
  sessions.erase(session);
  if (!sessions.empty() || !stopped) return;
  grace.cancel();
  loop->post(std::exchange(stopped, nullptr));
}

// --- Listening ---

namespace {

constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr auto kErrorLogInterval = std::chrono::seconds(10);
constexpr int kOtherDescriptors = 64;

using CorePtr = std::shared_ptr<HttpServer::Core>;

asio::awaitable<void> serve(CorePtr core, tcp::socket socket) {
  if (core->stopping) co_return;
  HttpSession session(std::move(core), std::move(socket));
  co_await session.run();
}

// One write into the empty send buffer of a new connection: does not block. Over TLS there is no
// time for a handshake, so that the caller just finds the connection closed.
void reject_connection(const HttpServer::Core& core, tcp::socket& socket) {
  if (core.tls) return;
  const HttpResponse answer = core.refusal(503, "too many connections; try again later");
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(head_of(answer, false) + answer.body), ignored);
}

// Probably out of descriptors: closes an idle connection, else waits until one is freed.
asio::awaitable<void> handle_accept_error(HttpServer::Core& core, error_code error,
                                          asio::steady_timer& pause) {
  if (Deadline& quiet = core.next_error_log; quiet.passed()) {
    LS_LOG(warning, "accepting a connection: {}", error.message());
    quiet = Deadline::after(kErrorLogInterval);
  }
  if (core.close_idlest()) co_return;
  pause.expires_after(kAcceptPause);
  co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
}

asio::awaitable<void> accept_all(CorePtr core, tcp::acceptor acceptor) {
  core->acceptor = &acceptor;
  struct Unhook {
    HttpServer::Core& core;
    ~Unhook() { core.acceptor = nullptr; }
  } unhook{*core};
  const auto executor = acceptor.get_executor();
  const int most = core->options.connections_max;
  asio::steady_timer pause(executor);
  while (!core->stopping) {
    auto [error, socket] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
    if (core->stopping) break;
    if (error)
      co_await handle_accept_error(*core, error, pause);
    else if (core->connections() >= most && !core->close_idlest())
      reject_connection(*core, socket);
    else
      asio::co_spawn(executor, serve(core, std::move(socket)), asio::detached);
  }
}

// The number requested, bounded by the limit of open files.
int connections_possible(int wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  const auto room = static_cast<std::int64_t>(limit.rlim_cur) - kOtherDescriptors;
  return static_cast<int>(std::clamp<std::int64_t>(room, 1, wanted));
}

Result<tcp::acceptor> listen(asio::io_context& context, const HttpServerOptions& options) {
  const std::string where = format("listening on {}, port {}", options.host, options.port);
  error_code error;
  const auto address = asio::ip::make_address(options.host, error);
  if (error) return Error{Code::invalid, where + ": not an address; give one such as 127.0.0.1"};
  const tcp::endpoint endpoint(address, static_cast<unsigned short>(options.port));
  tcp::acceptor acceptor(context);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return os_error(where, error.value());
  return acceptor;
}

}  // namespace

Result<HttpServer> HttpServer::start(Loop& loop, const HttpServerOptions& options,
                                     HttpHandler handler, HttpFilter gate) {
  auto& context = loop.impl().context;
  tcp::acceptor acceptor = TRY(listen(context, options));
  auto core = std::make_shared<Core>();
  if (options.tls) core->tls = TRY(detail::server_tls_context(*options.tls));
  core->options = options;
  core->options.connections_max = connections_possible(options.connections_max);
  core->handler = std::move(handler);
  core->filter = std::move(gate);
  core->loop = &loop;
  core->port = acceptor.local_endpoint().port();
  asio::co_spawn(context, accept_all(core, std::move(acceptor)), asio::detached);
  return HttpServer(std::move(core));
}

HttpServer::~HttpServer() {
  if (!core_) return;
  core_->stopping = true;
  core_->closed = true;
  core_->stopped = nullptr;
  core_->close_acceptor();
  core_->close_all();
}

int HttpServer::port() const { return core_->port; }

std::string HttpServer::url() const {
  return Url{.host = core_->options.host,
             .port = core_->port,
             .scheme = core_->tls ? Scheme::https : Scheme::http}
      .text();
}

Result<void> HttpServer::set_identity(const TlsIdentity& identity) {
  LS_CHECK(core_->tls != nullptr, "a server of plain HTTP");
  core_->tls = TRY(detail::server_tls_context(identity));
  return {};
}

int HttpServer::connections() const { return core_->connections(); }

void HttpServer::stop(Duration grace, std::function<void()> stopped) {
  core_->stopping = true;
  core_->close_acceptor();
  core_->close_upgraded();
  if (core_->sessions.empty()) return core_->loop->post(std::move(stopped));
  core_->stopped = std::move(stopped);
  for (HttpSession* session : core_->sessions)
    if (session->is_idle()) session->close_now();
  core_->grace = core_->loop->after(grace, [core = core_.get()] { core->close_all(); });
}

}  // namespace lockstep::net
