// dump_yaml. yaml-cpp's emitter is not used: it quotes by YAML 1.1 and does not allow this layout.
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "text/document.h"
#include "text/plain_scalar.h"

namespace lockstep {
namespace {

constexpr std::size_t kWidth = 100;

// Booleans in YAML 1.1.
bool is_old_boolean(std::string_view input) {
  static constexpr std::string_view kWords[] = {"y", "n", "yes", "no", "on", "off"};
  std::string lower(input);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::find(std::begin(kWords), std::end(kWords), lower) != std::end(kWords);
}

// Numbers and dates in YAML 1.1, which kubectl and others read: 1_000, 0b11, 2026-11-21.
bool is_old_number(std::string_view input) {
  return input.find_first_not_of("0123456789abcdefABCDEFoOxX_.+-") == std::string_view::npos &&
         std::string_view("0123456789.+").find(input.front()) != std::string_view::npos;
}

bool is_safe_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view(" _./+-").find(c) != std::string_view::npos;
}

// Conservative: quotes wherever it is not obvious that quotes are unnecessary.
bool may_be_plain(const std::string& input) {
  if (input.empty() || input.front() == ' ' || input.back() == ' ' || input.front() == '-')
    return false;
  if (input == "..." || is_old_boolean(input) || is_old_number(input)) return false;
  if (!std::all_of(input.begin(), input.end(), is_safe_letter)) return false;
  auto read_back = parse_plain_scalar(input);
  return read_back && read_back->is_string() && *read_back == input;
}

std::string scalar(const Json& value) {
  if (value.is_string() && may_be_plain(value.get_ref<const std::string&>()))
    return value.get<std::string>();
  return dump_json(value);
}

std::string key_text(const std::string& key) { return scalar(Json(key)) + ":"; }

bool is_dropped(const Json& parent, const Json& value) {
  return parent.is_object() && value.is_null();
}

std::string flow(const Json& value) {
  if (!value.is_structured()) return scalar(value);
  std::string inside;
  for (const auto& [key, item] : value.items()) {
    if (is_dropped(value, item)) continue;
    if (!inside.empty()) inside += ", ";
    if (value.is_object()) inside += key_text(key) + " ";
    inside += flow(item);
  }
  return value.is_object() ? "{" + inside + "}" : "[" + inside + "]";
}

bool is_leaf(const Json& value) {
  return !value.is_structured() || std::none_of(value.begin(), value.end(), [](const Json& item) {
    return item.is_structured();
  });
}

// Writes the value after "key:" or "-": on the same line if it is short and has nothing nested.
void put(std::string& out, const Json& value, std::size_t indent);

void put_members(std::string& out, const Json& value, std::size_t indent, bool continues_line) {
  for (const auto& [key, item] : value.items()) {
    if (is_dropped(value, item)) continue;
    if (!std::exchange(continues_line, false)) out += std::string(indent, ' ');
    out += value.is_object() ? key_text(key) : "-";
    put(out, item, indent + 2);
  }
}

void put(std::string& out, const Json& value, std::size_t indent) {
  if (is_leaf(value)) {
    std::string line = flow(value);
    if (!value.is_structured() || value.empty() || indent + line.size() <= kWidth) {
      out += " " + line + "\n";
      return;
    }
  }
  // "- key: ..." for objects in a list, a new line otherwise.
  bool is_list_item = out.back() == '-';
  out += is_list_item && value.is_object() ? " " : "\n";
  put_members(out, value, indent, is_list_item && value.is_object());
}

}  // namespace

std::string dump_yaml(const Json& value) {
  if (!value.is_structured() || value.empty()) return flow(value) + "\n";
  std::string out;
  put_members(out, value, 0, false);
  return out;
}

}  // namespace lockstep
