// IssuerHttp: the calls of an issuer, over HTTPS or in a test.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace lockstep::identity {

using Form = std::vector<std::pair<std::string, std::string>>;

struct IssuerRequest {
  std::string url;
  std::optional<Form> form{};   // none: GET
  std::string authorization{};  // the header; empty: none
};

struct IssuerAnswer {
  int status = 0;
  std::string body{};
};

class IssuerHttp {
 public:
  virtual ~IssuerHttp() = default;
  // Any answer of the server is one. Code::unavailable: there was none.
  virtual Result<IssuerAnswer> send(const IssuerRequest& request, const Deadline& deadline) = 0;
};

// By net::HttpClient, with a new connection for each call. It follows no redirection and uses no
// proxy.
class NetIssuerHttp : public IssuerHttp {
 public:
  // PEM; empty: the system's authorities.
  explicit NetIssuerHttp(std::string authorities) : authorities_(std::move(authorities)) {}
  Result<IssuerAnswer> send(const IssuerRequest& request, const Deadline& deadline) override;

 private:
  const std::string authorities_;
};

// The address is https, or http on loopback: others are read and changed on the way. `what` names
// it in the error.
Result<void> check_issuer_url(std::string_view what, const std::string& url);

std::string form_text(const Form& form);

}  // namespace lockstep::identity
