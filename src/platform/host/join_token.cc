#include "platform/host/join_token.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/format.h"
#include "platform/core/model/ids.h"

namespace lockstep::host {
namespace {

constexpr std::size_t kProofDigits = 64;
constexpr std::int64_t kSecondsMax = 1'000'000'000'000;

const Error kNoJoinToken{
    Code::invalid,
    "that is no join token; `lockstep host token NAME` on the daemon's machine makes one"};

std::vector<std::string_view> parts_of(std::string_view words) {
  std::vector<std::string_view> parts;
  for (std::size_t colon = words.find(':'); colon != words.npos; colon = words.find(':')) {
    parts.push_back(words.substr(0, colon));
    words.remove_prefix(colon + 1);
  }
  parts.push_back(words);
  return parts;
}

std::optional<std::int64_t> number_in(std::string_view words, std::int64_t most) {
  std::int64_t number = 0;
  const char* const last = words.data() + words.size();
  const auto read = std::from_chars(words.data(), last, number);
  if (read.ec != std::errc() || read.ptr != last || number < 0 || number > most)
    return std::nullopt;
  return number;
}

}  // namespace

std::string join_token_subject(const JoinToken& token) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(token.end).time_since_epoch();
  return format("{}:{}:{}:{}", token.host, token.pod, token.number, seconds.count());
}

Result<JoinToken> parse_join_token_subject(std::string_view words) {
  const auto parts = parts_of(words);
  if (parts.size() != 4 || !model::check_name("a host", parts[0]) ||
      !model::check_name("a pod", parts[1]))
    return kNoJoinToken;
  const auto number = number_in(parts[2], std::numeric_limits<int>::max());
  const auto seconds = number_in(parts[3], kSecondsMax);
  if (!number || !seconds) return kNoJoinToken;
  return JoinToken{.host = std::string(parts[0]),
                   .pod = std::string(parts[1]),
                   .number = static_cast<int>(*number),
                   .end = Time(std::chrono::seconds(*seconds)),
                   .proof = {}};
}

std::string join_token_text(const JoinToken& token) {
  return join_token_subject(token) + ":" + token.proof;
}

Result<JoinToken> parse_join_token(std::string_view words) {
  const std::size_t last = words.rfind(':');
  const std::string_view proof = last == words.npos ? "" : words.substr(last + 1);
  if (proof.size() != kProofDigits) return kNoJoinToken;
  JoinToken token = TRY(parse_join_token_subject(words.substr(0, last)));
  token.proof = proof;
  return token;
}

}  // namespace lockstep::host
