#include "net/http/url.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::net {

namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

enum class Plus { itself, space };

Result<std::string> percent_decode(std::string_view word, Plus plus) {
  std::string decoded;
  decoded.reserve(word.size());
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] == '%') {
      const int high = i + 2 < word.size() ? hex_digit(word[i + 1]) : -1;
      const int low = i + 2 < word.size() ? hex_digit(word[i + 2]) : -1;
      if (high < 0 || low < 0)
        return Error{Code::invalid, "the address has a '%' without two hex digits after it"};
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      decoded += word[i] == '+' && plus == Plus::space ? ' ' : word[i];
    }
  }
  return decoded;
}

Result<void> check_text(std::string_view word) {
  for (char c : word)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return Error{Code::invalid, "the address has a control character in it"};
  if (!is_utf8(word)) return Error{Code::invalid, "the address is not UTF-8"};
  return {};
}

Result<std::string> decode_segment(std::string_view word) {
  std::string segment = TRY(percent_decode(word, Plus::itself));
  TRY(check_text(segment));
  if (segment == "." || segment == "..")
    return Error{Code::invalid, "the address has a '.' or '..' segment"};
  if (segment.find_first_of("/\\") != std::string::npos)
    return Error{Code::invalid, "the address has a slash or backslash inside a segment"};
  return segment;
}

// Calls `take` with each piece between separators; an empty text has no piece.
template <class Take>
Result<void> split(std::string_view text, char separator, Take take) {
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    TRY(take(text.substr(0, end)));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
    if (text.empty()) TRY(take(text));
  }
  return {};
}

Result<int> parse_port(std::string_view digits) {
  int port = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || port < 1 ||
      port > 65535 || digits[0] == '+')
    return Error{Code::invalid, format("'{}' is not a port from 1 to 65535", digits)};
  return port;
}

bool is_host(std::string_view host) {
  if (host.empty() || host.size() > 255) return false;
  for (char c : host) {
    const bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!word && c != '-' && c != '.' && c != '_' && c != ':') return false;
  }
  return true;
}

// Takes also capital letters, and the colons that other programs print between the bytes.
Result<std::string> parse_fingerprint(std::string_view words) {
  constexpr std::string_view kKind = "sha256:";
  constexpr std::size_t kDigits = 64;
  std::string digits;
  if (words.starts_with(kKind))
    for (char c : words.substr(kKind.size()))
      if (c != ':') digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool good = digits.size() == kDigits &&
                    std::ranges::all_of(digits, [](char c) { return hex_digit(c) >= 0; });
  if (good) return digits;
  return Error{Code::invalid, format("'#{}' is not a fingerprint: write #sha256: and {} hex digits",
                                     words, kDigits)};
}

Result<Url> parse_authority(std::string_view input, Scheme scheme = Scheme::http) {
  const auto refuse = [&] { return Error{Code::invalid, format("'{}' is not host:port", input)}; };
  Url url{.host = {}, .port = scheme == Scheme::http ? 80 : 443, .scheme = scheme};
  std::string_view rest;
  if (input.starts_with('[')) {
    const std::size_t end = input.find(']');
    if (end == std::string_view::npos) return refuse();
    url.host = input.substr(1, end - 1);
    rest = input.substr(end + 1);
  } else {
    const std::size_t end = input.find(':');
    url.host = input.substr(0, end);
    if (end != std::string_view::npos) rest = input.substr(end);
  }
  if (!is_host(url.host)) return refuse();
  if (rest.empty()) return url;
  if (rest[0] != ':') return refuse();
  url.port = TRY(parse_port(rest.substr(1)));
  return url;
}

}  // namespace

Result<RequestTarget> parse_request_target(std::string_view target) {
  if (!target.starts_with('/'))
    return Error{Code::invalid, "the request's target must be a path that begins with '/'"};
  if (target.find('#') != std::string_view::npos)
    return Error{Code::invalid, "the address has a '#' in it"};
  const std::size_t question = target.find('?');
  RequestTarget parsed;
  TRY(split(target.substr(1, question == std::string_view::npos ? question : question - 1), '/',
            [&](std::string_view word) -> Result<void> {
              parsed.path.push_back(TRY(decode_segment(word)));
              return {};
            }));
  if (question == std::string_view::npos) return parsed;
  TRY(split(target.substr(question + 1), '&', [&](std::string_view word) -> Result<void> {
    if (word.empty()) return {};
    const std::size_t equals = word.find('=');
    std::string key = TRY(percent_decode(word.substr(0, equals), Plus::space));
    std::string value;
    if (equals != std::string_view::npos)
      value = TRY(percent_decode(word.substr(equals + 1), Plus::space));
    TRY(check_text(key));
    TRY(check_text(value));
    if (!parsed.query.emplace(key, value).second)
      return Error{Code::invalid, format("the query gives '{}' twice", key)};
    return {};
  }));
  return parsed;
}

std::string percent_encode(std::string_view word) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string encoded;
  for (char c : word) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return encoded;
}

std::string Url::authority() const {
  return host.find(':') == std::string::npos ? format("{}:{}", host, port)
                                             : format("[{}]:{}", host, port);
}

std::string Url::host_field() const {
  const std::string all = authority();
  const bool is_usual = port == (scheme == Scheme::https ? 443 : 80);
  return is_usual ? all.substr(0, all.rfind(':')) : all;
}

std::string Url::text() const {
  return std::string(scheme == Scheme::https ? kHttps : kHttp) + authority();
}

Result<Url> parse_url(std::string_view input) {
  const Scheme scheme = input.starts_with(kHttps) ? Scheme::https : Scheme::http;
  if (scheme == Scheme::http && !input.starts_with(kHttp))
    return Error{Code::invalid,
                 format("'{}' is not an address such as http://127.0.0.1:8080", input)};
  const std::size_t hash = input.find('#');
  std::string_view authority = input.substr(0, hash);
  authority.remove_prefix(scheme == Scheme::https ? kHttps.size() : kHttp.size());
  if (authority.ends_with('/')) authority.remove_suffix(1);
  Url url = TRY(parse_authority(authority, scheme));
  if (hash == std::string_view::npos) return url;
  if (scheme == Scheme::http)
    return Error{Code::invalid, format("'{}': only an https:// address has a fingerprint", input)};
  url.fingerprint = TRY(parse_fingerprint(input.substr(hash + 1)));
  return url;
}

Result<std::string> host_of(std::string_view authority) {
  return TRY(parse_authority(authority)).host;
}

bool is_loopback(const std::string& address) {
  in_addr v4{};
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, address.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace lockstep::net
