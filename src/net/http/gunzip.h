// The content of a body that was sent with `Content-Encoding: gzip` (RFC 1952).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::net {

// Code::invalid: it is no gzip, damaged, or has more than `most` bytes of content.
Result<std::string> gunzip(std::string_view compressed, Bytes most);

}  // namespace lockstep::net
