// Quantities as text that parses back to the same value, for storage and messages; text() of
// base/units.h rounds, for users.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace lockstep {

std::string exact_text(Bytes bytes);          // "1536 KiB", "1000 B"
std::string exact_text(Bandwidth bandwidth);  // "10 Gbit/s", "0.000001 MB/s"
std::string exact_text(Duration duration);    // "1h 30m", "2s 250ms", "0s"
std::string exact_text(Time time);            // "2026-11-21T10:00:00.000250Z"

// Reads what parse_bytes and similar functions read, and the same with a minus sign. Exact up to
// 2^53.
template <class T>
Result<T> parse_exact(std::string_view input) = delete;
template <>
Result<Bytes> parse_exact(std::string_view input);
template <>
Result<Bandwidth> parse_exact(std::string_view input);
template <>
Result<Duration> parse_exact(std::string_view input);
template <>
Result<Time> parse_exact(std::string_view input);

}  // namespace lockstep
