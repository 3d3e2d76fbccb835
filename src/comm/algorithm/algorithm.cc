#include "comm/algorithm/algorithm.h"

#include <algorithm>

#include "base/format.h"
#include "comm/algorithm/links/flat_all_reduce.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {
namespace {

constexpr std::string_view kHierarchical = ",hierarchical";

// True if several ranks share memory on at least one host, and no host has too many ranks for one
// reduction.
bool has_hierarchy(const GroupShape& group) {
  return group.hosts > 1 && group.ranks_per_host_max > 1 &&
         group.ranks_per_host_max <= static_cast<int>(kReductionOperands);
}

// True if the algorithm can run the operation, among all ranks or between hosts.
bool is_supported(Algorithm algorithm, Operation operation, std::size_t bytes) {
  switch (algorithm) {
    case Algorithm::flat:
      return operation == Operation::all_reduce && bytes <= kFlatBytes;
    case Algorithm::ring:
      return operation == Operation::all_reduce || operation == Operation::reduce_scatter ||
             operation == Operation::all_gather || operation == Operation::broadcast ||
             operation == Operation::reduce;
    case Algorithm::recursive_doubling:
    case Algorithm::halving_doubling:
      return operation == Operation::all_reduce;
    case Algorithm::double_tree:
      return operation == Operation::all_reduce || operation == Operation::broadcast ||
             operation == Operation::reduce;
    case Algorithm::pairwise:
      return operation == Operation::gather || operation == Operation::scatter ||
             operation == Operation::all_to_all;
    case Algorithm::dissemination:
      return operation == Operation::barrier;
  }
  return false;
}

bool can_be_hierarchical(Operation operation, const GroupShape& group) {
  switch (operation) {
    case Operation::all_reduce:
    case Operation::broadcast:
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::barrier:
    case Operation::reduce:
      return has_hierarchy(group);
    default:
      return false;
  }
}

}  // namespace

std::string_view text(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::flat:
      return "flat";
    case Algorithm::ring:
      return "ring";
    case Algorithm::recursive_doubling:
      return "recursive_doubling";
    case Algorithm::halving_doubling:
      return "halving_doubling";
    case Algorithm::double_tree:
      return "double_tree";
    case Algorithm::pairwise:
      return "pairwise";
    case Algorithm::dissemination:
      return "dissemination";
  }
  return "unknown algorithm";
}

std::string text(const CallPlan& plan) {
  return format("{}{}", text(plan.algorithm), plan.hierarchical ? kHierarchical : "");
}

Result<CallPlan> parse_plan(std::string_view plan_text) {
  const bool hierarchical = plan_text.ends_with(kHierarchical);
  const auto name =
      plan_text.substr(0, plan_text.size() - (hierarchical ? kHierarchical.size() : 0));
  std::vector<std::string_view> names;
  for (const auto algorithm : kAlgorithms) {
    if (text(algorithm) == name) return CallPlan{algorithm, hierarchical};
    names.push_back(text(algorithm));
  }
  return Error{Code::invalid,
               format("there is no algorithm '{}'; there are {}, each also with '{}' after it",
                      plan_text, joined(names, ", "), kHierarchical)};
}

GroupShape shape_of(std::span<const std::vector<int>> hosts) {
  GroupShape group{0, static_cast<int>(hosts.size()), 0, 0};
  for (const auto& ranks : hosts) {
    const auto count = static_cast<int>(ranks.size());
    group.ranks += count;
    group.ranks_per_host_min =
        group.ranks_per_host_min == 0 ? count : std::min(group.ranks_per_host_min, count);
    group.ranks_per_host_max = std::max(group.ranks_per_host_max, count);
  }
  return group;
}

bool fits(const CallPlan& plan, Operation operation, std::size_t bytes, const GroupShape& group) {
  return is_supported(plan.algorithm, operation, bytes) &&
         (!plan.hierarchical || can_be_hierarchical(operation, group));
}

std::vector<CallPlan> fitting_plans(Operation operation, std::size_t bytes,
                                    const GroupShape& group) {
  std::vector<CallPlan> plans;
  for (const auto algorithm : kAlgorithms)
    for (const bool hierarchical : {false, true})
      if (const CallPlan plan{algorithm, hierarchical}; fits(plan, operation, bytes, group))
        plans.push_back(plan);
  return plans;
}

}  // namespace lockstep::comm
