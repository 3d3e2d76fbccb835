#include "platform/engine/k8s/json_fields.h"

namespace lockstep::engine {
namespace {

const Json kNoField;
const Json kNoItems = Json::array();

}  // namespace

const Json& field_of(const Json& object, std::initializer_list<std::string_view> path) {
  const Json* found = &object;
  for (const std::string_view name : path) {
    if (!found->is_object()) return kNoField;
    const auto field = found->find(std::string(name));
    if (field == found->end()) return kNoField;
    found = &*field;
  }
  return *found;
}

std::string text_of(const Json& object, std::initializer_list<std::string_view> path) {
  const Json& found = field_of(object, path);
  return found.is_string() ? found.get<std::string>() : "";
}

const Json& items_of(const Json& object, std::initializer_list<std::string_view> path) {
  const Json& found = field_of(object, path);
  return found.is_array() ? found : kNoItems;
}

}  // namespace lockstep::engine
