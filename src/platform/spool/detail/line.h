// A line of a spool file, as spool.h describes it, and bytes at a place in a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "platform/spool/telemetry_item.h"

namespace lockstep::spool {

// First byte of a line that no longer counts.
inline constexpr char kDroppedMark = '-';
// As many bytes of a line are enough for sequence_of().
inline constexpr std::size_t kSequenceMax = 20;

// With its number in front and an end.
std::string line_of(const TelemetryItem& item);
// Nothing when the line does not begin with a sequence.
std::optional<std::int64_t> sequence_of(std::string_view line);
// `line` without its end.
Result<TelemetryItem> item_of(std::string_view line);

Result<void> write_at(int fd, std::string_view content, std::int64_t offset);
// Code::corrupt when the file ends before.
Result<std::string> read_at(int fd, std::int64_t size, std::int64_t offset);

}  // namespace lockstep::spool
