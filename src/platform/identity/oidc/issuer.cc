#include "platform/identity/oidc/issuer.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "base/format.h"
#include "net/base64.h"
#include "net/crypto.h"
#include "net/http/url.h"
#include "text/convert.h"

namespace lockstep::identity {
namespace {

constexpr Duration kReadAgain = std::chrono::hours(1);
constexpr Duration kUnknownKeyPause = std::chrono::minutes(1);
constexpr std::size_t kForeignTextMax = 200;

// Text of the issuer in an error: one short line.
std::string shown(std::string words) {
  std::ranges::replace_if(words, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  if (words.size() > kForeignTextMax) words = words.substr(0, kForeignTextMax) + "...";
  return words;
}

Error unreadable(const std::string& url, const std::string& reason) {
  return {Code::unavailable, format("the answer of {}: {}", url, shown(reason))};
}

template <class T>
Result<T> read_answer(const std::string& url, const IssuerAnswer& answer) {
  auto json = parse_json(answer.body);
  if (!json) return unreadable(url, format("status {}, and no JSON", answer.status));
  auto read = from_json<T>(*json, UnknownFields::ignore);
  if (!read) return unreadable(url, format("status {}, {}", answer.status, read.error().message));
  return read;
}

std::string random_name() { return net::random_hex(32); }

}  // namespace

struct Issuer::TokenAnswer {
  std::optional<std::string> id_token{}, error{}, error_description{};

  static constexpr auto fields() {
    return record<TokenAnswer>(
        field("id_token", &TokenAnswer::id_token, "a JSON Web Token"),
        field("error", &TokenAnswer::error, "a word"),
        field("error_description", &TokenAnswer::error_description, "for people"));
  }
};

CodeSecrets CodeSecrets::random() { return {random_name(), random_name(), random_name()}; }

// The clock may have been set back.
bool Issuer::is_older(Time read, Duration age) const {
  const Time now = clock_.now();
  return now < read || now - read > age;
}

Result<const Issuer::Discovery*> Issuer::discovery(const Deadline& deadline) {
  if (!discovery_ || is_older(discovery_read_, kReadAgain)) {
    discovery_ = TRY(read_discovery(deadline));
    discovery_read_ = clock_.now();
  }
  return &*discovery_;
}

Result<Issuer::Discovery> Issuer::read_discovery(const Deadline& deadline) {
  std::string base = settings_.url;
  if (base.ends_with('/')) base.pop_back();
  const std::string url = base + "/.well-known/openid-configuration";
  const IssuerAnswer answer = TRY(http_.send({.url = url}, deadline));
  if (answer.status != 200) return unreadable(url, format("status {}", answer.status));
  auto found = TRY(read_answer<Discovery>(url, answer));
  if (found.issuer != settings_.url)
    return unreadable(url, format("it is of the issuer '{}', not of '{}'; correct --oidc-issuer",
                                  found.issuer, settings_.url));
  TRY(check_issuer_url("authorization_endpoint", found.authorization_endpoint));
  TRY(check_issuer_url("token_endpoint", found.token_endpoint));
  TRY(check_issuer_url("jwks_uri", found.jwks_uri));
  if (found.device_authorization_endpoint)
    TRY(check_issuer_url("device_authorization_endpoint", *found.device_authorization_endpoint));
  return found;
}

Result<void> Issuer::read_keys(const Deadline& deadline) {
  const std::string url = TRY(discovery(deadline))->jwks_uri;
  const IssuerAnswer answer = TRY(http_.send({.url = url}, deadline));
  if (answer.status != 200) return unreadable(url, format("status {}", answer.status));
  auto keys = KeySet::parse(answer.body);
  if (!keys) return unreadable(url, keys.error().message);
  if (keys->size() == 0) return unreadable(url, "it has no key for RS256 or ES256");
  keys_ = *std::move(keys);
  keys_read_ = clock_.now();
  return {};
}

// Adds what proves the client: in the header, or in the form if the issuer takes nothing else.
Result<IssuerAnswer> Issuer::post(const std::string& url, Form form, const Deadline& deadline) {
  IssuerRequest request{.url = url, .form = std::move(form)};
  const auto& methods = TRY(discovery(deadline))->token_endpoint_auth_methods_supported;
  const auto takes = [&](const char* method) {
    return std::ranges::find(*methods, method) != methods->end();
  };
  const bool in_form = methods && !settings_.secret.empty() && takes("client_secret_post") &&
                       !takes("client_secret_basic");
  if (settings_.secret.empty() || in_form) {
    request.form->emplace_back("client_id", settings_.client);
    if (in_form) request.form->emplace_back("client_secret", settings_.secret);
  } else {
    const std::string pair =
        net::percent_encode(settings_.client) + ":" + net::percent_encode(settings_.secret);
    request.authorization = "Basic " + net::to_base64(std::as_bytes(std::span(pair)));
  }
  return http_.send(request, deadline);
}

Result<Issuer::TokenAnswer> Issuer::ask_for_token(Form form, const Deadline& deadline) {
  const std::string url = TRY(discovery(deadline))->token_endpoint;
  return read_answer<TokenAnswer>(url, TRY(post(url, std::move(form), deadline)));
}

Result<DeviceCodes> Issuer::start_device(const std::string& scopes, const Deadline& deadline) {
  const auto url = TRY(discovery(deadline))->device_authorization_endpoint;
  if (!url)
    return Error{Code::unavailable,
                 format("the issuer {} has no device flow; log in by a password or make a token "
                        "with `lockstep token create`",
                        settings_.url)};
  const IssuerAnswer answer = TRY(post(*url, {{"scope", scopes}}, deadline));
  if (answer.status != 200) {
    const auto refusal = TRY(read_answer<TokenAnswer>(*url, answer));
    return unreadable(*url, format("{} ({})", refusal.error.value_or("no error"),
                                   refusal.error_description.value_or("")));
  }
  auto codes = TRY(read_answer<DeviceCodes>(*url, answer));
  if (codes.expires_in <= 0 || codes.interval.value_or(1) < 0)
    return unreadable(*url, "its times are negative");
  return codes;
}

Result<DevicePoll> Issuer::poll_device(const std::string& device_code, const Deadline& deadline) {
  const TokenAnswer answer =
      TRY(ask_for_token({{"grant_type", "urn:ietf:params:oauth:grant-type:device_code"},
                         {"device_code", device_code}},
                        deadline));
  if (answer.error == "authorization_pending") return DevicePoll{};
  if (answer.error == "slow_down") return DevicePoll{.is_too_fast = true};
  if (answer.error == "expired_token")
    return Error{Code::denied, "the code was not used in time; log in again"};
  if (answer.error || !answer.id_token)
    return Error{Code::denied, format("the issuer refused the log-in: {}",
                                      shown(answer.error_description.value_or(
                                          answer.error.value_or("its answer has no ID token"))))};
  return DevicePoll{.claims = TRY(check(*answer.id_token, std::nullopt, deadline))};
}

Result<std::string> Issuer::authorization_url(const CodeSecrets& secrets, const std::string& scopes,
                                              const std::string& redirect_uri,
                                              const Deadline& deadline) {
  const std::string& url = TRY(discovery(deadline))->authorization_endpoint;
  const auto challenge = net::to_base64url(net::sha256(secrets.verifier));
  return url + (url.find('?') == std::string::npos ? "?" : "&") +
         form_text({{"response_type", "code"},
                    {"client_id", settings_.client},
                    {"redirect_uri", redirect_uri},
                    {"scope", scopes},
                    {"state", secrets.state},
                    {"nonce", secrets.nonce},
                    {"code_challenge", challenge},
                    {"code_challenge_method", "S256"}});
}

Result<Claims> Issuer::exchange_code(const CodeSecrets& secrets, const std::string& code,
                                     const std::string& redirect_uri, const Deadline& deadline) {
  const TokenAnswer answer = TRY(ask_for_token({{"grant_type", "authorization_code"},
                                                {"code", code},
                                                {"redirect_uri", redirect_uri},
                                                {"code_verifier", secrets.verifier}},
                                               deadline));
  if (answer.error || !answer.id_token)
    return Error{Code::denied, format("the issuer refused the log-in: {}",
                                      shown(answer.error_description.value_or(
                                          answer.error.value_or("its answer has no ID token"))))};
  return check(*answer.id_token, secrets.nonce, deadline);
}

Result<Claims> Issuer::check(const std::string& id_token, const std::optional<std::string>& nonce,
                             const Deadline& deadline) {
  if (!keys_ || is_older(keys_read_, kReadAgain)) TRY(read_keys(deadline));
  auto payload = keys_->verified_payload(id_token);
  if (!payload && payload.error().code == Code::not_found &&
      is_older(keys_read_, kUnknownKeyPause)) {
    TRY(read_keys(deadline));
    payload = keys_->verified_payload(id_token);
  }
  if (!payload) return Error{Code::denied, payload.error().message};
  return check_claims(*payload, {settings_.url, settings_.client, nonce}, clock_.now());
}

}  // namespace lockstep::identity
