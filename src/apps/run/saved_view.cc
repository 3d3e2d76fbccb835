#include "apps/run/saved_view.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/format.h"
#include "net/http/url.h"
#include "platform/api/document_routes.h"

namespace lockstep::cli {
namespace {

constexpr auto kQueryKey = "q";

Result<std::map<std::string, std::string>> values_in(std::string_view text) {
  return TRY(net::parse_request_target(format("/?{}", text))).query;
}

}  // namespace

Result<std::vector<api::DocumentView>> saved_views(client::Client& client) {
  const api::DocumentQuery query{.kind = model::DocumentKind::view};
  auto views = TRY(client.call(api::kDocuments, {.query = query})).documents;
  std::ranges::sort(views, {}, &api::DocumentView::name);
  return views;
}

Result<api::DocumentView> saved_view(client::Client& client, std::string_view name) {
  auto views = TRY(saved_views(client));
  const auto found = std::ranges::find(views, name, &api::DocumentView::name);
  if (found != views.end()) return std::move(*found);
  return Error{Code::not_found,
               format("there is no view '{}'; `lockstep view ls` lists yours", name)};
}

Result<std::string> query_of_view(std::string_view text) {
  const auto values = TRY(values_in(text));
  const auto query = values.find(kQueryKey);
  return query == values.end() ? std::string() : query->second;
}

Result<std::string> with_query(std::string_view text, std::string_view query) {
  auto values = TRY(values_in(text));
  values[kQueryKey] = query;
  std::vector<std::string> words;
  for (const auto& [key, value] : values)
    if (!value.empty())
      words.push_back(format("{}={}", net::percent_encode(key), net::percent_encode(value)));
  return joined(words, "&");
}

}  // namespace lockstep::cli
