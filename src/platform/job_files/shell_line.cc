#include "platform/job_files/shell_line.h"

#include <cctype>

#include "base/format.h"

namespace lockstep::job_files {
namespace {

Error not_one_command(std::string_view what) {
  return {Code::invalid, format("'{}' makes it more than one plain command", what)};
}

class LineParser {
 public:
  LineParser(std::string_view rest, const ShellVariables& variables)
      : rest_(rest), variables_(variables) {}

  Result<ShellLine> parse() {
    for (;;) {
      skip_blanks();
      if (rest_.empty() || rest_.front() == '#') return std::move(line_);
      if (is_redirection()) {
        line_.redirected = std::string(rest_);
        return std::move(line_);
      }
      TRY(check_operator());
      TRY(read_word());
    }
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }

  // A pipe to tee keeps the output as it is.
  bool is_redirection() const {
    std::string_view next = rest_;
    if (next.front() == '|') {
      next.remove_prefix(1);
      while (next.starts_with(' ')) next.remove_prefix(1);
      return next.starts_with("tee ");
    }
    if (next.front() == '&' && next.size() > 1 && next[1] == '>') return true;
    if (next.size() > 1 && (next.front() == '1' || next.front() == '2')) next.remove_prefix(1);
    return next.front() == '>' || next.front() == '<';
  }

  Result<void> check_operator() const {
    for (const std::string_view sign : {"&&", "||", ";", "|", "&", "(", ")"})
      if (rest_.starts_with(sign)) return not_one_command(sign);
    return {};
  }

  Result<void> read_word() {
    ShellWord word;
    if (const auto home = variables_.find("HOME");
        home != variables_.end() && (rest_ == "~" || rest_.starts_with("~/"))) {
      word.text = home->second;
      rest_.remove_prefix(1);
    }
    while (!rest_.empty()) {
      const char next = rest_.front();
      if (std::string_view(" \t;|&<>()").find(next) != std::string_view::npos) break;
      rest_.remove_prefix(1);
      if (next == '\'')
        TRY(read_single_quoted(word));
      else if (next == '"')
        TRY(read_double_quoted(word));
      else if (next == '\\')
        read_escaped(word);
      else if (next == '$')
        TRY(read_variable(word));
      else if (next == '`')
        TRY(skip_until('`', "`...`", word));
      else
        word.text += next;
    }
    line_.words.push_back(std::move(word));
    return {};
  }

  void read_escaped(ShellWord& word) {
    if (rest_.empty()) return;
    word.text += rest_.front();
    rest_.remove_prefix(1);
  }

  Result<void> read_single_quoted(ShellWord& word) {
    const auto end = rest_.find('\'');
    if (end == std::string_view::npos) return Error{Code::invalid, "a quote is not closed"};
    word.text += rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return {};
  }

  Result<void> read_double_quoted(ShellWord& word) {
    while (!rest_.empty() && rest_.front() != '"') {
      const char next = rest_.front();
      rest_.remove_prefix(1);
      if (next == '\\' && !rest_.empty() &&
          std::string_view("\"\\$`").find(rest_.front()) != std::string_view::npos)
        read_escaped(word);
      else if (next == '$')
        TRY(read_variable(word));
      else if (next == '`')
        TRY(skip_until('`', "`...`", word));
      else
        word.text += next;
    }
    if (rest_.empty()) return Error{Code::invalid, "a quote is not closed"};
    rest_.remove_prefix(1);
    return {};
  }

  Result<void> skip_until(char end, std::string_view what, ShellWord& word) {
    const auto found = rest_.find(end);
    if (found == std::string_view::npos) return Error{Code::invalid, "a quote is not closed"};
    rest_.remove_prefix(found + 1);
    word.unknown = std::string(what);
    return {};
  }

  // After the dollar sign.
  Result<void> read_variable(ShellWord& word) {
    if (rest_.starts_with('(')) return skip_parentheses(word);
    const bool has_braces = rest_.starts_with('{');
    if (has_braces) rest_.remove_prefix(1);
    std::size_t size = 0;
    while (size < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[size])) != 0 || rest_[size] == '_'))
      ++size;
    const std::string_view name = rest_.substr(0, size);
    rest_.remove_prefix(size);
    bool is_plain = true;  // without an operator, such as ${A:-b}
    if (has_braces) {
      const auto end = rest_.find('}');
      if (end == std::string_view::npos) return Error{Code::invalid, "a brace is not closed"};
      is_plain = end == 0;
      rest_.remove_prefix(end + 1);
    } else if (name.empty()) {
      word.text += '$';
      return {};
    }
    const auto value = variables_.find(name);
    if (value == variables_.end() || !is_plain)
      word.unknown = format("${}", name);
    else
      word.text += value->second;
    return {};
  }

  Result<void> skip_parentheses(ShellWord& word) {
    int depth = 0;
    for (std::size_t at = 0; at < rest_.size(); ++at) {
      if (rest_[at] == '(') ++depth;
      if (rest_[at] != ')' || --depth > 0) continue;
      word.unknown = format("${}", rest_.substr(0, at + 1));
      rest_.remove_prefix(at + 1);
      return {};
    }
    return Error{Code::invalid, "a parenthesis is not closed"};
  }

  std::string_view rest_;
  const ShellVariables& variables_;
  ShellLine line_;
};

}  // namespace

Result<ShellLine> parse_shell_line(std::string_view line, const ShellVariables& variables) {
  return LineParser(line, variables).parse();
}

Result<std::vector<std::string>> known_texts(const std::vector<ShellWord>& words) {
  std::vector<std::string> texts;
  for (const ShellWord& word : words) {
    if (word.unknown)
      return Error{Code::invalid, format("the value of {} is not known here", *word.unknown)};
    texts.push_back(word.text);
  }
  return texts;
}

}  // namespace lockstep::job_files
