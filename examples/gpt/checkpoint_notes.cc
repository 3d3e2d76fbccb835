#include "checkpoint_notes.h"

#include <charconv>
#include <utility>

#include "base/format.h"

namespace lockstep::gpt {
namespace {

constexpr std::pair<const char*, std::int64_t ModelOptions::*> kSizes[] = {
    {"layers", &ModelOptions::layers},
    {"heads", &ModelOptions::heads},
    {"width", &ModelOptions::width},
    {"context", &ModelOptions::context},
};

}  // namespace

std::map<std::string, std::string> notes_of(const ModelOptions& options) {
  std::map<std::string, std::string> notes;
  for (const auto& [name, size] : kSizes) notes[name] = format("{}", options.*size);
  return notes;
}

Result<ModelOptions> options_of(const std::map<std::string, std::string>& notes) {
  ModelOptions options;
  for (const auto& [name, size] : kSizes) {
    const auto found = notes.find(name);
    const std::string words = found == notes.end() ? "" : found->second;
    const auto parsed = std::from_chars(words.data(), words.data() + words.size(), options.*size);
    if (parsed.ec != std::errc() || options.*size < 1 || options.*size > 1 << 20)
      return Error{Code::corrupt,
                   format("the checkpoint's note {} is '{}': it is none of gpt's", name, words)};
  }
  return options;
}

}  // namespace lockstep::gpt
