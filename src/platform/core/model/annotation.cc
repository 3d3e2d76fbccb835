#include "platform/core/model/annotation.h"

#include <algorithm>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::model {
namespace {

bool may_be_in_key(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '/';
}

Result<void> check_tag(const std::string& key, const std::string& value) {
  if (key.empty() || key.size() > kTagKeyBytesMax || !std::ranges::all_of(key, may_be_in_key) ||
      key.ends_with('-'))
    return Error{
        Code::invalid,
        format("tags: a key has 1 to {} letters, digits, '-', '_', '.' and '/', and no '-' "
               "at its end",
               kTagKeyBytesMax)};
  if (value.size() > kTagValueBytesMax || !is_printable(value))
    return Error{Code::invalid, format("tags: the value of {} must be text of one line with at "
                                       "most {} bytes, it has {}",
                                       key, kTagValueBytesMax, value.size())};
  return {};
}

}  // namespace

bool has_tag(const Tags& tags, const TagFilter& filter) {
  const auto found = tags.find(filter.key);
  return found != tags.end() && found->second == filter.value.value_or(found->second);
}

Result<Tags> changed_tags(Tags tags, const Tags& changes) {
  for (const auto& [key, value] : changes) {
    TRY(check_tag(key, value));
    if (value.empty())
      tags.erase(key);
    else
      tags[key] = value;
  }
  if (tags.size() <= kTagsMax) return tags;
  return Error{Code::invalid, format("tags: a run has at most {}, with these it would have {}",
                                     kTagsMax, tags.size())};
}

Result<void> check_note(const std::string& note) {
  if (note.size() > kNoteBytesMax)
    return Error{Code::invalid, format("note: it may have {} bytes, and this one has {}",
                                       kNoteBytesMax, note.size())};
  std::string shown = note;
  std::erase_if(shown, [](char c) { return c == '\n' || c == '\t'; });
  if (!is_printable(shown))
    return Error{Code::invalid, "note: it must be text without control characters"};
  return {};
}

}  // namespace lockstep::model
