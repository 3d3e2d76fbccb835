#include "net/http/http_client.h"

#include <chrono>
#include <optional>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <openssl/err.h>
#include <openssl/sslerr.h>

#include "base/check.h"
#include "base/format.h"
#include "net/detail/client_stream.h"
#include "net/detail/upgraded_impl.h"

namespace lockstep::net {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;

namespace {

constexpr auto kWaitingEvery = std::chrono::milliseconds(200);

Result<void> check_call(const HttpCall& call) {
  if (!is_token(call.method))
    return Error{Code::invalid, format("'{}' is not an HTTP method", call.method)};
  if (!call.target.starts_with('/') || !is_field_value(call.target) ||
      call.target.find_first_of(" \t") != std::string::npos)
    return Error{Code::invalid, format("'{}' is not an encoded path", call.target)};
  for (const auto& [name, value] : call.headers)
    if (!is_token(name) || !is_field_value(value))
      return Error{Code::invalid, format("the header '{}' cannot be sent", name)};
  return {};
}

bool is_repeatable(const HttpCall& call) {
  return call.repeatable || call.method == "GET" || call.method == "HEAD" || call.method == "PUT" ||
         call.method == "DELETE";
}

std::string head_of(const HttpCall& call, std::size_t body_size, const Url& server) {
  std::string head =
      format("{} {} HTTP/1.1\r\nHost: {}\r\n", call.method, call.target, server.host_field());
  if (body_size > 0 || call.method == "POST" || call.method == "PUT")
    head += format("Content-Length: {}\r\n", body_size);
  for (const auto& [name, value] : call.headers) head += format("{}: {}\r\n", name, value);
  return head + "\r\n";
}

// The system's words for an error, or better ones.
std::string reason_of(error_code error) {
  if (error.category() != asio::error::get_ssl_category()) return error.message();
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST)
    return "the server does not speak TLS; call it by http:// if it is yours";
  return format("the handshake of TLS failed: {}", error.message());
}

}  // namespace

struct HttpClient::Impl {
  // One attempt of a call. `no_byte`: it failed before any byte of an answer came.
  struct CallOutcome {
    Result<HttpResponse> answer = Error{Code::internal, "the call did not end"};
    bool failed_before_answer = false;
  };

  Impl(Url server_arg, Bytes answer_max_arg, std::optional<ConnectionHandshake> greeting_arg,
       TlsTrust trust)
      : server(std::move(server_arg)),
        answer_max(answer_max_arg),
        connection_handshake(std::move(greeting_arg)),
        stream(context, server, std::move(trust)) {}

  Url server;
  Bytes answer_max;
  std::optional<ConnectionHandshake> connection_handshake;
  asio::io_context context{1};
  detail::ClientStream stream;  // kept between calls
  bool sent = false;
  bool upgraded = false;  // the last call was answered 101
  std::string early;      // bytes that came with that answer
  std::function<void(Duration)> on_waiting;

  Result<HttpResponse> call(const HttpCall& call, const Deadline& deadline);
  CallOutcome try_once(const HttpCall& call, const Deadline& deadline);
  void run_context();
  asio::awaitable<CallOutcome> exchange(const HttpCall& call, const Deadline& deadline);
  asio::awaitable<CallOutcome> handshake();
  asio::awaitable<CallOutcome> send(const HttpCall& call);
  asio::awaitable<CallOutcome> read_answer(const HttpCall& call);
  CallOutcome fail(std::string_view act, error_code error, bool no_byte);
};

HttpClient::Impl::CallOutcome HttpClient::Impl::fail(std::string_view act, error_code error,
                                                     bool no_byte) {
  stream.close();
  const std::string what = format("{} {}", act, server.text());
  if (!stream.refusal().empty())
    return {Error{Code::unavailable, format("{}: {}", what, stream.refusal())}};
  if (error == beast::error::timeout) return {Error{Code::timeout, what + ": no answer in time"}};
  if (error == beast::http::error::body_limit || error == beast::http::error::header_limit)
    return {Error{Code::exhausted, what + ": the answer is larger than we take"}};
  if (error == beast::http::error::end_of_stream || error == beast::http::error::partial_message ||
      error == asio::error::eof)
    return {Error{Code::unavailable, what + ": the connection was closed in mid-answer"}, no_byte};
  if (error.category() == beast::http::make_error_code(beast::http::error::bad_chunk).category())
    return {Error{Code::corrupt, format("{}: the answer is not HTTP: {}", what, error.message())}};
  if (error == asio::ssl::error::stream_truncated)
    return {Error{Code::unavailable, what + ": the connection was cut"}, no_byte};
  return {Error{Code::unavailable, format("{}: {}", what, reason_of(error))}, no_byte};
}

Result<HttpResponse> HttpClient::Impl::call(const HttpCall& call, const Deadline& deadline) {
  sent = false;
  upgraded = false;
  TRY(check_call(call));
  const bool reused = stream.is_live();
  CallOutcome first = try_once(call, deadline);
  if (!first.failed_before_answer || !reused || !is_repeatable(call))
    return std::move(first.answer);
  return try_once(call, deadline).answer;
}

HttpClient::Impl::CallOutcome HttpClient::Impl::try_once(const HttpCall& call,
                                                         const Deadline& deadline) {
  CallOutcome outcome;
  context.restart();
  asio::co_spawn(context, exchange(call, deadline), [&](std::exception_ptr, CallOutcome value) {
    outcome = std::move(value);  // the value from above, if something threw (no memory)
  });
  run_context();
  if (!outcome.answer && outcome.answer.error().code == Code::internal) stream.close();
  return outcome;
}

void HttpClient::Impl::run_context() {
  if (!on_waiting) {
    context.run();
    return;
  }
  const auto begun = std::chrono::steady_clock::now();
  while (context.run_for(kWaitingEvery), !context.stopped())
    on_waiting(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begun));
}

asio::awaitable<HttpClient::Impl::CallOutcome> HttpClient::Impl::exchange(
    const HttpCall& call, const Deadline& deadline) {
  if (stream.is_open()) {
    stream.set_deadline(deadline);
  } else {
    const error_code error = co_await stream.open(deadline);
    if (error) co_return fail("connecting to", error, true);
    if (connection_handshake) {
      CallOutcome greeted = co_await handshake();
      if (!greeted.answer) co_return greeted;
    }
  }
  sent = true;
  co_return co_await send(call);
}

asio::awaitable<HttpClient::Impl::CallOutcome> HttpClient::Impl::handshake() {
  const HttpCall call = connection_handshake->call();
  CallOutcome greeted = co_await send(call);
  if (!greeted.answer) co_return greeted;
  if (auto judged = connection_handshake->verify(*greeted.answer); !judged) {
    stream.close();
    co_return CallOutcome{std::move(judged).error()};
  }
  // Another connection may reach another server.
  if (!stream.is_open()) co_return fail("greeting", asio::error::eof, false);
  co_return greeted;
}

asio::awaitable<HttpClient::Impl::CallOutcome> HttpClient::Impl::send(const HttpCall& call) {
  const std::string made = call.make_body ? call.make_body() : std::string();
  const std::string& body = call.make_body ? made : call.body;
  const std::string head = head_of(call, body.size(), server);
  const error_code error = co_await stream.write(head, body);
  if (error == beast::error::timeout) co_return fail("calling", error, false);
  // A server that refuses a body answers and stops reading, so that sending fails: the answer is
  // still readable.
  CallOutcome outcome = co_await read_answer(call);
  if (error && !outcome.answer && outcome.failed_before_answer)
    co_return fail("calling", error, true);
  co_return outcome;
}

asio::awaitable<HttpClient::Impl::CallOutcome> HttpClient::Impl::read_answer(const HttpCall& call) {
  beast::flat_buffer buffer;
  detail::AnswerParser parser;
  parser.header_limit(64 << 10);
  parser.body_limit(static_cast<std::uint64_t>(answer_max.count()));
  if (call.method == "HEAD") parser.skip(true);
  std::size_t size = 0;
  const error_code error = co_await stream.read(buffer, parser, size);
  if (error) co_return fail("calling", error, size == 0 && !parser.got_some());
  auto message = parser.release();
  HttpResponse answer{.status = static_cast<int>(message.result_int()),
                      .content_type = std::string(message[beast::http::field::content_type]),
                      .body = std::move(message.body()),
                      .headers = {}};
  for (const auto& field : message)
    answer.headers.add(std::string(field.name_string()), std::string(field.value()));
  upgraded = answer.status == 101 && call.headers.find("Upgrade");
  if (upgraded)
    early.assign(static_cast<const char*>(buffer.data().data()), buffer.size());
  else if (!message.keep_alive() || buffer.size() > 0 || answer.status == 101)
    stream.close();
  co_return CallOutcome{std::move(answer)};
}

HttpClient::HttpClient(Url server, Bytes answer_max, std::optional<ConnectionHandshake> greeting,
                       TlsTrust trust) {
  if (!server.fingerprint.empty()) trust.fingerprint = server.fingerprint;
  impl_ =
      std::make_unique<Impl>(std::move(server), answer_max, std::move(greeting), std::move(trust));
}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpResponse> HttpClient::call(const HttpCall& call, const Deadline& deadline) {
  return impl_->call(call, deadline);
}

std::string HttpClient::server_authority() const { return impl_->stream.authority(); }

// The connection keeps what it needs of the client: its stream and the context of that.
class HttpClient::Upgraded : public UpgradedConnection::Impl {
 public:
  explicit Upgraded(std::unique_ptr<HttpClient::Impl> client) : client_(std::move(client)) {
    client_->stream.forget_deadline();
    client_->on_waiting = {};
    client_->connection_handshake.reset();
    client_->context.restart();
  }

  asio::awaitable<std::pair<error_code, std::size_t>> read_some(
      asio::mutable_buffer buffer) override {
    if (!client_->early.empty())
      co_return std::pair(error_code(), detail::take_early(client_->early, buffer));
    co_return co_await client_->stream.read_some(buffer);
  }
  asio::awaitable<error_code> write(asio::const_buffer bytes) override {
    co_return co_await client_->stream.write(bytes);
  }
  void close() override { client_->stream.shut(); }
  asio::io_context& context() override { return client_->context; }

 private:
  const std::unique_ptr<HttpClient::Impl> client_;
};

UpgradedConnection HttpClient::take_connection() {
  LS_CHECK(impl_ && impl_->upgraded, "the last call was not upgraded");
  return UpgradedConnection(std::make_unique<Upgraded>(std::move(impl_)));
}

bool HttpClient::was_sent() const { return impl_->sent; }

void HttpClient::on_waiting(std::function<void(Duration)> callback) {
  impl_->on_waiting = std::move(callback);
}

}  // namespace lockstep::net
