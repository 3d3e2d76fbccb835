#include "text/document.h"

namespace lockstep {

std::optional<int> Document::line_of(std::string_view pointer) const {
  while (true) {
    if (auto found = lines.find(pointer); found != lines.end()) return found->second;
    if (pointer.empty()) return std::nullopt;
    pointer = pointer.substr(0, pointer.rfind('/'));
  }
}

}  // namespace lockstep
