#include "apps/login/hidden_input.h"

#include <iostream>
#include <iterator>

#include <termios.h>
#include <unistd.h>

#include "apps/cli/terminal.h"
#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kSecretMax = 1 << 20;

// While one lives, the terminal does not show what is typed.
class HiddenInput {
 public:
  HiddenInput() {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios hidden = before_;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    changed_ = ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0;
  }
  ~HiddenInput() {
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  HiddenInput(const HiddenInput&) = delete;
  HiddenInput& operator=(const HiddenInput&) = delete;

 private:
  termios before_{};
  bool changed_ = false;
};

std::string typed_line() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

void drop_line_break(std::string& text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

}  // namespace

std::string hidden_line(const std::string& question) {
  if (!is_terminal(STDIN_FILENO)) return typed_line();
  const HiddenInput hidden;  // before the question: a program may answer at once
  print_to_stderr(question);
  return typed_line();
}

Result<std::string> file_or_hidden_line(const std::string& option, const std::string& file,
                                        const std::string& question) {
  if (file.empty()) return hidden_line(question);
  std::string content;
  if (file == "-") {
    content.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    auto read = read_file(file, kSecretMax);
    if (!read) return std::move(read).error().with_context(option);
    content = *std::move(read);
  }
  drop_line_break(content);
  return content;
}

Result<std::string> new_password(const std::string& option, const std::string& file) {
  if (!file.empty()) return file_or_hidden_line(option, file, "");
  if (!is_terminal(STDIN_FILENO))
    return Error{Code::invalid, format("a new password is needed: name its file by {}, or type it "
                                       "at a terminal",
                                       option)};
  std::string first = hidden_line("The new password, of 8 characters or more:");
  if (hidden_line("The same again:") == first) return first;
  return Error{Code::invalid, "the two passwords differ; nothing was changed"};
}

}  // namespace lockstep::cli
