#include "platform/engine/k8s/client/curl_channel.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/format.h"
#include "platform/curl/libcurl.h"

namespace lockstep::engine {
namespace {

constexpr Duration kConnectLimit = std::chrono::seconds(10);
constexpr Duration kPollInterval = std::chrono::seconds(1);
constexpr std::size_t kAnswerMax = 256u << 20;  // a list of all Pods of a large cluster

using curl::Easy;
using curl::libcurl;
using HeaderList = curl::List;

// The request that runs: libcurl's callbacks write here.
struct Exchange {
  const CurlRequest& request;
  CURL* easy = nullptr;
  CurlAnswer answer{};
  std::string arrived{};  // for on_bytes
  bool is_too_large = false;
  Deadline idle_end;
  std::array<char, CURL_ERROR_SIZE> words{};
};

int status_of(CURL* easy) {
  long status = 0;
  libcurl().easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  return static_cast<int>(status);
}

std::size_t take_bytes(char* bytes, std::size_t, std::size_t count, void* into) {
  auto& exchange = *static_cast<Exchange*>(into);
  exchange.idle_end = Deadline::after(exchange.request.idle);
  const bool is_streamed = exchange.request.on_bytes && status_of(exchange.easy) / 100 == 2;
  std::string& target = is_streamed ? exchange.arrived : exchange.answer.body;
  exchange.is_too_large = target.size() + count > kAnswerMax;
  if (exchange.is_too_large) return CURL_WRITEFUNC_ERROR;
  target.append(bytes, count);
  return count;
}

curl_blob blob_of(const std::string& text) {
  return {.data = const_cast<char*>(text.data()), .len = text.size(), .flags = CURL_BLOB_NOCOPY};
}

struct ServerParts {
  std::string scheme, host, port, path;  // "https", "10.0.0.1" or "[::1]", "6443", "/base"
};

ServerParts parts_of(const std::string& server) {
  ServerParts parts;
  const std::size_t scheme_end = server.find("://");
  parts.scheme = server.substr(0, scheme_end);
  const std::string rest = server.substr(scheme_end + 3);
  const std::size_t authority_end = std::min(rest.find('/'), rest.size());
  parts.path = rest.substr(authority_end);
  const std::string authority = rest.substr(0, authority_end);
  const std::size_t colon = authority.rfind(':');
  const bool has_port =
      colon != std::string::npos && authority.find(']', colon) == std::string::npos;
  parts.host = authority.substr(0, has_port ? colon : authority.size());
  parts.port = has_port ? authority.substr(colon + 1) : parts.scheme == "https" ? "443" : "80";
  return parts;
}

bool is_header_value(const std::string& value) {
  return std::ranges::all_of(value, [](unsigned char c) { return c >= ' ' && c != 0x7f; });
}

}  // namespace

struct CurlChannel::Impl {
  const ClusterAccess& access;
  const std::atomic<bool>& is_stopped;
  CURLM* multi = libcurl().multi_init();
  ServerParts server = parts_of(access.server);

  ~Impl() { libcurl().multi_cleanup(multi); }

  HeaderList headers(const CurlRequest& request, const Secrets& secrets) const {
    std::vector<std::string> lines = {"Accept: application/json", "Expect:"};
    if (request.body) lines.emplace_back("Content-Type: application/json");
    if (!secrets.token.empty()) lines.push_back("Authorization: Bearer " + secrets.token);
    for (const auto& [name, value] : access.impersonation)
      lines.push_back(format("{}: {}", name, value));
    if (!access.tls_server_name.empty())
      lines.push_back(format("Host: {}:{}", server.host, server.port));
    curl_slist* list = nullptr;
    for (const std::string& line : lines) list = libcurl().slist_append(list, line.c_str());
    return HeaderList(list);
  }

  // libcurl verifies the name in the URL. So with tls_server_name the URL has that name, and the
  // connection goes to the server's address.
  HeaderList set_address(CURL* easy, const std::string& path) const {
    const auto& set = libcurl().easy_setopt;
    if (access.tls_server_name.empty()) {
      set(easy, CURLOPT_URL, (access.server + path).c_str());
      return nullptr;
    }
    set(easy, CURLOPT_URL,
        format("{}://{}:{}{}{}", server.scheme, access.tls_server_name, server.port, server.path,
               path)
            .c_str());
    HeaderList target(
        libcurl().slist_append(nullptr, format("::{}:{}", server.host, server.port).c_str()));
    set(easy, CURLOPT_CONNECT_TO, target.get());
    return target;
  }

  // The blobs are not copied: `secrets` lives as long as the request.
  void set_trust(CURL* easy, const Secrets& secrets) const {
    const auto& set = libcurl().easy_setopt;
    if (access.is_unverified) {
      set(easy, CURLOPT_SSL_VERIFYPEER, 0L);
      set(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (!secrets.authority.empty()) {
      curl_blob authority = blob_of(secrets.authority);
      set(easy, CURLOPT_CAINFO_BLOB, &authority);
      set(easy, CURLOPT_CAPATH, nullptr);  // else this machine's authorities are trusted, too
    }
    if (secrets.certificate.empty()) return;
    curl_blob certificate = blob_of(secrets.certificate), key = blob_of(secrets.key);
    set(easy, CURLOPT_SSLCERTTYPE, "PEM");
    set(easy, CURLOPT_SSLCERT_BLOB, &certificate);
    set(easy, CURLOPT_SSLKEYTYPE, "PEM");
    set(easy, CURLOPT_SSLKEY_BLOB, &key);
  }

  void set_request(CURL* easy, Exchange& exchange) const {
    const auto& set = libcurl().easy_setopt;
    const CurlRequest& request = exchange.request;
    set(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    if (request.body) {
      set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body->size()));
      set(easy, CURLOPT_POSTFIELDS, request.body->c_str());
    }
    set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(easy, CURLOPT_NOSIGNAL, 1L);
    set(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    set(easy, CURLOPT_USERAGENT, "lockstep");
    if (!access.proxy.empty()) set(easy, CURLOPT_PROXY, access.proxy.c_str());
    const auto milliseconds = [](Duration duration) {
      return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
    };
    set(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(kConnectLimit));
    set(easy, CURLOPT_TIMEOUT_MS, milliseconds(request.total));
    set(easy, CURLOPT_WRITEFUNCTION, take_bytes);
    set(easy, CURLOPT_WRITEDATA, &exchange);
    set(easy, CURLOPT_ERRORBUFFER, exchange.words.data());
  }

  // Gives the bytes that have come to their reader; false: the reader has enough.
  static bool deliver(Exchange& exchange) {
    if (exchange.arrived.empty()) return true;
    const std::string bytes = std::exchange(exchange.arrived, {});
    return exchange.request.on_bytes(bytes);
  }

  static std::string failure_of(const Exchange& exchange, CURLcode code) {
    if (code == CURLE_OK) return "";
    if (exchange.is_too_large) return "the answer is larger than 256 MiB";
    if (exchange.words[0] != '\0') return exchange.words.data();
    return libcurl().easy_strerror(code);
  }

  // Nothing while the request runs; else why it has failed, which is empty if it has not.
  std::optional<std::string> end_of(const Exchange& exchange) const {
    int queued = 0;
    while (const CURLMsg* message = libcurl().multi_info_read(multi, &queued))
      if (message->msg == CURLMSG_DONE) return failure_of(exchange, message->data.result);
    return std::nullopt;
  }

  std::string run(Exchange& exchange) const {
    const Duration idle = exchange.request.idle;
    while (true) {
      int running = 0, ready = 0;
      if (libcurl().multi_perform(multi, &running) != CURLM_OK) return "libcurl has failed";
      if (!deliver(exchange)) return "";
      if (auto end = end_of(exchange)) return *std::move(end);
      if (is_stopped) return "the client was stopped";
      const bool has_idle_bound = idle > Duration(0);
      if (has_idle_bound && exchange.idle_end.passed())
        return format("no byte came for {}", text(idle));
      const Duration wait =
          has_idle_bound ? std::min(exchange.idle_end.remaining(), kPollInterval) : kPollInterval;
      const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(wait);
      libcurl().multi_poll(multi, nullptr, 0, static_cast<int>(rounded.count()), &ready);
    }
  }
};

CurlChannel::CurlChannel(const ClusterAccess& access, const std::atomic<bool>& is_stopped)
    : impl_(new Impl{.access = access, .is_stopped = is_stopped}) {}

CurlChannel::~CurlChannel() = default;

CurlAnswer CurlChannel::send(const CurlRequest& request, const Secrets& secrets) {
  if (!is_header_value(secrets.token))
    return {.failure = "the token has a line break or a control character"};
  const Easy easy(libcurl().easy_init());
  Exchange exchange{
      .request = request, .easy = easy.get(), .idle_end = Deadline::after(request.idle)};
  impl_->set_request(easy.get(), exchange);
  impl_->set_trust(easy.get(), secrets);
  const HeaderList target = impl_->set_address(easy.get(), request.path);
  const HeaderList headers = impl_->headers(request, secrets);
  libcurl().easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers.get());
  libcurl().multi_add_handle(impl_->multi, easy.get());
  CurlAnswer& answer = exchange.answer;
  answer.failure = impl_->run(exchange);
  answer.status = status_of(easy.get());
  curl_off_t seconds = 0;
  libcurl().easy_getinfo(easy.get(), CURLINFO_RETRY_AFTER, &seconds);
  answer.retry_after = std::chrono::seconds(std::clamp<curl_off_t>(seconds, 0, 3600));
  libcurl().multi_remove_handle(impl_->multi, easy.get());
  return std::move(answer);
}

void CurlChannel::wake() { libcurl().multi_wakeup(impl_->multi); }

}  // namespace lockstep::engine
