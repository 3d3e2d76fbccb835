#include "platform/server/mlflow/messages.h"

#include <charconv>

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

}  // namespace lockstep::mlflow
