// The cookies of a request.
#pragma once

#include <string_view>

#include "net/http/http.h"

namespace lockstep::server {

// With the token of the user that logged in.
inline constexpr std::string_view kTokenCookie = "lockstep_token";

// The value; empty: there is none.
std::string_view cookie_of(const net::HttpRequest& request, std::string_view name);

// A page of this daemon made the request, or the user typed its address. A cookie proves the user
// only then: browsers send it from pages of other ports of this host, too.
bool is_from_own_page(const net::HttpRequest& request);

}  // namespace lockstep::server
