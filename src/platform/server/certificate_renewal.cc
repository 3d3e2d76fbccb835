#include "platform/server/certificate_renewal.h"

#include <utility>

#include "base/log.h"

namespace lockstep::server {

CertificateRenewal::CertificateRenewal(Setup setup) : setup_(std::move(setup)) { wait(); }

// First, so that an exception, which the loop logs, does not stop the looks.
void CertificateRenewal::wait() {
  timer_ = setup_.loop.after(setup_.interval, [this] {
    wait();
    look();
  });
}

// After a failure the last certificate stays, and the next look tries again.
void CertificateRenewal::look() {
  const auto renewed = renew();
  if (!renewed)
    LS_LOG(warning, "the daemon's certificate is not renewed: {}", renewed.error().message);
  else if (*renewed)
    setup_.announce();
}

Result<bool> CertificateRenewal::renew() {
  if (!TRY(setup_.certificate.refresh(setup_.names()))) return false;
  TRY(setup_.start_use(setup_.certificate.identity()));
  LS_LOG(info, "another certificate is used, until {}", text(setup_.certificate.end()));
  return true;
}

}  // namespace lockstep::server
