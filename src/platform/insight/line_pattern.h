// LinePattern: a regular expression of RE2, which takes linear time for any pattern and line.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/api/insight_messages.h"

namespace re2 {
class RE2;
}

namespace lockstep::insight {

enum class LetterCase { exact, ignored };

class LinePattern {
 public:
  // Code::invalid: RE2 refuses the pattern, or it is too large.
  static Result<LinePattern> create(const std::string& pattern, LetterCase letters);
  LinePattern(LinePattern&&) noexcept;
  LinePattern& operator=(LinePattern&&) noexcept;
  ~LinePattern();

  bool matches(std::string_view line) const;
  // From left to right without overlaps, the first kMatchesMax; empty matches are left out.
  std::vector<api::MatchedPart> parts(std::string_view line) const;

  static constexpr std::size_t kMatchesMax = 100;

 private:
  explicit LinePattern(std::unique_ptr<re2::RE2> compiled);

  std::unique_ptr<re2::RE2> compiled_;
};

}  // namespace lockstep::insight
