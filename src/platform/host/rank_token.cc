#include "platform/host/rank_token.h"

#include "base/format.h"
#include "net/crypto.h"

namespace lockstep::host {
namespace {

constexpr std::string_view kPrefix = "lsr_";
constexpr std::size_t kDigits = 64;

}  // namespace

std::string rank_token(const model::AttemptName& attempt, std::string_view agent_token) {
  const auto key = net::Secret::from_hex(std::string(agent_token));
  if (!key) return "";
  return format("{}{}_{}", kPrefix, text(attempt), net::hmac_sha256_hex(*key, "rank:mlflow"));
}

std::optional<model::AttemptName> attempt_of_rank_token(std::string_view token) {
  if (!token.starts_with(kPrefix) || token.size() <= kPrefix.size() + kDigits + 1 ||
      token[token.size() - kDigits - 1] != '_')
    return std::nullopt;
  std::string_view name = token.substr(kPrefix.size());
  name.remove_suffix(kDigits + 1);
  model::AttemptName attempt;
  if (const auto colon = name.find(':'); colon != std::string_view::npos) {
    attempt.generation = name.substr(0, colon);
    name.remove_prefix(colon + 1);
  }
  auto id = model::parse_attempt_id(name);
  if (!id || !model::check_generation(attempt.generation)) return std::nullopt;
  attempt.id = *std::move(id);
  return attempt;
}

}  // namespace lockstep::host
