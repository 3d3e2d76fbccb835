#include "text/document.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <istream>
#include <set>
#include <streambuf>
#include <utility>
#include <vector>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "base/format.h"

namespace lockstep {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view words, std::size_t at) {
  while (at < words.size() && is_digit(words[at])) ++at;
  return at;
}

// [-+]? [0-9]+
bool looks_decimal(std::string_view words) {
  std::size_t start = !words.empty() && (words[0] == '-' || words[0] == '+') ? 1 : 0;
  return start < words.size() && skip_digits(words, start) == words.size();
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool looks_float(std::string_view words) {
  std::size_t at = !words.empty() && (words[0] == '-' || words[0] == '+') ? 1 : 0;
  std::size_t whole = skip_digits(words, at) - at;
  at += whole;
  if (at < words.size() && words[at] == '.') {
    std::size_t fraction = skip_digits(words, at + 1) - (at + 1);
    if (whole + fraction == 0) return false;
    at += 1 + fraction;
  } else if (whole == 0) {
    return false;
  }
  if (at == words.size()) return true;
  if (words[at] != 'e' && words[at] != 'E') return false;
  return looks_decimal(words.substr(at + 1));
}

Result<Json> out_of_range(std::string_view words) {
  return Error{Code::invalid, format("the number {} is out of range", words)};
}

// Digits in the base, without sign or prefix.
template <class T>
Result<Json> whole_number(std::string_view words, std::string_view digits, int base) {
  T value{};
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return out_of_range(words);
  return Json(value);
}

Result<Json> float_number(std::string_view words) {
  std::string_view digits = words.front() == '+' ? words.substr(1) : words;
  double value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  // Too small for a double also lands here; such a number is a slip as well.
  if (error != std::errc() || end != digits.data() + digits.size()) return out_of_range(words);
  return Json(value);
}

bool is_one_of(std::string_view words, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), words) != all.end();
}

bool has_prefix_and_digits(std::string_view words, std::string_view prefix,
                           std::string_view digits) {
  return words.starts_with(prefix) && words.size() > prefix.size() &&
         words.find_first_not_of(digits, prefix.size()) == words.npos;
}

// A plain scalar by the core schema of YAML 1.2, chapter 10.3.2.
Result<Json> plain_scalar(const std::string& words) {
  if (is_one_of(words, {"", "~", "null", "Null", "NULL"})) return Json();
  if (is_one_of(words, {"true", "True", "TRUE"})) return Json(true);
  if (is_one_of(words, {"false", "False", "FALSE"})) return Json(false);
  if (is_one_of(words, {".nan", ".NaN", ".NAN"})) return Json("NaN");
  std::string_view unsigned_words = words;
  if (words[0] == '+' || words[0] == '-') unsigned_words.remove_prefix(1);
  if (is_one_of(unsigned_words, {".inf", ".Inf", ".INF"}))
    return Json(words[0] == '-' ? "-Infinity" : "Infinity");
  if (has_prefix_and_digits(words, "0o", "01234567"))
    return whole_number<std::uint64_t>(words, unsigned_words.substr(2), 8);
  if (has_prefix_and_digits(words, "0x", "0123456789abcdefABCDEF"))
    return whole_number<std::uint64_t>(words, unsigned_words.substr(2), 16);
  if (looks_decimal(words))
    return words[0] == '-' ? whole_number<std::int64_t>(words, words, 10)
                           : whole_number<std::uint64_t>(words, unsigned_words, 10);
  if (looks_float(words)) return float_number(words);
  return Json(words);
}

std::string pointer_part(const std::string& key) {
  std::string result = "/";
  for (char c : key) result += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return result;
}

std::size_t count_values(const Json& value) {
  std::size_t count = 1;
  if (value.is_structured())
    for (const Json& item : value) count += count_values(item);
  return count;
}

// Builds the value from the parser's events. The first error is kept and all later events are let
// pass: the parser cannot be stopped, but it is bounded by the size of the text.
class Builder : public YAML::EventHandler {
 public:
  Builder(const YamlLimits& limits, Document& document) : limits_(limits), document_(document) {}

  bool has_document() const { return has_document_; }
  const std::string& error() const { return error_; }
  int error_line() const { return error_line_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(has_document_, true)) fail(mark, "a second document begins here; write one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (wants_key()) return fail(mark, "a field needs a name");
    if (Json* there = put(mark, Json())) keep(anchor, *there);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto found = anchors_.find(anchor);
    if (wants_key()) return fail(mark, "a field's name must be written out, not be an alias");
    if (found == anchors_.end()) return fail(mark, "an alias of something that it is part of");
    values_ += count_values(found->second);
    if (values_ > limits_.values || open_.size() + depth_of(found->second) > limits_.depth)
      return fail(mark, "the aliases stand for too much; write fewer");
    put(mark, found->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& words) override {
    if (wants_key()) return set_key(mark, words);
    bool is_string = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!is_string && tag != "?" && !tag.empty())
      return fail(mark, format("the tag {} is not supported", tag));
    Result<Json> value = is_string ? Result<Json>(Json(words)) : plain_scalar(words);
    if (!value) return fail(mark, value.error().message);
    if (Json* there = put(mark, *std::move(value))) keep(anchor, *there);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor, Json::array());
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor, Json::object());
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Json* value;
    std::string pointer;
    YAML::anchor_t anchor;
    bool has_key = false;  // of an object: the key was read, its value comes next
    std::string key;
    int key_line = 0;
    std::set<std::string> keys;
  };

  static std::size_t depth_of(const Json& value) {
    std::size_t depth = 0;
    if (!value.is_structured()) return depth;
    for (const Json& item : value) depth = std::max(depth, depth_of(item));
    return depth + 1;
  }

  void fail(const YAML::Mark& mark, std::string why) {
    if (!error_.empty()) return;
    error_ = std::move(why);
    error_line_ = mark.line + 1;
  }
  bool failed() const { return !error_.empty(); }
  bool wants_key() const {
    return !failed() && !open_.empty() && open_.back().value->is_object() && !open_.back().has_key;
  }
  void keep(YAML::anchor_t anchor, const Json& value) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = value;
  }

  void set_key(const YAML::Mark& mark, const std::string& key) {
    Open& object = open_.back();
    if (!object.keys.insert(key).second)
      return fail(mark, format("the field '{}' occurs twice", key));
    object.key = key;
    object.key_line = mark.line + 1;
    object.has_key = true;
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, Json value) {
    if (wants_key()) return fail(mark, "a field's name must be a word");
    if (open_.size() >= limits_.depth)
      return fail(mark, format("lists and fields nested more than {} deep", limits_.depth));
    Json* there = put(mark, std::move(value));
    if (there == nullptr) return;
    open_.push_back({there, last_pointer_, anchor, false, {}, 0, {}});
  }

  void close() {
    if (failed()) return;
    keep(open_.back().anchor, *open_.back().value);
    open_.pop_back();
  }

  // Null once anything failed. Pointers to open containers stay valid: a container grows only after
  // its last child closed.
  Json* put(const YAML::Mark& mark, Json value) {
    if (!failed() && ++values_ > limits_.values) fail(mark, "the file has too many values");
    if (failed()) return nullptr;
    if (open_.empty())
      return add_line("", mark.line + 1), document_.value = std::move(value), &document_.value;
    Open& parent = open_.back();
    if (parent.value->is_array()) {
      add_line(parent.pointer + format("/{}", parent.value->size()), mark.line + 1);
      parent.value->push_back(std::move(value));
      return &parent.value->back();
    }
    parent.has_key = false;
    add_line(parent.pointer + pointer_part(parent.key), parent.key_line);
    // Past ordered_map's own emplace_back, which searches for the key first.
    Json::object_t::Container& members = parent.value->get_ref<Json::object_t&>();
    members.emplace_back(parent.key, std::move(value));
    return &members.back().second;
  }

  void add_line(std::string pointer, int line) {
    last_pointer_ = pointer;
    document_.lines.emplace(std::move(pointer), line);
  }

  const YamlLimits& limits_;
  Document& document_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Json> anchors_;
  std::size_t values_ = 0;
  std::string last_pointer_;
  bool has_document_ = false;
  std::string error_;
  int error_line_ = 0;
};

// Reads from memory that somebody else owns.
struct MemoryBuffer : std::streambuf {
  explicit MemoryBuffer(std::string_view words) {
    char* begin = const_cast<char*>(words.data());  // only ever read
    setg(begin, begin, begin + words.size());
  }
};

}  // namespace

std::optional<int> Document::line_of(std::string_view pointer) const {
  while (true) {
    if (auto found = lines.find(pointer); found != lines.end()) return found->second;
    if (pointer.empty()) return std::nullopt;
    pointer = pointer.substr(0, pointer.rfind('/'));
  }
}

Result<Document> parse_yaml(std::string_view words, std::string_view name,
                            const YamlLimits& limits) {
  if (static_cast<std::int64_t>(words.size()) > limits.size.count())
    return Error{Code::invalid, format("{}: the file is over {}", name, text(limits.size))};
  Document document{{}, std::string(name), {}};
  Builder builder(limits, document);
  try {
    MemoryBuffer buffer(words);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    if (builder.error().empty())
      return Error{Code::invalid, format("{}:{}: {}", name, error.mark.line + 1, error.msg)};
  } catch (const std::exception& error) {
    return Error{Code::internal, format("{}: reading YAML: {}", name, error.what())};
  }
  if (!builder.error().empty())
    return Error{Code::invalid, format("{}:{}: {}", name, builder.error_line(), builder.error())};
  return document;
}

}  // namespace lockstep
