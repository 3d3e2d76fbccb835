// Certificates: reads them, and issues them for a server that has no other authority. All are of
// ECDSA P-256 with SHA-256.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "net/tls/tls.h"

namespace lockstep::net {

struct CertificateInfo {
  std::string fingerprint;         // SHA-256 of the certificate, 64 hex digits
  std::vector<std::string> names;  // the host names and addresses that it is for
  Time begin, end;                 // it is valid between them
};

// The certificates of a PEM text, in its order; at least one.
Result<std::vector<CertificateInfo>> read_certificates(std::string_view pem);

struct CertificateTerms {
  std::string subject;               // a name for people: ASCII, at most 64 characters
  std::vector<std::string> names{};  // host names and addresses; an authority has none
  Time begin, end;
};

// A new key, and a certificate by which it may issue others.
TlsIdentity make_authority(const CertificateTerms& terms);
// A new key and its certificate, followed by those of the authority. Fails if the authority cannot
// be read, or if a name is neither a host name nor an address.
Result<TlsIdentity> issue_certificate(const TlsIdentity& authority, const CertificateTerms& terms);

// An error if the texts cannot be read, or the key is not that of the first certificate.
Result<void> check_identity(const TlsIdentity& identity);

}  // namespace lockstep::net
