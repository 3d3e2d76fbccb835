// The inputs of the two ends of a TLS connection: the server's certificate, and the client's reason
// to trust it. Certificates and keys are PEM text.
#pragma once

#include <string>

namespace lockstep::net {

// A certificate with those that issued it, and its private key.
struct TlsIdentity {
  std::string certificates;  // the server's own first
  std::string key;           // not encrypted
};

// Why a client trusts a server. With neither of them: the system's authorities issued its
// certificate.
struct TlsTrust {
  // SHA-256 of a certificate that the server presents, 64 hex digits: of the server's own, or of
  // the authority that issued it. Decides alone if given.
  std::string fingerprint{};
  // The certificates of the authorities to trust.
  std::string authorities{};

  friend bool operator==(const TlsTrust&, const TlsTrust&) = default;
};

}  // namespace lockstep::net
