#include "comm/torch/store_rendezvous.h"

#include <algorithm>
#include <exception>

#include <c10/util/Exception.h>

#include "base/format.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

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
  const auto left = std::chrono::duration_cast<milliseconds>(deadline.remaining());
  // Three round trips, but compareSet() cannot read a key in one: on a key that is not there it
  // wakes the ranks that wait for it in a TCPStore, which then read an empty value. Some stores
  // interpret zero as no time-out.
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

}  // namespace lockstep::comm
