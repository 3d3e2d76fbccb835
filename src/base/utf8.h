// UTF-8: which text is valid, and which characters act on a terminal instead of being shown:
// controls (ESC, BEL, NUL, newlines, ...) and the characters that change the direction of text.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// According to RFC 3629: no overlong forms, no surrogates, nothing beyond Unicode.
bool is_utf8(std::string_view bytes);
// Valid, and without the characters that act on a terminal.
bool is_printable(std::string_view input);
// Replaces these characters, except tabs, by visible text: ^[ for ESC, ^G for BEL, <U+202E> for a
// change of direction. A byte that is not UTF-8 becomes <FF>.
std::string escape_controls(std::string_view input);

}  // namespace lockstep
