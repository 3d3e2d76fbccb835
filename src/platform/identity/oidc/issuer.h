// Issuer: log-ins of the users of an OpenID Connect provider, by the device flow (RFC 8628) and by
// the code flow with PKCE (RFC 7636). Its calls block until the provider answers, so it belongs to
// one thread that is not the loop's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "platform/identity/oidc/id_token.h"
#include "platform/identity/oidc/issuer_http.h"
#include "platform/identity/oidc/key_set.h"
#include "text/record.h"

namespace lockstep::identity {

struct IssuerSettings {
  std::string url;     // as in the tokens' `iss`
  std::string client;  // the id that the issuer gave to this daemon
  std::string secret;  // empty: the client is public

  bool operator==(const IssuerSettings&) const = default;
};

// The answer of the issuer at the start of a device flow.
struct DeviceCodes {
  std::string device_code, user_code, verification_uri;
  std::optional<std::string> verification_uri_complete{};
  int expires_in = 0;
  std::optional<int> interval{};

  static constexpr auto fields() {
    return record<DeviceCodes>(
        required(field("device_code", &DeviceCodes::device_code, "for the token")),
        required(field("user_code", &DeviceCodes::user_code, "that the user types")),
        required(field("verification_uri", &DeviceCodes::verification_uri, "where")),
        field("verification_uri_complete", &DeviceCodes::verification_uri_complete, "with it"),
        required(field("expires_in", &DeviceCodes::expires_in, "seconds")),
        field("interval", &DeviceCodes::interval, "seconds between two polls"));
  }
};

// The secrets of one log-in by the code flow, each random.
struct CodeSecrets {
  std::string state, nonce, verifier;
  static CodeSecrets random();
};

// The result of a poll: the claims once the user has agreed.
struct DevicePoll {
  bool is_too_fast = false;
  std::optional<Claims> claims{};
};

class Issuer {
 public:
  // Both outlive the issuer.
  Issuer(IssuerSettings settings, IssuerHttp& http, const Clock& clock)
      : settings_(std::move(settings)), http_(http), clock_(clock) {}

  Result<DeviceCodes> start_device(const std::string& scopes, const Deadline& deadline);
  // Code::denied: the user refused, or the code ended.
  Result<DevicePoll> poll_device(const std::string& device_code, const Deadline& deadline);

  // The address to which the browser goes, and the exchange of the code with which it comes back.
  Result<std::string> authorization_url(const CodeSecrets& secrets, const std::string& scopes,
                                        const std::string& redirect_uri, const Deadline& deadline);
  Result<Claims> exchange_code(const CodeSecrets& secrets, const std::string& code,
                               const std::string& redirect_uri, const Deadline& deadline);

  // All checks of an ID token that the issuer is said to have made.
  Result<Claims> check(const std::string& id_token, const std::optional<std::string>& nonce,
                       const Deadline& deadline);

 private:
  // The provider's own description.
  struct Discovery {
    std::string issuer, authorization_endpoint, token_endpoint, jwks_uri;
    std::optional<std::string> device_authorization_endpoint{};
    std::optional<std::vector<std::string>> token_endpoint_auth_methods_supported{};

    static constexpr auto fields() {
      return record<Discovery>(
          required(field("issuer", &Discovery::issuer, "its name")),
          required(field("authorization_endpoint", &Discovery::authorization_endpoint, "")),
          required(field("token_endpoint", &Discovery::token_endpoint, "")),
          required(field("jwks_uri", &Discovery::jwks_uri, "its keys")),
          field("device_authorization_endpoint", &Discovery::device_authorization_endpoint, ""),
          field("token_endpoint_auth_methods_supported",
                &Discovery::token_endpoint_auth_methods_supported, ""));
    }
  };
  struct TokenAnswer;

  Result<const Discovery*> discovery(const Deadline& deadline);
  Result<Discovery> read_discovery(const Deadline& deadline);
  Result<void> read_keys(const Deadline& deadline);
  Result<IssuerAnswer> post(const std::string& url, Form form, const Deadline& deadline);
  Result<TokenAnswer> ask_for_token(Form form, const Deadline& deadline);
  bool is_older(Time read, Duration age) const;

  const IssuerSettings settings_;
  IssuerHttp& http_;
  const Clock& clock_;
  std::optional<Discovery> discovery_;
  Time discovery_read_{};
  std::optional<KeySet> keys_;
  Time keys_read_{};
};

}  // namespace lockstep::identity
