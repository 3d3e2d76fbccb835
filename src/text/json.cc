#include "text/json.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "base/format.h"

namespace lockstep {
namespace {

std::string line_and_column(std::string_view input, std::size_t position) {
  std::string_view before = input.substr(0, std::min(position, input.size()));
  auto line = 1 + std::count(before.begin(), before.end(), '\n');
  std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return format("line {}, column {}", line, std::max<std::size_t>(1, before.size() - line_start));
}

// nlohmann's message without its name of the error and its own position.
std::string reason_of(std::string_view what) {
  if (what.find("number overflow") != what.npos) return "the number is too large";
  for (std::string_view mark : {" - ", ": ", "] "})
    if (auto at = what.find(mark); at != what.npos)
      return std::string(what.substr(at + mark.size()));
  return std::string(what);
}

// Reads the text and exposes the parser's position; the parser's own errors have a position, ours
// do not.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char* begin = nullptr;
  std::size_t* position = nullptr;

  reference operator*() const { return *at; }
  Cursor& operator++() {
    ++at;
    *position = static_cast<std::size_t>(at - begin);
    return *this;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
};

// Builds the value from the parser's events. Keys of an open object are also kept in a set, because
// a search for duplicates in the object itself would take quadratic time.
class JsonBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit JsonBuilder(std::size_t depth) : depth_(depth) {}

  Json take() { return std::move(root_); }
  const std::string& error() const { return error_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary data"); }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second)
      return fail(lockstep::format("the key '{}' occurs twice", name));
    open_.back().key = std::move(name);
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return fail(reason_of(error.what()));
  }

 private:
  struct Open {
    Json* value;
    std::string key;  // of the member that comes next
    std::set<std::string> keys;
  };

  bool fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }
  bool add(Json value) { return put(std::move(value)), true; }
  bool open(Json value) {
    if (open_.size() == depth_)
      return fail(lockstep::format("lists and objects nested more than {} deep", depth_));
    Json* there = put(std::move(value));
    open_.push_back({there, {}, {}});
    return true;
  }
  bool close() { return open_.pop_back(), true; }

  // Pointers to open containers stay valid: a container grows only after its last child closed.
  Json* put(Json value) {
    if (open_.empty()) return root_ = std::move(value), &root_;
    Json& parent = *open_.back().value;
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    // The base class's emplace_back: that of ordered_map searches for the key first.
    Json::object_t::Container& members = parent.get_ref<Json::object_t&>();
    members.emplace_back(std::move(open_.back().key), std::move(value));
    return &members.back().second;
  }

  std::size_t depth_;
  Json root_;
  std::vector<Open> open_;
  std::string error_;
};

}  // namespace

Result<Json> parse_json(std::string_view input, const JsonLimits& limits) {
  if (static_cast<std::int64_t>(input.size()) > limits.size.count())
    return Error{Code::invalid,
                 format("the JSON text has {}; at most {} are read",
                        text(Bytes(static_cast<std::int64_t>(input.size()))), text(limits.size))};
  std::size_t position = 0;
  JsonBuilder builder(limits.depth);
  try {
    Cursor begin{input.data(), input.data(), &position}, end{input.data() + input.size()};
    if (Json::sax_parse(begin, end, &builder)) return builder.take();
  } catch (const std::exception& error) {
    return Error{Code::internal, format("reading JSON: {}", error.what())};
  }
  return Error{Code::invalid, format("{}: {}", line_and_column(input, position), builder.error())};
}

std::string dump_json(const Json& value, Indent indent) {
  return value.dump(indent == Indent::two ? 2 : -1, ' ', false, Json::error_handler_t::replace);
}

Json without_nulls(const Json& value) {
  if (!value.is_structured()) return value;
  Json kept = value.is_object() ? Json::object() : Json::array();
  if (value.is_array())
    for (const Json& item : value) kept.push_back(without_nulls(item));
  else
    for (const auto& [name, member] : value.get_ref<const Json::object_t&>())
      if (!member.is_null()) kept[name] = without_nulls(member);
  return kept;
}

std::string summarize_json(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string summary = dump_json(value);
  if (summary.size() <= 60) return summary;
  std::size_t end = 56;
  while (end > 0 && (summary[end] & '\xc0') == '\x80') --end;  // not within a UTF-8 character
  return summary.substr(0, end) + "...\"";
}

}  // namespace lockstep
