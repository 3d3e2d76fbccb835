#include "train/policy.h"

#include "base/format.h"

namespace lockstep {
namespace {

std::string_view strategy(const Policy& policy, int n) {
  const auto [p, g, o, bucket, first] = policy;
  if (p == 1 && g == 1 && o == 1) return "ddp";
  if (p == 1 && g == 1 && o == n) return "zero1";
  if (p == 1 && g == n && o == n) return "zero2";
  if (p == n && g == n && o == n) return "zero3";
  if (p == g && g == o) return "mics";
  return "policy";
}

std::string_view missing(const Policy& policy) {
  if (policy.parameters != 1) return "sharded parameters";
  if (policy.gradients != 1) return "sharded gradients";
  return "a sharded optimizer";
}

}  // namespace

std::string text(const Policy& policy, int world_size) {
  return format("{} ({}, {}, {})", strategy(policy, world_size), policy.parameters,
                policy.gradients, policy.optimizer);
}

Result<void> check(const Policy& policy, const Mesh& mesh) {
  const int n = mesh.world_size();
  for (int group : {policy.parameters, policy.gradients, policy.optimizer})
    if (group < 1 || n % group != 0)
      return Error{Code::invalid,
                   format("{}: group size {} does not divide {} ranks", text(policy, n), group, n)};
  if (policy.parameters != 1 || policy.gradients != 1 || policy.optimizer != 1)
    return Error{Code::invalid, format("{} needs {}, which is not available: use ddp (1, 1, 1)",
                                       text(policy, n), missing(policy))};
  if (policy.bucket <= 0_B || policy.first_bucket <= 0_B)
    return Error{Code::invalid, format("bucket sizes must be positive, got {} and {}",
                                       text(policy.bucket), text(policy.first_bucket))};
  return {};
}

}  // namespace lockstep
