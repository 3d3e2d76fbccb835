// Budgets and the use of devices as text: tables for people, CSV for other programs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/text_form.h"
#include "platform/api/budget_messages.h"
#include "platform/api/finding_messages.h"

namespace lockstep::cli {

std::string budgets_text(const api::BudgetList& list);
std::string forecast_text(const api::BudgetList& list);
std::string postings_text(const api::PostingList& list, std::string_view project, TextForm form);
// `columns`: those by which it is divided.
std::string usage_text(const api::UsageList& list, const std::vector<std::string>& columns,
                       TextForm form);
std::string device_use_text(const api::DeviceUseList& list, const std::vector<std::string>& columns,
                            TextForm form);
// "480", "0.25"
std::string minutes_text(double minutes);

}  // namespace lockstep::cli
