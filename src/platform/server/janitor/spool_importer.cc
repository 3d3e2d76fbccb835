#include "platform/server/janitor/spool_importer.h"

#include <system_error>

#include "base/log.h"
#include "platform/host/node_files.h"

namespace lockstep::server {
namespace {

constexpr Bytes kBatch = 256_KiB;

}  // namespace

Result<bool> SpoolImporter::import_slice() {
  if (!ready_ && !TRY(open_spool())) return false;
  return store_batch();
}

// False while the file is read.
Result<bool> SpoolImporter::open_spool() {
  if (!opening_.valid()) try {
      opening_ = std::async(std::launch::async, [this] {
        const host::OwnersAccess as_owner(file_.parent_path());
        spool_.emplace(spool::AbandonedSpool::open(file_));
      });
    } catch (const std::system_error& e) {
      return os_error("starting a thread", e.code().value());
    }
  if (opening_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
  if (!*spool_) return spool_->error();
  stored_sequence_ = TRY(insight_.ingest(node_, {}));
  ready_ = true;
  return true;
}

Result<bool> SpoolImporter::store_batch() {
  spool::AbandonedSpool& spool = **spool_;
  const std::vector<spool::TelemetryItem> items = TRY(spool.batch(stored_sequence_, kBatch));
  if (items.empty()) {
    if (const std::int64_t broken = spool.broken_lines(); broken > 0)
      LS_LOG(warning, "{}: {} items of its spool are damaged", text(node_.id), broken);
    return true;
  }
  stored_sequence_ = TRY(insight_.ingest(node_, items));
  return false;
}

}  // namespace lockstep::server
