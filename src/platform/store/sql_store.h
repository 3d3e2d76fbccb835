// SqlStore: the controller's rows in the database, every state a column.
#pragma once

#include "platform/store/database.h"
#include "platform/store/store.h"

namespace lockstep::store {

class SqlStore : public Store {
 public:
  explicit SqlStore(Database& database) : database_(database) {}  // must outlive the store

  Result<model::State> load() override;
  Result<std::optional<model::RunRows>> find_run(const model::RunId& run) override;
  Result<std::optional<model::RunId>> find_request(const std::string& request_id) override;
  Result<std::vector<model::Run>> list_runs(const model::RunFilter& filter) override;
  Result<void> commit(std::span<const model::Change> changes) override;
  Result<void> remove_run(const model::RunRows& run, std::span<const model::Change> also) override;
  Result<void> check_writable() override;

 private:
  Database& database_;
};

}  // namespace lockstep::store
