#include "platform/server/login/cookies.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace lockstep::server {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool only_reads(const net::HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

// The host and port of "https://head:7070"; empty: it is opaque, such as "null".
std::string_view authority_of(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? "" : origin.substr(scheme + 3);
}

Error other_page() {
  return {Code::denied,
          "the call comes from a page that is not this daemon's; a log-in to the page is for that "
          "page alone"};
}

}  // namespace

std::string_view cookie_of(const net::HttpRequest& request, std::string_view name) {
  for (const auto& [header, value] : request.headers) {
    if (!net::equal_ignoring_case(header, "Cookie")) continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const std::size_t end = rest.find(';');
      std::string_view pair = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      while (pair.starts_with(' ')) pair.remove_prefix(1);
      const std::size_t equals = pair.find('=');
      if (equals != std::string_view::npos && pair.substr(0, equals) == name)
        return pair.substr(equals + 1);
    }
  }
  return {};
}

SessionCookie session_cookie_of(const net::HttpRequest& request) {
  std::string name = "lockstep_session";
  const std::string_view host = request.headers.find("Host").value_or("");
  const std::size_t colon = host.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? "" : host.substr(colon + 1);
  // "[::1]" has no port.
  if (!port.empty() && std::ranges::all_of(port, is_digit)) name += format("_{}", port);
  std::string token(cookie_of(request, name));
  return {.name = std::move(name), .token = std::move(token)};
}

bool is_by_session(const net::HttpRequest& request) {
  return !request.headers.find("Authorization") && !session_cookie_of(request).token.empty();
}

// Browsers set Sec-Fetch-Site and Origin, and no page can. They leave out the first over plain HTTP
// between machines, and the second where a page only reads. Where the first says that the page is
// of this origin, the second is not compared: a proxy may have replaced the Host. The scheme of the
// origin is not compared: a proxy may add TLS.
Result<void> check_own_page(const net::HttpRequest& request) {
  const bool reads = only_reads(request);
  const auto site = request.headers.find("Sec-Fetch-Site");
  const bool is_own = site && *site == "same-origin";
  if (site && !is_own && !(*site == "none" && reads)) return other_page();
  const auto origin = request.headers.find("Origin");
  if (origin && !is_own &&
      !net::equal_ignoring_case(authority_of(*origin), request.headers.find("Host").value_or("")))
    return other_page();
  if (reads || request.headers.find(kPageHeader).value_or("") == "1") return {};
  return Error{Code::denied,
               format("a call by the cookie of the page needs the header {}: 1", kPageHeader)};
}

std::string set_cookie(std::string_view name, std::string_view value, std::string_view attributes,
                       bool is_https) {
  return format("{}={}; HttpOnly; {}{}", name, value, attributes, is_https ? "; Secure" : "");
}

}  // namespace lockstep::server
