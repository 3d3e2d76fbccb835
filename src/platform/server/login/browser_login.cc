#include "platform/server/login/browser_login.h"

#include <utility>

#include "base/format.h"
#include "net/crypto.h"
#include "platform/api/error.h"
#include "platform/server/login/cookies.h"
#include "platform/server/login/login_token.h"

namespace lockstep::server {
namespace {

// Which browser began a log-in.
constexpr std::string_view kLoginCookie = "lockstep_login";
constexpr std::string_view kLoginCookieLife = "Path=/login; SameSite=Lax; Max-Age=600";

const std::vector<std::string> kStartPath = {"login", "oidc"};
const std::vector<std::string> kFinishPath = {"login", "oidc", "callback"};

std::string query_value(const net::HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

net::HttpResponse refusal(const Error& error) {
  return {.status = api::status_of(error.code), .body = error.message + "\n"};
}

net::HttpResponse without_caching(net::HttpResponse response) {
  response.headers.add("Cache-Control", "no-store");
  response.headers.add("Referrer-Policy", "no-referrer");
  return response;
}

}  // namespace

bool BrowserLogin::is_for(const net::HttpRequest& request) {
  return (request.path == kStartPath || request.path == kFinishPath) && request.method == "GET" &&
         !request.has_body;
}

void BrowserLogin::handle(const net::HttpRequest& request, net::Responder responder) {
  const auto shared = std::make_shared<net::Responder>(std::move(responder));
  const auto begun = login_ == nullptr            ? Error{Code::not_found,
                                               "this daemon has no issuer of OIDC; start it with "
                                                          "--oidc-issuer"}
                     : request.path == kStartPath ? start(request, shared)
                                                  : finish(request, shared);
  if (!begun) shared->send(without_caching(refusal(begun.error())));
}

Result<void> BrowserLogin::start(const net::HttpRequest& request,
                                 const SharedResponder& responder) {
  const std::string browser = net::random_hex(32);
  const std::string redirect_uri =
      format("{}://{}/login/oidc/callback", is_https_ ? "https" : "http",
             request.headers.find("Host").value_or(""));
  return login_->start_code(
      browser, redirect_uri,
      [responder, set = set_cookie(kLoginCookie, browser, kLoginCookieLife, is_https_)](
          const Result<std::string>& url) {
        if (!url) return responder->send(without_caching(refusal(url.error())));
        net::HttpResponse response{.status = 302};
        response.headers.add("Location", *url);
        response.headers.add("Set-Cookie", set);
        responder->send(without_caching(std::move(response)));
      });
}

// The issuer says why in `error` when it refuses the log-in.
Result<void> BrowserLogin::finish(const net::HttpRequest& request,
                                  const SharedResponder& responder) {
  const std::string code = query_value(request, "code");
  if (code.empty())
    return Error{Code::denied, "the issuer refused the log-in; begin again at /login/oidc"};
  const Principal caller{.address = request.is_local ? "" : request.peer,
                         .session = session_cookie_of(request)};
  return login_->finish_code(
      std::string(cookie_of(request, kLoginCookie)), query_value(request, "state"), code, caller,
      [this, responder, caller](const Result<api::LoginAnswer>& login) {
        if (!login) return responder->send(without_caching(refusal(login.error())));
        end_replaced_session(accounts_, caller, clock_.now());
        net::HttpResponse response{.status = 302,
                                   .body = format("You are logged in as {}.\n", login->user)};
        response.headers.add("Location", "/");
        response.headers.add("Set-Cookie", session_cookie(caller.session.name, login->token,
                                                          login->ends, clock_.now(), is_https_));
        response.headers.add("Set-Cookie",
                             set_cookie(kLoginCookie, "", "Path=/login; Max-Age=0", is_https_));
        responder->send(without_caching(std::move(response)));
      });
}

}  // namespace lockstep::server
