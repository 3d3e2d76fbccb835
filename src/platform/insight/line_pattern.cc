#include "platform/insight/line_pattern.h"

#include <re2/re2.h>

#include "base/format.h"

namespace lockstep::insight {
namespace {

constexpr std::size_t kPatternMax = 1000;
// If RE2's automaton outgrows its memory, each byte of a line costs a step for each instruction.
constexpr int kInstructionsMax = 300;
constexpr std::int64_t kMemory = 2 << 20;

re2::StringPiece piece_of(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

LinePattern::LinePattern(std::unique_ptr<re2::RE2> compiled) : compiled_(std::move(compiled)) {}
LinePattern::LinePattern(LinePattern&&) noexcept = default;
LinePattern& LinePattern::operator=(LinePattern&&) noexcept = default;
LinePattern::~LinePattern() = default;

Result<LinePattern> LinePattern::create(const std::string& pattern, LetterCase letters) {
  if (pattern.empty()) return Error{Code::invalid, "the pattern is empty"};
  if (pattern.size() > kPatternMax)
    return Error{Code::invalid, format("the pattern has more than {} bytes", kPatternMax)};
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_case_sensitive(letters == LetterCase::exact);
  options.set_max_mem(kMemory);
  auto compiled = std::make_unique<re2::RE2>(piece_of(pattern), options);
  if (!compiled->ok())
    return Error{Code::invalid, format("the pattern is not valid: {}", compiled->error())};
  if (compiled->ProgramSize() > kInstructionsMax)
    return Error{Code::invalid, "the pattern is too large: use smaller repetitions"};
  return LinePattern(std::move(compiled));
}

bool LinePattern::matches(std::string_view line) const {
  return re2::RE2::PartialMatch(piece_of(line), *compiled_);
}

std::vector<api::MatchedPart> LinePattern::parts(std::string_view line) const {
  std::vector<api::MatchedPart> parts;
  re2::StringPiece found;
  for (std::size_t from = 0; from < line.size() && parts.size() < kMatchesMax;) {
    if (!compiled_->Match(piece_of(line), from, line.size(), re2::RE2::UNANCHORED, &found, 1))
      break;
    const auto begin = static_cast<std::size_t>(found.data() - line.data());
    const std::size_t end = begin + found.size();
    if (end > begin)
      parts.push_back(
          {.begin = static_cast<std::int64_t>(begin), .end = static_cast<std::int64_t>(end)});
    from = end > begin ? end : end + 1;
  }
  return parts;
}

}  // namespace lockstep::insight
