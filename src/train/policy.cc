#include "train/policy.h"

#include <charconv>
#include <utility>

#include "base/format.h"

namespace lockstep::train {
namespace {

constexpr std::string_view kNames = "ddp, zero1, zero2, zero3, mics:P, mics:P+opt or auto";

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

// The P of "mics:P"; 0 if there is none.
int group_size(std::string_view name) {
  if (!take_prefix(name, "mics:")) return 0;
  int size = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), size);
  return failed == std::errc() && end == name.data() + name.size() && size > 0 ? size : 0;
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
  return format("{}{} ({}, {}, {})", strategy(policy, world_size), suffixes(policy),
                policy.parameters, policy.gradients, policy.optimizer);
}

Result<void> check(const Policy& policy, int world_size) {
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
