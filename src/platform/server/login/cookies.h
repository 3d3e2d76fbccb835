// The cookies of a request, and the calls that a cookie may prove.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "net/http/http.h"

namespace lockstep::server {

// The cookie with a token of the user that logged in to the page. Browsers send a cookie to each
// port of a host, so the name has the port by which the caller reaches the daemon: daemons of one
// host have sessions of their own.
struct SessionCookie {
  std::string name{};   // lockstep_session_7070; without a port in the address: lockstep_session
  std::string token{};  // empty: the request has none
};
SessionCookie session_cookie_of(const net::HttpRequest& request);

// The page sends it with the value 1. A page of another origin cannot, unless the daemon agreed.
inline constexpr std::string_view kPageHeader = "X-Lockstep-Page";

// The value; empty: there is none.
std::string_view cookie_of(const net::HttpRequest& request, std::string_view name);

// True if the request has the session's cookie and no other proof of its user.
bool is_by_session(const net::HttpRequest& request);

// Code::denied: another page than the daemon's own may have made the request. Browsers send the
// cookie from pages of other ports of this host, too.
Result<void> check_own_page(const net::HttpRequest& request);

// The value of Set-Cookie. HttpOnly, and Secure over TLS.
std::string set_cookie(std::string_view name, std::string_view value, std::string_view attributes,
                       bool is_https);

}  // namespace lockstep::server
