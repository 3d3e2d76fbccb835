#include "train/policy.h"

#include <charconv>
#include <numeric>
#include <set>
#include <utility>

#include "base/format.h"

namespace lockstep::train {
namespace {

constexpr std::string_view kNames = "ddp, zero1, zero2, zero3, mics:P, mics:P+opt, ps:K or auto";

std::string strategy(const Policy& policy, int n) {
  const int p = policy.parameters;
  const int g = policy.gradients;
  const int o = policy.optimizer;
  if (p == 1 && g == 1 && o == 1) return "ddp";
  if (p == 1 && g == 1 && o == n) return "zero1";
  if (p == 1 && g == n && o == n) return "zero2";
  if (p == n && g == n && o == n) return "zero3";
  if (p == g) return format("mics:{}{}", p, o == g ? "" : "+opt");
  return "policy";
}

// "1, 2, 4" for 4.
std::string divisors(int number) {
  std::string list;
  for (int i = 1; i <= number; ++i)
    if (number % i == 0) list += format("{}{}", i == 1 ? "" : ", ", i);
  return list;
}

bool take_suffix(std::string_view& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  return true;
}

bool take_prefix(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

std::optional<int> number(std::string_view digits) {
  int value = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failed != std::errc() || end != digits.data() + digits.size() || value < 0)
    return std::nullopt;
  return value;
}

// The P of "mics:P"; 0 if there is none.
int group_size(std::string_view name) {
  return take_prefix(name, "mics:") ? number(name).value_or(0) : 0;
}

// Up to the separator, which is removed too.
std::string_view take_until(std::string_view& rest, char separator) {
  const auto end = std::min(rest.find(separator), rest.size());
  const auto part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

Error server_error(std::string_view name, const std::string& why) {
  return {Code::invalid, format("policy {}: {}", name, why)};
}

// "4;5"
Result<std::vector<int>> read_servers(std::string_view name, std::string_view list, int count) {
  std::vector<int> servers;
  while (!list.empty()) {
    const auto text = take_until(list, ';');
    const auto rank = number(text);
    if (!rank) return server_error(name, format("server '{}' is not the number of a rank", text));
    servers.push_back(*rank);
  }
  if (std::ssize(servers) != count)
    return server_error(name, format("{} servers are named, and ps:{} has {}: name as many",
                                     servers.size(), count, count));
  return servers;
}

// One of "async", "staleness=S" and "servers=R;R".
Result<void> read_server_option(std::string_view name, std::string_view option, int count,
                                Policy& policy) {
  if (option == "async") {
    policy.staleness.reset();
  } else if (take_prefix(option, "staleness=")) {
    const auto steps = number(option);
    if (!steps)
      return server_error(name, format("staleness '{}' is not a number of steps", option));
    policy.staleness = *steps;
  } else if (take_prefix(option, "servers=")) {
    policy.servers = TRY(read_servers(name, option, count));
  } else {
    return server_error(name, format("option '{}': there are staleness=STEPS, async and "
                                     "servers=RANK;RANK",
                                     option));
  }
  return {};
}

Result<Policy> read_parameter_servers(std::string_view name, std::string_view rest, int n) {
  Policy policy;
  take_prefix(rest, "ps:");
  const auto text = take_until(rest, ',');
  const int count = number(text).value_or(0);
  if (count < 1)
    return server_error(name, format("'{}' is not a number of servers: write ps:1", text));
  if (count < n) {
    policy.servers.resize(static_cast<std::size_t>(count));
    std::iota(policy.servers.begin(), policy.servers.end(), n - count);
  }
  while (!rest.empty()) TRY(read_server_option(name, take_until(rest, ','), count, policy));
  if (count >= n)
    return server_error(name, format("{} servers leave no worker among {} ranks: use {} servers at "
                                     "most, or more ranks",
                                     count, n, n - 1));
  TRY(check(policy, n));
  return policy;
}

// The servers are ranks, each once.
Result<void> check_servers(const Policy& policy, int n) {
  std::set<int> seen;
  for (const int rank : policy.servers) {
    if (rank >= n)
      return Error{Code::invalid,
                   format("policy {}: server {} is not among the ranks 0 to {}: name one of them",
                          text(policy, n), rank, n - 1)};
    if (!seen.insert(rank).second)
      return Error{Code::invalid, format("policy {}: rank {} is named twice: name another one",
                                         text(policy, n), rank)};
  }
  return {};
}

// "auto" or "auto:16GiB"; false if it is another.
Result<bool> read_automatic(std::string_view name, Policy& policy) {
  policy.automatic = name == "auto";
  if (!take_prefix(name, "auto:")) return policy.automatic;
  policy.automatic = true;
  policy.memory = TRY(parse_bytes(name));
  if (policy.memory <= 0_B) return Error{Code::invalid, "a device has more memory than none"};
  return true;
}

void read_suffixes(std::string_view& name, Policy& policy) {
  for (bool found = true; found;) {
    found = false;
    if (take_suffix(name, "+keep")) found = policy.keep_gathered = true;
    if (take_suffix(name, "+recompute")) found = policy.recompute = true;
    if (take_suffix(name, "+offload")) found = policy.offload = true;
  }
}

std::string suffixes(const Policy& policy) {
  return format("{}{}{}", policy.keep_gathered ? "+keep" : "", policy.recompute ? "+recompute" : "",
                policy.offload ? "+offload" : "");
}

}  // namespace

Result<Policy> parse_policy(std::string_view name, int world_size) {
  const int n = world_size;
  auto rest = name;
  Policy policy;
  read_suffixes(rest, policy);
  auto automatic = read_automatic(rest, policy);
  if (!automatic) return std::move(automatic).error().with_context(format("policy {}", name));
  if (*automatic) return policy;
  if (rest.starts_with("ps:")) {
    if (rest.size() < name.size())
      return server_error(
          name, format("'{}' is not for servers: leave it out", name.substr(rest.size())));
    return read_parameter_servers(name, rest, n);
  }
  const bool over_all = take_suffix(rest, "+opt");
  if (const int p = group_size(rest)) {
    policy.parameters = policy.gradients = p;
    policy.optimizer = over_all ? n : p;
  } else if (over_all) {
    return Error{Code::invalid, format("policy {}: only mics:P takes +opt", name)};
  } else if (rest == "zero1") {
    policy.optimizer = n;
  } else if (rest == "zero2") {
    policy.gradients = policy.optimizer = n;
  } else if (rest == "zero3") {
    policy.parameters = policy.gradients = policy.optimizer = n;
  } else if (rest != "ddp") {
    return Error{Code::invalid, format("policy {}: there are {}", name, kNames)};
  }
  TRY(check(policy, n));
  return policy;
}

std::string text(const Policy& policy, int world_size) {
  if (policy.automatic) return format("auto{}", suffixes(policy));
  if (policy.has_servers()) {
    const auto bound = !policy.staleness       ? std::string(",async")
                       : *policy.staleness > 0 ? format(",staleness={}", *policy.staleness)
                                               : "";
    return format("ps:{}{} (servers {})", policy.servers.size(), bound,
                  joined(policy.servers, ", "));
  }
  return format("{}{} ({}, {}, {})", strategy(policy, world_size), suffixes(policy),
                policy.parameters, policy.gradients, policy.optimizer);
}

Result<void> check(const Policy& policy, int world_size) {
  TRY(check_servers(policy, world_size));
  const int p = policy.parameters;
  const int g = policy.gradients;
  const int o = policy.optimizer;
  for (int group : {p, g, o})
    if (group < 1 || world_size % group != 0)
      return Error{Code::invalid,
                   format("policy {}: groups of {} do not divide {} ranks: use one of {}",
                          text(policy, world_size), group, world_size, divisors(world_size))};
  if ((p != 1 && p != g) || (o != g && o != world_size))
    return Error{
        Code::invalid,
        format("policy {}: parameters are divided by 1 or as gradients, optimizer state as "
               "gradients or over all {} ranks",
               text(policy, world_size), world_size)};
  if (policy.keep_gathered && p == 1 && world_size > 1 && !policy.automatic)
    return Error{Code::invalid, format("policy {}: parameters are whole all the time: leave +keep "
                                       "away",
                                       text(policy, world_size))};
  if (policy.bucket <= 0_B || policy.first_bucket <= 0_B)
    return Error{Code::invalid,
                 format("bucket sizes must be positive, got {} and {}",
                        lockstep::text(policy.bucket), lockstep::text(policy.first_bucket))};
  return {};
}

}  // namespace lockstep::train
