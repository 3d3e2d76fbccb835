// ServerCertificate: the certificate of a daemon that other machines reach, from the daemon's
// folder or from files of the operator.
//
// In the folder `tls` the daemon keeps an authority of its own for ten years, and a certificate of
// it for three months, which it renews a month before its end and when it gets another name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/tls/certificate.h"
#include "net/tls/tls.h"

namespace lockstep::host {

struct CertificateSource {
  std::filesystem::path folder;  // the daemon's
  // The operator's: a certificate with those that issued it, and its key. Empty: the daemon's own.
  std::filesystem::path certificate_file{}, key_file{};
};

// The certificates of a daemon's own authority, for its clients; in the daemon's folder.
std::filesystem::path authority_file(const std::filesystem::path& home);

class ServerCertificate {
 public:
  // Makes or renews what is missing; files have mode 0600. `names`: the host names and addresses by
  // which callers reach the daemon.
  static Result<ServerCertificate> open(CertificateSource source,
                                        const std::vector<std::string>& names, const Clock& clock);

  const net::TlsIdentity& identity() const { return identity_; }
  // The one to trust: the own authority's, or that of the operator's certificate.
  const std::string& fingerprint() const { return fingerprint_; }
  Time end() const { return end_; }

  // Renews it if it is time, or reads the operator's files again. True if another certificate is to
  // be used from now on. After an error the last one stays.
  Result<bool> refresh(const std::vector<std::string>& names);
  // A line if the certificate has expired or is about to.
  std::optional<std::string> problem() const;

 private:
  ServerCertificate(CertificateSource source, const Clock& clock)
      : source_(std::move(source)), clock_(&clock) {}
  bool is_operators() const { return !source_.certificate_file.empty(); }
  Result<net::TlsIdentity> current(const std::vector<std::string>& names) const;

  CertificateSource source_;
  const Clock* clock_;
  net::TlsIdentity identity_;
  std::string fingerprint_;
  Time end_{};
};

}  // namespace lockstep::host
