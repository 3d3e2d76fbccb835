// Reads YAML. A source of its own: programs that need no YAML then load no library for it.
#include <algorithm>
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
#include "text/document.h"
#include "text/plain_scalar.h"

namespace lockstep {
namespace {

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

// Builds the value from the parser's events. The first error is kept and all later events are
// ignored: the parser cannot be stopped, but the size of the text bounds it.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const YamlLimits& limits, Document& document)
      : limits_(limits), document_(document) {}

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
    if (failed()) return;  // first, because there may be a million more events
    auto found = anchors_.find(anchor);
    if (wants_key()) return fail(mark, "a field's name must be written out, not be an alias");
    if (found == anchors_.end()) return fail(mark, "an alias of something that it is part of");
    values_ += count_values(found->second);
    if (values_ > limits_.values || open_.size() + depth_of(found->second) > limits_.depth)
      return fail(mark, "the aliases stand for too much; write fewer");
    put(mark, found->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value_text) override {
    if (wants_key()) return set_key(mark, value_text);
    bool is_string = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!is_string && tag != "?" && !tag.empty())
      return fail(mark, format("the tag {} is not supported", tag));
    Result<Json> value =
        is_string ? Result<Json>(Json(value_text)) : parse_plain_scalar(value_text);
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

  // Null after any error. Pointers to open containers stay valid: a container grows only after its
  // last child closed.
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
    // Not ordered_map's own emplace_back, which searches for the key first.
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

// Reads from memory that it does not own.
struct MemoryBuffer : std::streambuf {
  explicit MemoryBuffer(std::string_view input) {
    char* begin = const_cast<char*>(input.data());  // only ever read
    setg(begin, begin, begin + input.size());
  }
};

// yaml-cpp's message, except for the error that it explains worst.
std::string explained(const std::string& message, std::string_view input, int line) {
  for (; line > 0 && !input.empty(); --line)
    input.remove_prefix(std::min(input.find('\n'), input.size() - 1) + 1);
  std::string_view blanks = input.substr(0, input.find_first_not_of(" \t"));
  if (blanks.find('\t') != blanks.npos) return "the line begins with a tab; indent with blanks";
  return "not YAML: " + message;
}

}  // namespace

Result<Document> parse_yaml(std::string_view input, std::string_view name,
                            const YamlLimits& limits) {
  if (static_cast<std::int64_t>(input.size()) > limits.size.count())
    return Error{Code::invalid, format("{}: the file is over {}", name, text(limits.size))};
  Document document{{}, std::string(name), {}};
  TreeBuilder builder(limits, document);
  try {
    MemoryBuffer buffer(input);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    // The second only to refuse it. Not in a loop: before a stray "]" yaml-cpp finds an empty
    // document each time, without end.
    if (parser.HandleNextDocument(builder)) parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& error) {
    if (builder.error().empty())
      return Error{Code::invalid, format("{}:{}: {}", name, error.mark.line + 1,
                                         explained(error.msg, input, error.mark.line))};
  } catch (const std::exception& error) {
    return Error{Code::internal, format("{}: reading YAML: {}", name, error.what())};
  }
  if (!builder.error().empty())
    return Error{Code::invalid, format("{}:{}: {}", name, builder.error_line(), builder.error())};
  return document;
}

}  // namespace lockstep
