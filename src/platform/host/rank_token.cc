#include "platform/host/rank_token.h"

#include <charconv>

#include "base/format.h"
#include "net/crypto.h"

namespace lockstep::host {
namespace {

constexpr std::string_view kPrefix = "lsr_";
constexpr std::size_t kDigits = 64;

}  // namespace

std::string rank_token(const RankName& name, std::string_view agent_token) {
  const auto key = net::Secret::from_hex(std::string(agent_token));
  if (!key) return "";
  return format("{}{}_{}_{}", kPrefix, text(name.attempt), name.rank,
                net::hmac_sha256_hex(*key, format("mlflow:{}", name.rank)));
}

std::optional<RankName> rank_of_token(std::string_view token) {
  if (!token.starts_with(kPrefix) || token.size() <= kPrefix.size() + kDigits + 1 ||
      token[token.size() - kDigits - 1] != '_')
    return std::nullopt;
  std::string_view name = token.substr(kPrefix.size());
  name.remove_suffix(kDigits + 1);
  const auto end = name.rfind('_');
  if (end == std::string_view::npos) return std::nullopt;
  RankName found;
  const char* last = name.data() + name.size();
  const auto [read, error] = std::from_chars(name.data() + end + 1, last, found.rank);
  if (error != std::errc() || read != last || found.rank < 0) return std::nullopt;
  name = name.substr(0, end);
  if (const auto colon = name.find(':'); colon != std::string_view::npos) {
    found.attempt.generation = name.substr(0, colon);
    name.remove_prefix(colon + 1);
  }
  auto id = model::parse_attempt_id(name);
  if (!id || !model::check_generation(found.attempt.generation)) return std::nullopt;
  found.attempt.id = *std::move(id);
  return found;
}

}  // namespace lockstep::host
