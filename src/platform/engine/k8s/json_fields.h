// Fields of objects that another program sent: one that is missing, or of another type, is empty.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "text/json.h"

namespace lockstep::engine {

// Null if there is none.
const Json& field_of(const Json& object, std::initializer_list<std::string_view> path);
// Empty unless it is text.
std::string text_of(const Json& object, std::initializer_list<std::string_view> path);
// An empty array unless it is one.
const Json& items_of(const Json& object, std::initializer_list<std::string_view> path);

}  // namespace lockstep::engine
