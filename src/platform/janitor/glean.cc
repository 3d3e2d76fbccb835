#include "platform/janitor/glean.h"

#include <system_error>

#include "base/log.h"

namespace lockstep {
namespace {

constexpr Bytes kBatch = 256_KiB;

Result<insight::Item> item_of(api::SpoolItem item) {
  insight::Item read;
  read.kind = TRY(parse_name<insight::ItemKind>(item.kind));
  read.sequence = item.sequence;
  read.rank = item.rank;
  read.step = item.step;
  read.steps = item.steps;
  read.time = item.time;
  read.text = std::move(item.text);
  read.values = std::move(item.values);
  return read;
}

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
  auto batch = TRY(spool.batch(stored_, kBatch));
  if (batch.empty()) {
    const std::int64_t broken = broken_ + spool.broken_lines();
    if (broken > 0) LS_LOG(warning, "{}: {} items of its spool are damaged", text(node_), broken);
    return true;
  }
  const std::int64_t last = batch.back().sequence;
  std::vector<insight::Item> items;
  for (api::SpoolItem& item : batch) {
    if (auto read = item_of(std::move(item)))
      items.push_back(std::move(*read));
    else
      ++broken_;
  }
  TRY(insight_.ingest(node_, items));
  stored_ = last;
  return false;
}

}  // namespace lockstep
