#include "platform/k8s/names.h"

#include <algorithm>
#include <array>

#include "base/format.h"

namespace lockstep::k8s {
namespace {

constexpr std::size_t kLabelMax = 63;
constexpr std::size_t kNameMax = 253;

// ASCII only, whatever the locale is.
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alphanumeric(char c) { return is_lower(c) || is_digit(c) || (c >= 'A' && c <= 'Z'); }

bool consists_of(std::string_view words, bool (*allowed)(char)) {
  return !words.empty() && std::ranges::all_of(words, allowed);
}

bool is_dns_part(std::string_view name) {
  return consists_of(name, [](char c) { return is_lower(c) || is_digit(c) || c == '-'; }) &&
         name.front() != '-' && name.back() != '-';
}

// The name in a key, and the value of a label.
bool is_label_text(std::string_view words) {
  return words.size() <= kLabelMax &&
         consists_of(
             words,
             [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; }) &&
         is_alphanumeric(words.front()) && is_alphanumeric(words.back());
}

bool is_dns_subdomain(std::string_view name) {
  if (name.empty() || name.size() > kNameMax) return false;
  while (true) {
    const std::size_t dot = name.find('.');
    if (!is_dns_part(name.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

Error wrong(std::string_view words, std::string_view expected) {
  return Error{Code::invalid, format("'{}': {}", words, expected)};
}

constexpr std::array<std::string_view, 15> kSuffixes = {
    "", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n"};

bool is_decimal(std::string_view words) {
  const std::size_t dot = std::min(words.find('.'), words.size());
  if (!consists_of(words.substr(0, dot), is_digit)) return false;
  return dot == words.size() || consists_of(words.substr(dot + 1), is_digit);
}

}  // namespace

Result<void> check_dns_label(std::string_view name, std::size_t length_max) {
  if (is_dns_part(name) && is_lower(name.front()) && name.size() <= length_max) return {};
  return wrong(name, format("write a name of at most {} lower-case letters, digits and '-' that "
                            "begins with a letter, such as train-1",
                            length_max));
}

Result<void> check_object_name(std::string_view name) {
  if (is_dns_subdomain(name)) return {};
  return wrong(name, "write a name of lower-case letters, digits, '-' and '.', such as train-data");
}

Result<void> check_variable(std::string_view name) {
  const auto allowed = [](char c) {
    return is_alphanumeric(c) || c == '_' || c == '-' || c == '.';
  };
  if (consists_of(name, allowed) && !is_digit(name.front())) return {};
  return wrong(name, "write a variable as NAME=VALUE; its name has letters, digits and '_'");
}

Result<void> check_key(std::string_view key) {
  const std::size_t slash = key.find('/');
  const bool has_prefix = slash != std::string_view::npos;
  if (is_label_text(has_prefix ? key.substr(slash + 1) : key) &&
      (!has_prefix || is_dns_subdomain(key.substr(0, slash))))
    return {};
  return wrong(key, "write NAME or PREFIX/NAME, such as team or example.com/team");
}

Result<void> check_label_value(std::string_view value) {
  if (value.empty() || is_label_text(value)) return {};
  return wrong(value, "write a value of at most 63 letters, digits, '-', '_' and '.'");
}

Result<void> check_path(std::string_view path) {
  if (path.size() > 1 && path.front() == '/' && path.find(':') == std::string_view::npos) return {};
  return wrong(path, "write an absolute path without ':', such as /data");
}

Result<KeyValue> parse_key_value(std::string_view words) {
  const std::size_t equals = words.find('=');
  if (equals == 0 || equals == std::string_view::npos) return wrong(words, "write KEY=VALUE");
  return KeyValue(words.substr(0, equals), words.substr(equals + 1));
}

Result<KeyValue> parse_label(std::string_view words) {
  KeyValue label = TRY(parse_key_value(words));
  TRY(check_key(label.first));
  TRY(check_label_value(label.second));
  return label;
}

Result<std::string> parse_quantity(std::string_view words) {
  std::string quantity(words);
  std::erase(quantity, ' ');
  if (quantity.size() > 2 && quantity.back() == 'B' && !is_digit(quantity[quantity.size() - 2]))
    quantity.pop_back();
  const std::size_t letters = std::min(quantity.find_first_not_of("0123456789."), quantity.size());
  if (is_decimal(std::string_view(quantity).substr(0, letters)) &&
      std::ranges::find(kSuffixes, std::string_view(quantity).substr(letters)) != kSuffixes.end())
    return quantity;
  return wrong(words, "write a quantity of Kubernetes, such as 2, 500m or 64Gi");
}

}  // namespace lockstep::k8s
