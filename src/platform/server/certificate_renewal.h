// CertificateRenewal: looks once a minute whether the daemon is to use another certificate. It
// renews the daemon's own before its end, and reads the operator's files again.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/loop.h"
#include "net/tls/tls.h"
#include "platform/host/server_certificate.h"

namespace lockstep::server {

class CertificateRenewal {
 public:
  struct Setup {
    net::Loop& loop;  // these two outlive this
    host::ServerCertificate& certificate;
    std::function<std::vector<std::string>()> names;                 // as they are now
    std::function<Result<void>(const net::TlsIdentity&)> start_use;  // for new connections
    std::function<void()> announce;  // after that: the fingerprint may be another one
    Duration interval = std::chrono::minutes(1);
  };
  // Looks for the first time after one interval. On the loop's thread, as long as this lives.
  explicit CertificateRenewal(Setup setup);

 private:
  void wait();
  void look();
  Result<bool> renew();

  const Setup setup_;
  net::Timer timer_;
};

}  // namespace lockstep::server
