#include "sim/seed_range.h"

#include <charconv>

#include "base/format.h"

namespace lockstep::sim {
namespace {

constexpr std::string_view kBetween = "..";

bool read(std::string_view digits, std::uint64_t& number) {
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  return error == std::errc() && stop == end;
}

}  // namespace

std::string SeedRange::text() const { return format("{}..{}", first, last); }

Result<SeedRange> parse_seed_range(std::string_view words) {
  SeedRange range;
  const auto between = words.find(kBetween);
  if (between == std::string_view::npos || !read(words.substr(0, between), range.first) ||
      !read(words.substr(between + kBetween.size()), range.last) || range.last < range.first)
    return Error{Code::invalid,
                 format("'{}' is no range of seeds; write it as FROM..TO, as in 1..5000", words)};
  return range;
}

}  // namespace lockstep::sim
