#include "platform/agent/ranks/secret_mask.h"

#include <algorithm>

namespace lockstep::agent {
namespace {

constexpr std::string_view kMasked = "***";
constexpr std::string_view kBlanks = " \t\r\n";

// A file often ends with a line end that the program strips.
std::string_view without_blanks_around(std::string_view value) {
  const auto begin = value.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return value.substr(begin, value.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

SecretMask::SecretMask(const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    const std::string_view bare = without_blanks_around(value);
    if (bare.size() < kValueMin) continue;
    values_.emplace_back(bare);
    begins_[static_cast<unsigned char>(bare.front())] = true;
  }
  std::ranges::sort(values_, std::ranges::greater(), &std::string::size);
}

SecretMask::Found SecretMask::find_at(std::string_view bytes) const {
  Found found;
  for (const std::string& value : values_) {
    if (bytes.starts_with(value)) return {value.size(), found.needs_more};
    if (bytes.size() < value.size() && value.starts_with(bytes)) found.needs_more = true;
  }
  return found;
}

std::size_t SecretMask::replace(std::string_view bytes, bool is_end, std::string& out) const {
  std::size_t copied = 0;
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (!begins_[static_cast<unsigned char>(bytes[at])]) {
      ++at;
      continue;
    }
    const Found found = find_at(bytes.substr(at));
    if (found.needs_more && !is_end) break;
    if (found.value == 0) {
      ++at;
      continue;
    }
    out.append(bytes.substr(copied, at - copied)).append(kMasked);
    at += found.value;
    copied = at;
  }
  out.append(bytes.substr(copied, at - copied));
  return at;
}

std::string_view SecretMask::pass(std::string_view bytes) {
  if (values_.empty()) return bytes;
  out_.clear();
  if (held_.empty()) {
    held_ = bytes.substr(replace(bytes, /*is_end=*/false, out_));
    return out_;
  }
  held_ += bytes;
  held_.erase(0, replace(held_, /*is_end=*/false, out_));
  return out_;
}

std::string_view SecretMask::pass_rest() {
  out_.clear();
  replace(held_, /*is_end=*/true, out_);
  held_.clear();
  return out_;
}

std::string SecretMask::masked(std::string_view text) const {
  std::string out;
  replace(text, /*is_end=*/true, out);
  return out;
}

SecretMask mask_of(const std::map<std::string, std::string>& environment,
                   const std::vector<std::string>& secret_variables,
                   std::vector<std::string> values) {
  for (const std::string& variable : secret_variables)
    if (const auto found = environment.find(variable); found != environment.end())
      values.push_back(found->second);
  return SecretMask(values);
}

}  // namespace lockstep::agent
