// Bytes as text, for JSON and URLs: base64 of RFC 4648, section 4, with padding and without line
// breaks.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::net {

std::string to_base64(std::span<const std::byte> bytes);
// Section 5, without padding, for URLs.
std::string to_base64url(std::span<const std::byte> bytes);
// Nothing unless it is an output of to_base64: the encoding is one to one.
std::optional<std::vector<std::byte>> from_base64(std::string_view text);

}  // namespace lockstep::net
