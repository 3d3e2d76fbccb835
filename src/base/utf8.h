// UTF-8: what is valid, and what of it acts on a terminal in place of being shown: controls (ESC,
// BEL, NUL, newlines, ...) and the characters that turn the direction of text.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// As RFC 3629 has it: no overlong forms, no surrogates, nothing beyond Unicode.
bool is_utf8(std::string_view bytes);
// Valid, and without the characters that act on a terminal.
bool is_printable(std::string_view words);
// With those characters spelled out, tabs excepted: ^[ for ESC, ^G for BEL, <U+202E> for a turn of
// direction. A byte that is not UTF-8 becomes <FF>.
std::string visible(std::string_view words);

}  // namespace lockstep
