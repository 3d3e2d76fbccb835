#include "net/detail/http_session.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <boost/asio/ip/address.hpp>

#include "base/format.h"
#include "base/log.h"
#include "net/detail/await.h"
#include "net/http/url.h"

namespace lockstep::net {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;

namespace {

// How many bytes of a refused request are read and discarded, so that its sender gets the answer
// rather than a reset, and for how long.
constexpr std::size_t kLingerBytes = 256 << 10;
constexpr auto kLingerTime = std::chrono::seconds(2);
constexpr std::size_t kReadBytes = 16 << 10;
// No head announces more: each stream has a lower limit of its own.
constexpr Bytes kStreamMax = 1024_GiB;

std::string_view view(const beast::flat_buffer& buffer) {
  return {static_cast<const char*>(buffer.data().data()), buffer.size()};
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char line[64];
  const std::size_t size = std::strftime(line, sizeof line, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return std::string(line, size);
}

// A bug in a handler must not let a caller's bytes become headers.
bool is_sendable(const HttpResponse& response) {
  for (const auto& [name, value] : response.headers)
    if (!is_token(name) || !is_field_value(value)) return false;
  return is_field_value(response.content_type);
}

// "127.0.0.1" also if a dual-stack socket reports "::ffff:127.0.0.1".
asio::ip::address plain_address(const asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
}

std::string status_and_date(const HttpResponse& response) {
  return format("HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status, status_text(response.status),
                http_date());
}

// A body without a length ends with the connection.
std::string head_without_length(const HttpResponse& response) {
  std::string head =
      status_and_date(response) + format("Content-Type: {}\r\n", response.content_type);
  for (const auto& [name, value] : response.headers) head += format("{}: {}\r\n", name, value);
  return head + "Connection: close\r\n\r\n";
}

bool takes_events(const HttpRequest& request) {
  return request.method == "GET" && request.headers.find("Accept").value_or("").find(
                                        "text/event-stream") != std::string_view::npos;
}

}  // namespace

std::string head_of(const HttpResponse& response, bool keep_alive,
                    std::optional<std::int64_t> size) {
  std::string head = status_and_date(response);
  if (response.status != 101 && response.status != 204 && response.status != 304)
    head += format("Content-Type: {}\r\nContent-Length: {}\r\n", response.content_type,
                   size.value_or(std::ssize(response.body)));
  for (const auto& [name, value] : response.headers) head += format("{}: {}\r\n", name, value);
  return head + (keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
}

HttpSession::HttpSession(std::shared_ptr<HttpServer::Core> core, asio::ip::tcp::socket socket)
    : core_(std::move(core)), stream_(std::make_unique<detail::ServerStream>(std::move(socket))) {
  error_code ignored;
  auto& plain = stream_->socket();
  const auto peer = plain_address(plain.remote_endpoint(ignored).address());
  peer_ = peer.to_string(ignored);
  is_local_ = peer.is_loopback() || peer == plain_address(plain.local_endpoint(ignored).address());
  plain.set_option(asio::ip::tcp::no_delay(true), ignored);
  core_->sessions.insert(this);
}

HttpSession::~HttpSession() { core_->remove_session(this); }

void HttpSession::close_now() {
  error_code ignored;
  stream_->socket().close(ignored);
  waits_since_.reset();
  if (auto waiting = exchange_.lock()) waiting->disconnect();
}

// An attacker's page can make names resolve to this address (DNS rebinding), but not change the
// address that the caller connected to.
bool HttpSession::is_known_host(const std::string& host) const {
  const HttpServerOptions& options = core_->options;
  if (host.empty() || equal_ignoring_case(host, "localhost") || host == options.host) return true;
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (!error &&
      plain_address(address) == plain_address(stream_->socket().local_endpoint(error).address()))
    return true;
  return std::ranges::any_of(
      options.host_names, [&](const std::string& name) { return equal_ignoring_case(host, name); });
}

asio::awaitable<void> HttpSession::run() {
  const Next next = core_->tls ? co_await open_tls() : Next::proceed;
  if (core_->closed) co_return;
  if (next == Next::proceed) co_return co_await serve_requests();
  if (next != Next::refuse) co_return;
  (void)co_await write(std::move(refusal_), false);
  co_await linger();
}

// A caller that sends nothing costs no more than on a plain connection: what TLS needs is made when
// its first bytes have come.
asio::awaitable<HttpSession::Next> HttpSession::open_tls() {
  using detail::Watchdog;
  waits_since_ = std::chrono::steady_clock::now();
  watchdog_.start(core_->options.idle_time, Watchdog::OnExpiry::cancel);
  const bool begins = co_await stream_->begins_tls();
  if (watchdog_.expired() || stream_->has_ended()) co_return Next::close;
  idle_ = false;
  if (!begins)
    co_return refuse(400, "this port speaks HTTPS: call it by https:// instead of http://");
  watchdog_.start(core_->options.head_time, Watchdog::OnExpiry::close);
  const error_code error = co_await stream_->handshake(core_->tls);
  watchdog_.stop();
  co_return error ? Next::close : Next::proceed;
}

asio::awaitable<void> HttpSession::serve_requests() {
  for (bool again = true; again;) {
    Next next = co_await read_head();
    if (next == Next::proceed && head_.has_body) next = co_await read_body();
    if (next == Next::close || core_->closed) co_return;
    if (next == Next::refuse) {
      (void)co_await write(std::move(refusal_), false);
      co_await linger();
      co_return;
    }
    bool gone = false;
    HttpResponse response = std::move(refusal_);
    if (next == Next::proceed && streamed_) {
      again = co_await write_stream();
      continue;
    }
    if (next == Next::proceed) response = co_await handle(gone);
    if (gone) co_return;
    if (use_) co_return co_await hand_over(response);
    again = co_await write(std::move(response), head_.keep_alive && !core_->stopping);
  }
  waits_since_ = std::chrono::steady_clock::now();  // gives way to a new connection
  watchdog_.start(kLingerTime, detail::Watchdog::OnExpiry::close);
  co_await stream_->end_tls();
  error_code ignored;
  stream_->socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
}

HttpSession::Next HttpSession::refuse(int status, const std::string& message) {
  refusal_ = core_->refusal(status, message);
  return Next::refuse;
}

HttpSession::Next HttpSession::too_slow(std::string_view what) {
  if (!watchdog_.expired()) return Next::close;  // it hung up
  return refuse(408, format("{} did not come in time", what));
}

asio::awaitable<bool> HttpSession::read_some() {
  if (watchdog_.expired()) co_return false;
  const auto [error, size] = co_await stream_->read_some(buffer_.prepare(kReadBytes));
  if (error) co_return false;
  buffer_.commit(size);
  co_return true;
}

asio::awaitable<HttpSession::Next> HttpSession::read_head() {
  using detail::Watchdog;
  const bool streams = core_->options.is_streamed != nullptr;
  parser_.emplace(
      detail::RequestLimits{.body_max = streams ? kStreamMax : core_->options.body_max});
  streamed_ = nullptr;
  head_ = {};
  request_ = {};
  observer_ = nullptr;
  idle_ = buffer_.size() == 0;
  waits_since_ = std::chrono::steady_clock::now();
  watchdog_.start(idle_ ? core_->options.idle_time : core_->options.head_time,
                  Watchdog::OnExpiry::cancel);
  for (;;) {
    if (auto failure = parser_->parse_head(view(buffer_), head_))
      co_return refuse(failure->status, failure->message);
    if (parser_->has_head()) co_return examine_head();
    if (!co_await read_some()) co_return idle_ ? Next::close : too_slow("the request's head");
    if (std::exchange(idle_, false))
      watchdog_.start(core_->options.head_time, Watchdog::OnExpiry::cancel);
  }
}

// All decisions that do not need the body.
HttpSession::Next HttpSession::examine_head() {
  waits_since_.reset();
  if (!is_known_host(head_.host))
    return refuse(400, "the Host header names another host; use this one's address or localhost");
  auto target = parse_request_target(head_.target);
  if (!target) return refuse(400, target.error().message);
  request_ = {.method = head_.method,
              .target = head_.target,
              .path = std::move(target->path),
              .query = std::move(target->query),
              .headers = head_.headers,
              .body = {},
              .has_body = head_.has_body,
              .peer = peer_,
              .is_local = is_local_};
  buffer_.consume(parser_->head_size());
  if (core_->closed) return Next::close;
  if (core_->options.observe) observer_ = core_->options.observe(request_);
  const bool streams = core_->options.is_streamed && core_->options.is_streamed(request_);
  if (!streams)
    if (auto failure = parser_->limit_body(core_->options.body_max))
      return refuse(failure->status, failure->message);
  const Next next = apply_filter();
  return streams && next == Next::proceed ? open_stream() : next;
}

HttpSession::Next HttpSession::open_stream() {
  try {
    auto opened = core_->options.open_stream(request_);
    if (auto* stream = std::get_if<std::unique_ptr<HttpStream>>(&opened)) {
      streamed_ = std::move(*stream);
      auto failure = parser_->limit_body(streamed_->body_max());
      return failure ? refuse(failure->status, failure->message) : Next::proceed;
    }
    refusal_ = std::get<HttpResponse>(std::move(opened));
    return head_.has_body ? Next::refuse : Next::decline;
  } catch (const std::exception& exception) {
    LS_LOG(error, "{} {}: opening it threw: {}", head_.method, head_.target, exception.what());
    return refuse(500, "internal error");
  }
}

bool HttpSession::pass_body() {
  const std::string part = parser_->take_body();
  return part.empty() || streamed_->take(part).has_value();
}

asio::awaitable<bool> HttpSession::write_stream() {
  HttpResponse response = streamed_->answer();
  const auto size = streamed_->size();
  const bool keep_alive = head_.keep_alive && !core_->stopping;
  if (!size) co_return co_await write(std::move(response), keep_alive);
  observe_answer(response.status);
  error_code error = co_await stream_->write(head_of(response, keep_alive, size), {});
  std::int64_t left = head_.method == "HEAD" ? 0 : *size;
  while (!error && left > 0) {
    if (core_->closed) co_return false;
    const auto part = streamed_->next();
    if (!part || part->empty() || std::ssize(*part) > left) co_return false;
    left -= std::ssize(*part);
    watchdog_.start(core_->options.write_time, detail::Watchdog::OnExpiry::close);
    error = co_await stream_->write(*part, {});
  }
  watchdog_.stop();
  co_return !error && keep_alive;
}

void HttpSession::observe_answer(int status) {
  const auto observer = std::exchange(observer_, nullptr);
  if (observer && !core_->closed) observer(status);
}

HttpSession::Next HttpSession::apply_filter() {
  if (!core_->filter || core_->closed) return Next::proceed;
  try {
    auto answer = core_->filter(request_);
    if (!answer) return Next::proceed;
    refusal_ = *std::move(answer);
    return head_.has_body ? Next::refuse : Next::decline;
  } catch (const std::exception& exception) {
    LS_LOG(error, "{} {}: the gate threw: {}", head_.method, head_.target, exception.what());
    return refuse(500, "internal error");
  }
}

asio::awaitable<HttpSession::Next> HttpSession::read_body() {
  watchdog_.start(core_->options.body_time, detail::Watchdog::OnExpiry::cancel);
  if (head_.expects_continue) {
    const error_code error = co_await stream_->write("HTTP/1.1 100 Continue\r\n\r\n", {});
    if (error) co_return Next::close;
  }
  while (!parser_->is_done()) {
    const std::string_view received = view(buffer_);
    std::string_view rest = received;
    if (auto failure = parser_->parse_body(rest))
      co_return refuse(failure->status, failure->message);
    buffer_.consume(received.size() - rest.size());
    if (streamed_) {
      if (core_->closed) co_return Next::close;
      if (!pass_body()) {
        refusal_ = streamed_->answer();
        co_return Next::refuse;
      }
      // The bound is on the time of each part.
      watchdog_.start(core_->options.body_time, detail::Watchdog::OnExpiry::cancel);
    }
    if (!parser_->is_done() && !co_await read_some()) co_return too_slow("the request's body");
  }
  if (!streamed_) request_.body = parser_->take_body();
  co_return Next::proceed;
}

asio::awaitable<HttpResponse> HttpSession::handle(bool& gone) {
  watchdog_.stop();
  auto exchange = std::make_shared<Responder::Exchange>();
  exchange->upgrade_to = requested_upgrade(request_);
  exchange->takes_events = takes_events(request_);
  asio::steady_timer wake(stream_->socket().get_executor(), core_->options.handler_time);
  exchange->wake = &wake;
  exchange_ = exchange;
  // Also if the loop ends and destroys this coroutine while it waits.
  struct Unhook {
    Responder::Exchange& exchange;
    ~Unhook() { exchange.wake = nullptr; }
  } unhook{*exchange};
  const std::string what = format("{} {}", request_.method, request_.target);
  try {
    core_->handler(std::move(request_), Responder(exchange));
  } catch (const std::exception& exception) {
    LS_LOG(error, "{}: the handler threw: {}", what, exception.what());
    exchange->response = core_->refusal(500, "internal error");
  }
  if (!exchange->response) {
    watch_for_end(exchange);
    co_await wake.async_wait(kAwait);
    error_code ignored;
    stream_->socket().cancel(ignored);
    gone = exchange->wake == nullptr;
  }
  if (!exchange->response) co_return core_->refusal(503, "no answer in time; try again");
  if (!is_sendable(*exchange->response)) {
    LS_LOG(error, "{}: the answer has a header that cannot be sent", what);
    co_return core_->refusal(500, "internal error");
  }
  use_ = std::move(exchange->use);
  co_return *std::move(exchange->response);
}

// The session ends with it.
asio::awaitable<void> HttpSession::hand_over(const HttpResponse& response) {
  observe_answer(response.status);
  watchdog_.start(core_->options.write_time, detail::Watchdog::OnExpiry::close);
  const std::string head =
      response.status == 101 ? head_of(response, true) : head_without_length(response);
  const error_code error = co_await stream_->write(head, {});
  watchdog_.stop();
  if (error || core_->closed || core_->stopping) co_return;
  detail::set_keepalive(stream_->socket().native_handle());
  auto caller =
      std::make_unique<UpgradedCaller>(core_, std::move(stream_), std::string(view(buffer_)));
  try {
    use_(UpgradedConnection(std::move(caller)));
  } catch (const std::exception& exception) {
    LS_LOG(error, "using an upgraded connection: {}", exception.what());
  }
}

// While a handler runs: detects that the caller hangs up, so that no resources are kept for it. A
// caller that only shut down its sending side counts as gone. Bytes of a next request end the
// watch.
void HttpSession::watch_for_end(const std::shared_ptr<Responder::Exchange>& exchange) {
  stream_->socket().async_wait(
      asio::ip::tcp::socket::wait_read,
      [&stream = *stream_, weak = std::weak_ptr(exchange)](error_code error) {
        auto waiting = weak.lock();
        if (error || !waiting || waiting->wake == nullptr) return;
        // While the session waits, its stream exists.
        if (stream.has_ended()) waiting->disconnect();
      });
}

asio::awaitable<bool> HttpSession::write(HttpResponse response, bool keep_alive) {
  observe_answer(response.status);
  if (response.status == 204 || response.status == 304) response.body.clear();
  const std::string head = head_of(response, keep_alive);
  const std::string_view body = head_.method == "HEAD" ? std::string_view() : response.body;
  watchdog_.start(core_->options.write_time, detail::Watchdog::OnExpiry::close);
  const error_code error = co_await stream_->write(head, body);
  co_return !error && keep_alive;
}

asio::awaitable<void> HttpSession::linger() {
  auto& socket = stream_->socket();
  watchdog_.start(kLingerTime, detail::Watchdog::OnExpiry::close);
  co_await stream_->end_tls();
  error_code ignored;
  socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  for (std::size_t read = 0; read < kLingerBytes;) {
    buffer_.clear();
    auto [error, size] = co_await socket.async_read_some(buffer_.prepare(kReadBytes), kAwait);
    if (error) co_return;
    read += size;
  }
}

// --- UpgradedCaller ---

UpgradedCaller::UpgradedCaller(const std::shared_ptr<HttpServer::Core>& core,
                               std::unique_ptr<detail::ServerStream> stream, std::string early)
    : core_(core), stream_(std::move(stream)), early_(std::move(early)) {
  core->upgraded.insert(this);
}

UpgradedCaller::~UpgradedCaller() {
  if (const auto core = core_.lock()) core->upgraded.erase(this);
}

asio::awaitable<std::pair<error_code, std::size_t>> UpgradedCaller::read_some(
    asio::mutable_buffer buffer) {
  if (!early_.empty()) co_return std::pair(error_code(), detail::take_early(early_, buffer));
  co_return co_await stream_->read_some(buffer);
}

asio::awaitable<error_code> UpgradedCaller::write(asio::const_buffer bytes) {
  co_return co_await stream_->write(bytes);
}

void UpgradedCaller::close() {
  error_code ignored;
  stream_->socket().close(ignored);
}

asio::io_context& UpgradedCaller::context() {
  return static_cast<asio::io_context&>(stream_->socket().get_executor().context());
}

}  // namespace lockstep::net
