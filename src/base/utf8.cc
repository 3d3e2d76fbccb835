#include "base/utf8.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/format.h"

namespace lockstep {
namespace {

struct Character {
  std::uint32_t point = 0;
  std::size_t bytes = 1;
};

std::size_t length_by(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf5 ? 4 : 0;
}

// The first character of a text that is not empty; nothing if it is not UTF-8.
std::optional<Character> first_character(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  const std::size_t length = length_by(lead);
  if (length == 0 || length > bytes.size()) return std::nullopt;
  std::uint32_t point = length == 1 ? lead : lead & (0x7fu >> length);
  for (std::size_t k = 1; k < length; ++k) {
    const auto next = static_cast<unsigned char>(bytes[k]);
    if ((next & 0xc0) != 0x80) return std::nullopt;
    point = point << 6 | (next & 0x3fu);
  }
  // Overlong forms, surrogates, beyond Unicode.
  if ((length == 3 && point < 0x800) || (length == 4 && (point < 0x10000 || point > 0x10ffff)) ||
      (point >= 0xd800 && point < 0xe000))
    return std::nullopt;
  return Character{point, length};
}

bool is_control(std::uint32_t point) { return point < 0x20 || (point >= 0x7f && point < 0xa0); }

// Marks, embeddings, overrides and isolates of the Unicode Bidirectional Algorithm, and the line
// and paragraph separators.
bool changes_direction(std::uint32_t point) {
  return point == 0x061c || point == 0x200e || point == 0x200f ||
         (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto character = first_character(bytes);
    if (!character) return false;
    bytes.remove_prefix(character->bytes);
  }
  return true;
}

bool is_printable(std::string_view input) {
  while (!input.empty()) {
    const auto character = first_character(input);
    if (!character || is_control(character->point) || changes_direction(character->point))
      return false;
    input.remove_prefix(character->bytes);
  }
  return true;
}

std::string escape_controls(std::string_view input) {
  std::string shown;
  while (!input.empty()) {
    const auto character = first_character(input);
    const std::size_t bytes = character ? character->bytes : 1;
    const std::uint32_t point = character ? character->point : 0;
    if (!character)
      shown += format("<{:02X}>", static_cast<unsigned char>(input[0]));
    else if (point != '\t' && (point < 0x20 || point == 0x7f))
      shown += format("^{}", static_cast<char>(point ^ 0x40));
    else if (point != '\t' && (is_control(point) || changes_direction(point)))
      shown += format("<U+{:04X}>", point);
    else
      shown += input.substr(0, bytes);
    input.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace lockstep
