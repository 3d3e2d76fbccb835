// Addresses: what stands in a request's first line, and where a client connects.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct Target {
  std::vector<std::string> path;
  std::map<std::string, std::string> query;
};

// Takes "/runs/a%20b?limit=3" apart, decoding once. Refuses (Code::invalid) what could mean two
// things to two readers: "." and ".." segments, an encoded '/', '\', control characters, broken
// escapes, bytes that are not UTF-8, a query's key given twice; and all but a path, such as
// "http://...".
Result<Target> parse_target(std::string_view target);

// The word with all but letters, digits and "-._~" percent-encoded.
std::string percent_encode(std::string_view word);

struct Url {
  std::string host;  // a name or an address, IPv6 without brackets
  int port = 80;

  std::string authority() const;  // "name:80", "[::1]:80"
};

// "http://host:port", with nothing but an optional '/' after it.
Result<Url> parse_url(std::string_view words);

// The name or address in "name", "name:80" or "[::1]:80"; Code::invalid for anything else.
Result<std::string> host_of(std::string_view authority);

// An address that no other machine reaches: 127.0.0.0/8 or ::1. False for a name.
bool is_loopback(const std::string& address);

}  // namespace lockstep
