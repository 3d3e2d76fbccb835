// Which vector instructions the arithmetic uses. All of them give the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace lockstep {

enum class InstructionSet : std::uint8_t {
  plain,   // what the compiler takes for granted: SSE2 on x86-64
  avx2,    // AVX2 and F16C
  avx512,  // AVX-512 F, BW, DQ and VL
};

std::string_view text(InstructionSet set);
// Those that this processor has, the best last.
std::span<const InstructionSet> instruction_sets();
// The wanted one, by its name, or else the best. Error: it is none of `there`; the message says
// which there are.
Result<InstructionSet> choose_instruction_set(std::optional<std::string_view> wanted,
                                              std::span<const InstructionSet> there);
// The one that reduce() uses: what LOCKSTEP_SIMD names, read once, or else the best. If
// LOCKSTEP_SIMD names none that there is, a warning says so: a slower sum is no reason to end a
// run.
InstructionSet chosen_instruction_set();

}  // namespace lockstep
