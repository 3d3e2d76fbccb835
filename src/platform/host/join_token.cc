#include "platform/host/join_token.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/format.h"
#include "platform/core/model/ids.h"

namespace lockstep::host {
namespace {

constexpr std::size_t kProofDigits = 64;

std::vector<std::string_view> parts_of(std::string_view words) {
  std::vector<std::string_view> parts;
  for (std::size_t colon = words.find(':'); colon != words.npos; colon = words.find(':')) {
    parts.push_back(words.substr(0, colon));
    words.remove_prefix(colon + 1);
  }
  parts.push_back(words);
  return parts;
}

}  // namespace

std::string join_token_text(const JoinToken& token) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(token.end).time_since_epoch();
  return format("{}:{}:{}:{}", token.host, token.pod, seconds.count(), token.proof);
}

Result<JoinToken> parse_join_token(std::string_view words) {
  const Error none{
      Code::invalid,
      "that is no join token; `lockstep host token NAME` on the daemon's machine makes "
      "one"};
  const auto parts = parts_of(words);
  if (parts.size() != 4 || parts[3].size() != kProofDigits) return none;
  if (!model::check_name("a host", parts[0]) || !model::check_name("a pod", parts[1])) return none;
  std::int64_t seconds = 0;
  const char* const last = parts[2].data() + parts[2].size();
  const auto read = std::from_chars(parts[2].data(), last, seconds);
  constexpr std::int64_t kSecondsMax = 1'000'000'000'000;
  if (read.ec != std::errc() || read.ptr != last || seconds < 0 || seconds > kSecondsMax)
    return none;
  return JoinToken{.host = std::string(parts[0]),
                   .pod = std::string(parts[1]),
                   .end = Time(std::chrono::seconds(seconds)),
                   .proof = std::string(parts[3])};
}

}  // namespace lockstep::host
