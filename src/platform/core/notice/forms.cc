#include "platform/core/notice/forms.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::notice {
namespace {

using model::Notice;
using model::NoticeKind;

constexpr std::size_t kSubjectMax = 150;

// The form for webhooks and commands.
struct Published {
  std::string id, kind;
  Time time{};
  std::string project, run, name, user, state, reason;
  std::optional<std::int64_t> duration_seconds, cost_device_seconds;
  std::optional<int> used_percent;
  std::string text;

  static constexpr auto fields() {
    return record<Published>(
        field("id", &Published::id, ""), field("kind", &Published::kind, ""),
        field("time", &Published::time, ""), field("project", &Published::project, ""),
        field("run", &Published::run, ""), field("name", &Published::name, ""),
        field("user", &Published::user, ""), field("state", &Published::state, ""),
        field("reason", &Published::reason, ""),
        field("duration_seconds", &Published::duration_seconds, ""),
        field("cost_device_seconds", &Published::cost_device_seconds, ""),
        field("used_percent", &Published::used_percent, ""), field("text", &Published::text, ""));
  }
};

std::optional<std::int64_t> in_whole_seconds(const std::optional<Duration>& time) {
  if (!time) return std::nullopt;
  return std::chrono::floor<std::chrono::seconds>(*time).count();
}

std::string subject_of(const Notice& notice) {
  if (notice.run.empty()) return notice.project.empty() ? "Lockstep" : notice.project;
  return notice.name.empty() ? notice.run : format("{} ({})", notice.run, notice.name);
}

// "failed", "timed out", "was cancelled".
std::string words_of_end(std::string state) {
  std::ranges::replace(state, '_', ' ');
  return state == "cancelled" ? "was " + state : state;
}

// Without the reason.
std::string headline_of(const Notice& notice) {
  switch (notice.kind) {
    case NoticeKind::run_ended:
    case NoticeKind::run_failed:
      return format("{} {}", subject_of(notice), words_of_end(notice.state));
    case NoticeKind::budget_warning:
      return format("{} % of the budget of {} is used", notice.used_percent.value_or(0),
                    notice.project);
    case NoticeKind::finding:
      return subject_of(notice);
  }
  return "";
}

std::string escaped_for_slack(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else
      escaped += c;
  }
  return escaped;
}

// A head of a mail is ASCII, and one line.
std::string for_head(std::string text) {
  std::ranges::replace_if(text, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  if (text.size() > kSubjectMax) text.resize(kSubjectMax);
  return text;
}

// As RFC 5322 has it: "Sat, 28 Nov 2026 15:04:05 +0000".
std::string mail_date(Time time) {
  namespace chrono = std::chrono;
  constexpr std::string_view kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto day = chrono::floor<chrono::days>(time);
  const chrono::year_month_day date(day);
  const chrono::hh_mm_ss clock(chrono::floor<chrono::seconds>(time - day));
  return format("{}, {:02} {} {} {:02}:{:02}:{:02} +0000", kDays[chrono::weekday(day).c_encoding()],
                static_cast<unsigned>(date.day()), kMonths[static_cast<unsigned>(date.month()) - 1],
                static_cast<int>(date.year()), clock.hours().count(), clock.minutes().count(),
                clock.seconds().count());
}

std::string message_id_of(const Notice& notice) {
  std::string id = notice.id;
  std::ranges::replace(id, '/', '.');
  return format("<{}@lockstep>", for_head(std::move(id)));
}

}  // namespace

std::string line_of(const Notice& notice) {
  std::string line = headline_of(notice);
  if (notice.duration) line += format(" after {}", text(*notice.duration));
  if (!notice.reason.empty()) line += ": " + notice.reason;
  if (notice.cost) line += format("; it cost {}", budget::in_device_minutes(*notice.cost));
  return line;
}

std::string json_form(const Notice& notice) {
  return dump_json(to_json(Published{.id = notice.id,
                                     .kind = std::string(name_of(notice.kind)),
                                     .time = notice.time,
                                     .project = notice.project,
                                     .run = notice.run,
                                     .name = notice.name,
                                     .user = notice.user,
                                     .state = notice.state,
                                     .reason = notice.reason,
                                     .duration_seconds = in_whole_seconds(notice.duration),
                                     .cost_device_seconds = in_whole_seconds(notice.cost),
                                     .used_percent = notice.used_percent,
                                     .text = line_of(notice)}));
}

std::string slack_form(const Notice& notice) {
  Json message = Json::object();
  message["text"] = escaped_for_slack(line_of(notice));
  return dump_json(message);
}

std::string mail_form(const Notice& notice, const MailEnds& ends) {
  std::string lines = format(
      "From: Lockstep <{}>\r\nTo: <{}>\r\nSubject: [lockstep] {}\r\nDate: {}\r\nMessage-ID: {}\r\n"
      "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"
      "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n",
      ends.from, ends.to, for_head(headline_of(notice)), mail_date(notice.time),
      message_id_of(notice));
  lines += line_of(notice) + "\r\n";
  if (!notice.run.empty()) lines += format("\r\n  lockstep show {}\r\n", notice.run);
  if (!notice.user.empty()) lines += format("\r\nRun of: {}\r\n", notice.user);
  return lines;
}

}  // namespace lockstep::notice
