#include "platform/janitor/glean.h"

#include <system_error>

#include "base/log.h"

namespace lockstep {
namespace {

constexpr Bytes kBatch = 256_KiB;

}  // namespace

Result<bool> Glean::slice() {
  if (!ready_ && !TRY(open())) return false;
  return store_batch();
}

// False while the file is looked through.
Result<bool> Glean::open() {
  if (!opening_.valid()) try {
      opening_ =
          std::async(std::launch::async, [this] { opened_.emplace(LeftSpool::open(file_)); });
    } catch (const std::system_error& e) {
      return os_error("starting a thread", e.code().value());
    }
  if (opening_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
  if (!*opened_) return opened_->error();
  stored_ = TRY(insight_.ingest(node_, {}));
  ready_ = true;
  return true;
}

Result<bool> Glean::store_batch() {
  LeftSpool& spool = **opened_;
  const std::vector<Item> items = TRY(spool.batch(stored_, kBatch));
  if (items.empty()) {
    if (const std::int64_t broken = spool.broken_lines(); broken > 0)
      LS_LOG(warning, "{}: {} items of its spool are damaged", text(node_), broken);
    return true;
  }
  stored_ = TRY(insight_.ingest(node_, items));
  return false;
}

}  // namespace lockstep
