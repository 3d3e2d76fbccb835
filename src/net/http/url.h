// Addresses: the target in a request's first line, and the address to which a client connects.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::net {

struct RequestTarget {
  std::vector<std::string> path;
  std::map<std::string, std::string> query;
};

// Splits "/runs/a%20b?limit=3", decoding once. Refuses (Code::invalid) what two parsers could
// interpret differently: "." and ".." segments, an encoded '/', '\', control characters, broken
// escapes, bytes that are not UTF-8, a query's key given twice. Refuses targets other than a path,
// such as "http://...".
Result<RequestTarget> parse_request_target(std::string_view target);

// Percent-encodes all but letters, digits and "-._~".
std::string percent_encode(std::string_view word);

enum class Scheme { http, https };

struct Url {
  std::string host;  // a name or an address, IPv6 without brackets
  int port = 80;
  Scheme scheme = Scheme::http;
  // The certificate to trust (TlsTrust): 64 hex digits; empty: none is given.
  std::string fingerprint{};

  std::string authority() const;   // "name:80", "[::1]:80"
  std::string host_field() const;  // the same without the scheme's own port, for the header Host
  std::string text() const;        // "https://name:443", without the fingerprint
};

// "http://host:port", with nothing but an optional '/' after it; or "https://host:port", also with
// "#sha256:FINGERPRINT" after it.
Result<Url> parse_url(std::string_view input);

// The name or address in "name", "name:80" or "[::1]:80"; Code::invalid for anything else.
Result<std::string> host_of(std::string_view authority);

// An address that no other machine reaches: 127.0.0.0/8 or ::1. False for a name.
bool is_loopback(const std::string& address);

}  // namespace lockstep::net
