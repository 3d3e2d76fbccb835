#include "checkpoint_notes.h"

#include <charconv>
#include <utility>

namespace gpt {
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
  for (const auto& [name, size] : kSizes) notes[name] = std::to_string(options.*size);
  return notes;
}

lockstep::Result<ModelOptions> options_of(const std::map<std::string, std::string>& notes) {
  ModelOptions options;
  for (const auto& [name, size] : kSizes) {
    const auto found = notes.find(name);
    const std::string text = found == notes.end() ? "" : found->second;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), options.*size);
    if (parsed.ec != std::errc() || options.*size < 1 || options.*size > 1 << 20)
      return lockstep::Error{
          lockstep::Code::corrupt,
          std::string("the checkpoint is not of gpt: its note ") + name + " is '" + text + "'"};
  }
  return options;
}

}  // namespace gpt
