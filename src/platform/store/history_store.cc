#include "platform/store/history_store.h"

#include <sys/random.h>

#include "base/format.h"
#include "base/os/files.h"
#include "text/convert.h"

namespace lockstep::store {

// A newer Lockstep may have written further fields.
Result<model::StoreHistory> HistoryFile::load() {
  const auto words = read_file(file_);
  if (!words && words.error().code == Code::not_found) return model::StoreHistory();
  if (!words) return words.error();
  const auto json = parse_json(*words);
  auto history = json ? from_json<model::StoreHistory>(*json, UnknownFields::ignore) : json.error();
  if (history) return history;
  return Error{Code::corrupt,
               format("{} is damaged ({}); put back a copy of it, or remove it if the store beside "
                      "it is the newest: without it an older copy of the store is not known as one",
                      file_.string(), history.error().message)};
}

Result<void> HistoryFile::store(const model::StoreHistory& history) {
  return write_file(file_, dump_json(to_json(history), Indent::two) + "\n");
}

std::string HistoryFile::new_generation() {
  std::uint64_t number = 0;
  LS_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
  return format("{:016x}", number);
}

}  // namespace lockstep::store
