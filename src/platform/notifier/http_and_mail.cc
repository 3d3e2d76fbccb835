#include "platform/notifier/http_and_mail.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

#include <sys/socket.h>

#include "base/clock.h"
#include "base/format.h"
#include "net/http/url.h"
#include "platform/core/notice/forms.h"
#include "platform/curl/libcurl.h"

namespace lockstep::notifier {
namespace {

using curl::Easy;
using curl::libcurl;
using curl::List;

// Answers by which a receiver refuses what it was sent, not when.
constexpr int kRefusals[] = {400, 413, 422};

// libcurl's callbacks read and write here.
struct Transfer {
  const NotifierSetup& setup;
  const std::atomic<bool>& is_stopped;
  bool checks_address = true;
  std::string_view unsent{};  // of a mail
  std::string refused{};      // the last address that may not be called
  bool has_head = false;      // of the answer, which is enough
  std::array<char, CURL_ERROR_SIZE> words{};
};

// The address of the socket is the one that is called, whatever its name resolves to later.
curl_socket_t open_socket(void* into, curlsocktype purpose, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(into);
  const auto called = purpose == CURLSOCKTYPE_IPCXN ? address_of(address->addr) : std::nullopt;
  const bool may =
      !transfer.checks_address || (called && may_call(*called, transfer.setup.allowed));
  if (!may) {
    transfer.refused = called ? address_text(*called) : "an address that is none of IP";
    return CURL_SOCKET_BAD;
  }
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

int check_stop(void* from, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Transfer*>(from)->is_stopped ? 1 : 0;
}

// The body of an answer is not wanted: the transfer ends with its first byte.
std::size_t end_at_body(char*, std::size_t, std::size_t, void* into) {
  static_cast<Transfer*>(into)->has_head = true;
  return CURL_WRITEFUNC_ERROR;
}

std::size_t ignore_reply(char*, std::size_t size, std::size_t count, void*) { return size * count; }

std::size_t read_mail(char* buffer, std::size_t size, std::size_t count, void* from) {
  auto& unsent = static_cast<Transfer*>(from)->unsent;
  const std::size_t taken = std::min(unsent.size(), size * count);
  std::memcpy(buffer, unsent.data(), taken);
  unsent.remove_prefix(taken);
  return taken;
}

void set_bounds(CURL* easy, Transfer& transfer, Duration limit) {
  const auto& set = libcurl().easy_setopt;
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  set(easy, CURLOPT_NOSIGNAL, 1L);
  set(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(milliseconds));
  set(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(milliseconds));
  set(easy, CURLOPT_QUICK_EXIT, 1L);  // a look-up that hangs holds no thread; 7.87 and later
  set(easy, CURLOPT_PROXY, "");       // it would call the address unchecked
  set(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  set(easy, CURLOPT_OPENSOCKETDATA, &transfer);
  set(easy, CURLOPT_NOPROGRESS, 0L);
  set(easy, CURLOPT_XFERINFOFUNCTION, check_stop);
  set(easy, CURLOPT_XFERINFODATA, &transfer);
  set(easy, CURLOPT_ERRORBUFFER, transfer.words.data());
}

int status_of(CURL* easy) {
  long status = 0;
  libcurl().easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  return static_cast<int>(status);
}

// libcurl's own words may contain the URL's host, and nothing else of it.
std::string problem_of(const Transfer& transfer, CURLcode code, Duration limit) {
  if (transfer.is_stopped) return "the daemon ends";
  if (!transfer.refused.empty())
    return format("{} is not a public address; `lockstep serve --notice-network` allows others",
                  transfer.refused);
  if (code == CURLE_OPERATION_TIMEDOUT) return format("no answer within {}", text(limit));
  if (transfer.words[0] != '\0') return transfer.words.data();
  return libcurl().easy_strerror(code);
}

Answer answer_of(int status, Duration took) {
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(took).count();
  std::string words = format("answered {} in {} ms", status, milliseconds);
  if (status / 100 == 3) words += ", a redirect, which is not followed";
  return {.is_delivered = status / 100 == 2,
          .is_refused = std::ranges::find(kRefusals, status) != std::end(kRefusals),
          .words = std::move(words)};
}

struct Elapsed {
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  Duration so_far() const {
    return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begun);
  }
};

// TLS to a server elsewhere, so that no other machine reads the password.
long tls_of(const MailServer& server) {
  const auto host_begin = server.url.find("://") + 3;
  const auto host = net::host_of(std::string_view(server.url).substr(host_begin));
  const bool is_here = host && (*host == "localhost" || net::is_loopback(*host));
  return server.user.empty() || is_here ? static_cast<long>(CURLUSESSL_TRY)
                                        : static_cast<long>(CURLUSESSL_ALL);
}

}  // namespace

Answer post_webhook(const NotifierSetup& setup, const Delivery& delivery,
                    const std::atomic<bool>& is_stopped) {
  const Elapsed elapsed;
  const auto& set = libcurl().easy_setopt;
  Transfer transfer{.setup = setup, .is_stopped = is_stopped};
  const Easy easy(libcurl().easy_init());
  set_bounds(easy.get(), transfer, setup.limit);
  const std::string body = delivery.kind == notice::TargetKind::slack
                               ? notice::slack_form(delivery.notice)
                               : notice::json_form(delivery.notice);
  List headers(libcurl().slist_append(nullptr, "Content-Type: application/json"));
  for (const std::string& line :
       {std::string("Expect:"), format("Lockstep-Notice: {}", delivery.notice.id)})
    headers.reset(libcurl().slist_append(headers.release(), line.c_str()));
  set(easy.get(), CURLOPT_URL, delivery.where.c_str());
  set(easy.get(), CURLOPT_HTTPHEADER, headers.get());
  set(easy.get(), CURLOPT_USERAGENT, "lockstep");
  set(easy.get(), CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(easy.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  set(easy.get(), CURLOPT_POSTFIELDS, body.c_str());
  set(easy.get(), CURLOPT_WRITEFUNCTION, end_at_body);
  set(easy.get(), CURLOPT_WRITEDATA, &transfer);
  const CURLcode code = libcurl().easy_perform(easy.get());
  const int status = status_of(easy.get());
  // An answer whose body is late has come.
  const bool has_status =
      status >= 200 && (code == CURLE_OK || transfer.has_head || code == CURLE_OPERATION_TIMEDOUT);
  if (has_status) return answer_of(status, elapsed.so_far());
  return {.words = problem_of(transfer, code, setup.limit)};
}

Answer send_mail(const NotifierSetup& setup, const Delivery& delivery,
                 const std::atomic<bool>& is_stopped) {
  if (!setup.mail) return {.words = "this daemon sends no mail: it has no --smtp"};
  const Elapsed elapsed;
  const MailServer& server = *setup.mail;
  const auto& set = libcurl().easy_setopt;
  const std::string mail =
      notice::mail_form(delivery.notice, {.from = server.from, .to = delivery.where});
  Transfer transfer{
      .setup = setup, .is_stopped = is_stopped, .checks_address = false, .unsent = mail};
  const Easy easy(libcurl().easy_init());
  set_bounds(easy.get(), transfer, setup.limit);
  const List receivers(libcurl().slist_append(nullptr, format("<{}>", delivery.where).c_str()));
  set(easy.get(), CURLOPT_URL, server.url.c_str());
  set(easy.get(), CURLOPT_USE_SSL, tls_of(server));
  if (!server.user.empty()) {
    set(easy.get(), CURLOPT_USERNAME, server.user.c_str());
    set(easy.get(), CURLOPT_PASSWORD, server.password.c_str());
  }
  set(easy.get(), CURLOPT_MAIL_FROM, format("<{}>", server.from).c_str());
  set(easy.get(), CURLOPT_MAIL_RCPT, receivers.get());
  set(easy.get(), CURLOPT_UPLOAD, 1L);
  set(easy.get(), CURLOPT_READFUNCTION, read_mail);
  set(easy.get(), CURLOPT_READDATA, &transfer);
  set(easy.get(), CURLOPT_WRITEFUNCTION, ignore_reply);
  const CURLcode code = libcurl().easy_perform(easy.get());
  const int status = status_of(easy.get());
  if (code == CURLE_OK)
    return {
        .is_delivered = true,
        .words = format("the mail server took it in {} ms",
                        std::chrono::ceil<std::chrono::milliseconds>(elapsed.so_far()).count())};
  const std::string said = status >= 400 ? format("; its last answer was {}", status) : "";
  return {.words = "the mail server: " + problem_of(transfer, code, setup.limit) + said};
}

}  // namespace lockstep::notifier
