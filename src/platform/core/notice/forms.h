// The forms of a notice: one line for people, JSON, the message of Slack, and a mail.
#pragma once

#include <string>
#include <string_view>

#include "platform/core/model/notice.h"

namespace lockstep::notice {

// "demo/3 (train.py) failed after 1h 2min: rank 3 of 8 exited with code 1".
std::string line_of(const model::Notice& notice);
// An object of one line: the fields of docs/guide/notices.md.
std::string json_form(const model::Notice& notice);
// {"text": ...}, with &, < and > as Slack wants them.
std::string slack_form(const model::Notice& notice);

struct MailEnds {
  std::string from, to;
};
// A whole message: its head and its text, with lines that end in CR LF. The Message-ID has the
// notice's id.
std::string mail_form(const model::Notice& notice, const MailEnds& ends);

}  // namespace lockstep::notice
