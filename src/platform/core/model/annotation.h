// Tags and the note of a run: text that users give a run at any time, and that Lockstep never
// reads.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"

namespace lockstep::model {

using Tags = std::map<std::string, std::string>;

inline constexpr std::size_t kTagsMax = 50;
inline constexpr std::size_t kTagKeyBytesMax = 64;
inline constexpr std::size_t kTagValueBytesMax = 256;
inline constexpr std::size_t kNoteBytesMax = 4096;

// A tag that a list of runs asks for; without a value: any.
struct TagFilter {
  std::string key;
  std::optional<std::string> value{};
};
bool has_tag(const Tags& tags, const TagFilter& filter);

// The tags with these changes; an empty value removes the tag. Code::invalid: a key or a value is
// too long or has characters that it must not have, or there would be too many.
Result<Tags> changed_tags(Tags tags, const Tags& changes);
// Text of several lines. Code::invalid: too long, or with control characters.
Result<void> check_note(const std::string& note);

}  // namespace lockstep::model
