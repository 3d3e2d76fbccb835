#include "comm/torch/store_rendezvous.h"

#include <algorithm>
#include <exception>

#include <c10/util/Exception.h>

#include "base/format.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

// No rank sets this value.
constexpr const char* kNoValue = "\x01none";

}  // namespace

std::string reason(const std::exception& error) {
  const auto* const torch = dynamic_cast<const c10::Error*>(&error);
  const std::string_view whole = torch ? torch->what_without_backtrace() : error.what();
  return std::string(whole.substr(0, whole.find('\n')));
}

Result<void> StoreRendezvous::set(std::string_view key, std::string_view value) try {
  const auto kept = store_->compareSet(full(key), "", std::string(value));
  if (kept == value) return {};
  return Error{
      Code::already_exists,
      format("the store has another value for {} already: is the rank there twice?", full(key))};
} catch (const std::exception& error) {
  return Error{Code::unavailable, format("writing {} to torch's store: {}; does rank 0 still run?",
                                         full(key), reason(error))};
}

Result<std::string> StoreRendezvous::get(std::string_view key, Deadline deadline) try {
  if (auto value = value_of(key)) return *std::move(value);
  const auto left = std::chrono::duration_cast<milliseconds>(deadline.remaining());
  // Some stores interpret zero as no time-out.
  store_->wait({full(key)}, std::max(left, milliseconds(1)));
  return store_->get_to_str(full(key));
} catch (const std::exception& error) {
  if (deadline.remaining() < milliseconds(2))
    return Error{Code::timeout, format("waiting for {} in torch's store: it did not come in time; "
                                       "did all ranks start?",
                                       full(key))};
  return Error{Code::unavailable,
               format("reading {} from torch's store: {}; does rank 0 still run?", full(key),
                      reason(error))};
}

// In one round trip; the store's own get() waits first, in a second one. compareSet() returns the
// present value if it is not the expected one, and the expected one if there is none.
std::optional<std::string> StoreRendezvous::value_of(std::string_view key) {
  auto value = store_->compareSet(full(key), kNoValue, kNoValue);
  if (value == kNoValue) return std::nullopt;
  return value;
}

}  // namespace lockstep::comm
