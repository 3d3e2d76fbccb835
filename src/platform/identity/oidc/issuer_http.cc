#include "platform/identity/oidc/issuer_http.h"

#include "base/format.h"
#include "net/http/http_client.h"
#include "net/http/url.h"

namespace lockstep::identity {
namespace {

constexpr Bytes kAnswerMax = 1_MiB;

struct Endpoint {
  net::Url server;
  std::string target;
};

Result<Endpoint> endpoint_of(const std::string& url) {
  const std::size_t scheme = url.find("://");
  const std::size_t path =
      scheme == std::string::npos ? scheme : url.find_first_of("/?#", scheme + 3);
  if (url.find('#') != std::string::npos)
    return Error{Code::invalid, format("'{}' has a '#' in it", url)};
  Endpoint endpoint{TRY(net::parse_url(url.substr(0, path))),
                    path == std::string::npos ? "/" : url.substr(path)};
  if (!endpoint.target.starts_with('/')) endpoint.target = "/" + endpoint.target;
  return endpoint;
}

}  // namespace

Result<IssuerAnswer> NetIssuerHttp::send(const IssuerRequest& request, const Deadline& deadline) {
  const Endpoint endpoint = TRY(endpoint_of(request.url));
  net::HttpClient client(endpoint.server, kAnswerMax, std::nullopt,
                         {.fingerprint = {}, .authorities = authorities_});
  net::HttpCall call{.method = request.form ? "POST" : "GET", .target = endpoint.target};
  call.headers.add("Accept", "application/json");
  if (!request.authorization.empty()) call.headers.add("Authorization", request.authorization);
  if (request.form) {
    call.headers.add("Content-Type", "application/x-www-form-urlencoded");
    call.body = form_text(*request.form);
  }
  auto answer = TRY(client.call(call, deadline));
  return IssuerAnswer{answer.status, std::move(answer.body)};
}

Result<void> check_issuer_url(std::string_view what, const std::string& url) {
  auto endpoint = endpoint_of(url);
  if (!endpoint) return std::move(endpoint).error().with_context(std::string(what));
  if (endpoint->server.scheme == net::Scheme::https || net::is_loopback(endpoint->server.host))
    return {};
  return Error{Code::invalid, format("{}: '{}' is not https, so that machines on the way could "
                                     "change what it says",
                                     what, url)};
}

std::string form_text(const Form& form) {
  std::string text;
  for (const auto& [name, value] : form)
    text += format("{}{}={}", text.empty() ? "" : "&", net::percent_encode(name),
                   net::percent_encode(value));
  return text;
}

}  // namespace lockstep::identity
