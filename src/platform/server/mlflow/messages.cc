#include "platform/server/mlflow/messages.h"

#include <charconv>

#include "platform/server/mlflow/model_messages.h"

namespace lockstep::mlflow {

Result<WireInteger> WireInteger::from_form(const Json& json) {
  if (json.is_number_integer()) return WireInteger{TRY(from_json<std::int64_t>(json))};
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    WireInteger integer;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), integer.value);
    if (error == std::errc() && end == text.data() + text.size()) return integer;
  }
  return Error{Code::invalid, "expected an integer, got " + summarize_json(json)};
}

std::vector<KeyValue> entries_of(const std::map<std::string, std::string>& words) {
  std::vector<KeyValue> entries;
  for (const auto& [key, value] : words) entries.push_back({key, value});
  return entries;
}

Result<WireList> WireList::from_form(const Json& json) {
  if (json.is_string()) return WireList{{json.get<std::string>()}};
  return WireList{TRY(from_json<std::vector<std::string>>(json))};
}

}  // namespace lockstep::mlflow
