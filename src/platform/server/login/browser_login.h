// BrowserLogin: the two addresses at which a browser logs in by OIDC. They answer with redirections
// and cookies, and are no part of the API.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/http/http_server.h"
#include "platform/server/login/oidc_login.h"

namespace lockstep::server {

class BrowserLogin {
 public:
  // All outlive this. `login` is null without an issuer.
  BrowserLogin(OidcLogin* login, bool is_https, Accounts& accounts, const Clock& clock)
      : login_(login), is_https_(is_https), accounts_(accounts), clock_(clock) {}

  // GET /login/oidc and GET /login/oidc/callback.
  static bool is_for(const net::HttpRequest& request);
  void handle(const net::HttpRequest& request, net::Responder responder);

 private:
  using SharedResponder = std::shared_ptr<net::Responder>;
  Result<void> start(const net::HttpRequest& request, const SharedResponder& responder);
  Result<void> finish(const net::HttpRequest& request, const SharedResponder& responder);

  OidcLogin* login_;
  bool is_https_;
  Accounts& accounts_;
  const Clock& clock_;
};

}  // namespace lockstep::server
