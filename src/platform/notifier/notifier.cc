#include "platform/notifier/notifier.h"

#include <algorithm>
#include <string_view>

#include "base/format.h"
#include "net/http/url.h"
#include "platform/curl/libcurl.h"
#include "platform/notifier/command.h"
#include "platform/notifier/http_and_mail.h"

namespace lockstep::notifier {
namespace {

using notice::TargetKind;

constexpr std::size_t kUrlMax = 2000;
constexpr std::size_t kMailMax = 254;

// "https://host:port" of a URL; empty: it is none of HTTP.
std::string origin_of(const std::string& url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string::npos) return "";
  const std::string name = url.substr(0, scheme);
  if (name != "http" && name != "https") return "";
  const std::size_t begin = scheme + 3;
  const std::size_t end = std::min(url.find_first_of("/?#\\", begin), url.size());
  const std::string authority = url.substr(begin, end - begin);
  const std::size_t at = authority.rfind('@');
  const std::string host = at == std::string::npos ? authority : authority.substr(at + 1);
  return net::host_of(host) ? format("{}://{}", name, host) : "";
}

// Without the words: they may be a secret.
Result<void> check_url(const std::string& url) {
  const bool is_plain =
      std::ranges::all_of(url, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (url.size() <= kUrlMax && is_plain && !origin_of(url).empty()) return {};
  return Error{Code::invalid,
               format("a webhook is a URL such as https://example.com/path, of at most {} "
                      "characters of ASCII without blanks",
                      kUrlMax)};
}

}  // namespace

Result<void> check_mail_address(const std::string& address) {
  const std::size_t at = address.find('@');
  const bool is_plain = std::ranges::all_of(address, [](unsigned char c) {
    return c > ' ' && c < 0x7f &&
           std::string_view("<>()[],;:\\\"").find(static_cast<char>(c)) == std::string_view::npos;
  });
  if (is_plain && at != std::string::npos && at > 0 && at + 1 < address.size() &&
      address.rfind('@') == at && address.size() <= kMailMax && address.front() != '-')
    return {};
  return Error{Code::invalid,
               format("'{}' is no address of a mail such as ann@example.com", address)};
}

std::string shown_form(TargetKind kind, const std::string& where) {
  return kind == TargetKind::webhook || kind == TargetKind::slack ? origin_of(where) : where;
}

Result<void> Notifier::check(TargetKind kind, const std::string& where) const {
  if (kind == TargetKind::command) {
    TRY(find_command(setup_.commands, where));
    return {};
  }
  if (kind == TargetKind::mail && !setup_.mail)
    return Error{Code::invalid,
                 "this daemon sends no mail: it has no --smtp; an administrator sets it"};
  TRY(kind == TargetKind::mail ? check_mail_address(where) : check_url(where));
  if (auto loaded = curl::load_libcurl(); !loaded)
    return std::move(loaded).error().with_context("notices");
  return {};
}

Answer Notifier::deliver(const Delivery& delivery) const {
  if (auto possible = check(delivery.kind, delivery.where); !possible)
    return {.words = possible.error().message};
  switch (delivery.kind) {
    case TargetKind::webhook:
    case TargetKind::slack:
      return post_webhook(setup_, delivery, is_stopped_);
    case TargetKind::mail:
      return send_mail(setup_, delivery, is_stopped_);
    case TargetKind::command:
      return run_command(setup_, delivery, is_stopped_);
  }
  return {};
}

}  // namespace lockstep::notifier
