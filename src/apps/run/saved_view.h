// The views of the page's table of runs that a user has saved: a query line and columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/api/document_messages.h"
#include "platform/client/client.h"

namespace lockstep::cli {

// The user's own, by name.
Result<std::vector<api::DocumentView>> saved_views(client::Client& client);

// Code::not_found names the command that lists them.
Result<api::DocumentView> saved_view(client::Client& client, std::string_view name);

// The query line in the text of a view; empty: none. The text has the form of the page's address.
Result<std::string> query_of_view(std::string_view text);

// The text with another query line. The columns stay.
Result<std::string> with_query(std::string_view text, std::string_view query);

}  // namespace lockstep::cli
