#include "comm/reduction/instruction_set.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "base/log.h"

namespace lockstep::comm {
namespace {

std::vector<InstructionSet> find_instruction_sets() {
  std::vector<InstructionSet> found = {InstructionSet::plain};
#if defined(__x86_64__)
  // The compiler's function also checks that the system saves the wide registers.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) return found;
  found.push_back(InstructionSet::avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    found.push_back(InstructionSet::avx512);
#endif
  return found;
}

std::string names(std::span<const InstructionSet> sets) {
  std::string all;
  for (const auto set : sets) all += format("{}{}", all.empty() ? "" : ", ", text(set));
  return all;
}

InstructionSet from_environment() {
  const char* value = std::getenv("LOCKSTEP_SIMD");
  const auto wanted = value == nullptr ? std::nullopt : std::optional<std::string_view>(value);
  const auto there = instruction_sets();
  const auto chosen = choose_instruction_set(wanted, there);
  if (chosen) return chosen.value();
  LS_LOG(warning, "LOCKSTEP_SIMD: {}; going on with {}", chosen.error().message,
         text(there.back()));
  return there.back();
}

}  // namespace

std::string_view text(InstructionSet set) {
  switch (set) {
    case InstructionSet::plain:
      return "plain";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
  }
  return "unknown instruction set";
}

std::span<const InstructionSet> instruction_sets() {
  static const std::vector<InstructionSet> there = find_instruction_sets();
  return there;
}

Result<InstructionSet> choose_instruction_set(std::optional<std::string_view> wanted,
                                              std::span<const InstructionSet> there) {
  if (!wanted) return there.back();
  for (const auto set : there)
    if (text(set) == *wanted) return set;
  return Error{Code::invalid,
               format("'{}' is not one of what this processor has: {}", *wanted, names(there))};
}

InstructionSet chosen_instruction_set() {
  static const InstructionSet chosen = from_environment();
  return chosen;
}

}  // namespace lockstep::comm
