#include "platform/server/documents/document_calls.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/format.h"
#include "platform/identity/rights.h"

namespace lockstep::server {
namespace {

using model::Document;
using model::DocumentKind;

constexpr std::int64_t kDocumentsOfUserMax = 1'000;
constexpr std::size_t kDocumentNameMax = 200;
constexpr std::size_t kViewBytesMax = 4 << 10;
constexpr std::size_t kReportBytesMax = 256 << 10;

bool has_control(std::string_view words) {
  return std::ranges::any_of(words, [](char letter) {
    return static_cast<unsigned char>(letter) < 0x20 || letter == 127;
  });
}

Result<void> check_content(const api::SaveDocumentRequest& request) {
  if (request.name.empty() || request.name.size() > kDocumentNameMax || has_control(request.name))
    return Error{Code::invalid,
                 format("name: give one of 1 to {} bytes on one line", kDocumentNameMax)};
  const bool is_view = request.kind == DocumentKind::view;
  const std::size_t most = is_view ? kViewBytesMax : kReportBytesMax;
  if (request.text.size() > most)
    return Error{Code::invalid, format("text: it has {} bytes; a {} has at most {}",
                                       request.text.size(), name_of(request.kind), most)};
  if (is_view == request.project.has_value())
    return Error{Code::invalid, is_view ? "project: a view is its user's; leave it out"
                                        : "project: name the one of the report"};
  return {};
}

std::string title_of(const Document& document) {
  return format("{} {}", name_of(document.kind), document.id);
}

Error no_such_document(std::string_view id) {
  return {Code::not_found, format("there is no document {}; it may have been removed", id)};
}

}  // namespace

bool DocumentCalls::may_read(const Principal& caller, const Document& document) const {
  if (document.kind == DocumentKind::view) return document.user == caller.bearer.user;
  return identity::can_read(context_.accounts().directory(), caller.bearer, document.project);
}

// Reports have the rule of runs: one's own by a member, all by a manager.
Result<void> DocumentCalls::check_may_change(const Principal& caller,
                                             const Document& document) const {
  if (document.kind == DocumentKind::view) return {};  // the reader is its user
  const identity::Target target{.project = document.project, .owner = document.user};
  if (identity::may(context_.accounts().directory(), caller.bearer, identity::Action::control_run,
                    target))
    return {};
  return Error{Code::denied,
               format("the report is of {}; a manager of {} or {} may change it: save a copy",
                      document.user, document.project, document.user)};
}

Result<Document> DocumentCalls::find(const Principal& caller, const std::string& id) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
  if (error != std::errc() || end != id.data() + id.size()) return no_such_document(id);
  auto document = store_.find(number);
  if (!document && document.error().code != Code::not_found) return document;
  if (!document || !may_read(caller, *document)) return no_such_document(id);
  return document;
}

api::DocumentView DocumentCalls::view(const Principal& caller, Document document) const {
  const bool may_change = check_may_change(caller, document).has_value();
  return {.id = document.id,
          .kind = document.kind,
          .project = std::move(document.project),
          .user = std::move(document.user),
          .name = std::move(document.name),
          .text = std::move(document.text),
          .changed = document.changed,
          .version = document.version,
          .may_change = may_change};
}

Result<api::DocumentList> DocumentCalls::list(const RouteCall<api::kDocuments>& call) {
  const auto& [kind, project] = call.query;
  store::DocumentFilter filter{.kind = kind};
  if (kind == DocumentKind::view)
    filter.user = call.caller.bearer.user;
  else
    filter.projects = context_.readable_projects(call.caller);
  if (project) {
    const bool is_readable =
        !filter.projects || std::ranges::find(*filter.projects, *project) != filter.projects->end();
    filter.projects = is_readable ? std::vector{*project} : std::vector<std::string>();
  }
  api::DocumentList list;
  for (Document& document : TRY(store_.list(filter))) {
    if (kind == DocumentKind::report) document.text.clear();
    list.documents.push_back(view(call.caller, std::move(document)));
  }
  return list;
}

Result<api::DocumentView> DocumentCalls::read(const RouteCall<api::kDocument>& call) {
  return view(call.caller, TRY(find(call.caller, call.path_parameters.front())));
}

Result<api::DocumentView> DocumentCalls::save(const RouteCall<api::kSaveDocument>& call) {
  TRY(check_content(call.request));
  return call.request.id ? change(call, *call.request.id) : add(call);
}

Result<std::optional<Document>> DocumentCalls::same_as(const Document& document) {
  for (Document& other : TRY(store_.list({.kind = document.kind, .user = document.user})))
    if (other.name == document.name && other.project == document.project)
      return std::optional(std::move(other));
  return std::optional<Document>();
}

Result<api::DocumentView> DocumentCalls::add(const RouteCall<api::kSaveDocument>& call) {
  const api::SaveDocumentRequest& request = call.request;
  const identity::Bearer& bearer = call.caller.bearer;
  Document document{.kind = request.kind,
                    .project = request.project.value_or(""),
                    .user = bearer.user,
                    .name = request.name,
                    .text = request.text,
                    .changed = context_.now()};
  if (document.kind == DocumentKind::report) {
    const identity::Directory& directory = context_.accounts().directory();
    const identity::Target target{.project = document.project};
    // An admin may read any name. Projects of its runs need no row.
    const bool exists = directory.projects.contains(document.project) ||
                        context_.state().numbers.contains(document.project);
    if (!exists || !identity::can_read(directory, bearer, document.project))
      return identity::no_such_project(document.project);
    if (!identity::may(directory, bearer, identity::Action::submit_run, target))
      return Error{Code::denied, identity::refusal(bearer, identity::Action::submit_run, target)};
  }
  if (auto same = TRY(same_as(document))) {
    if (same->text == document.text) return view(call.caller, *std::move(same));  // a repeated call
    return Error{Code::invalid, format("{} has a {} named {} already: save it under another name",
                                       document.user, name_of(document.kind), document.name)};
  }
  if (TRY(store_.count_of(document.user)) >= kDocumentsOfUserMax)
    return Error{Code::invalid, format("{} has {} views and reports; remove some first",
                                       document.user, kDocumentsOfUserMax)};
  document.id = TRY(store_.add(
      document,
      context_.record(call, {.target = format("{} {}", name_of(document.kind), document.name),
                             .project = document.project})));
  return view(call.caller, std::move(document));
}

Result<api::DocumentView> DocumentCalls::change(const RouteCall<api::kSaveDocument>& call,
                                                std::int64_t id) {
  const api::SaveDocumentRequest& request = call.request;
  Document document = TRY(find(call.caller, format("{}", id)));
  if (document.kind != request.kind || document.project != request.project.value_or(""))
    return Error{Code::invalid,
                 format("{} has another kind or project: save a new document", title_of(document))};
  TRY(check_may_change(call.caller, document));
  const std::string before = std::exchange(document.name, request.name);
  const std::int64_t version = document.version++;
  document.text = request.text;
  document.changed = context_.now();
  TRY(store_.change(document, request.version.value_or(version),
                    context_.record(call, {.target = title_of(document),
                                           .project = document.project,
                                           .before = before,
                                           .after = document.name})));
  return view(call.caller, std::move(document));
}

Result<api::DocumentView> DocumentCalls::remove(const RouteCall<api::kRemoveDocument>& call) {
  Document document = TRY(find(call.caller, call.path_parameters.front()));
  TRY(check_may_change(call.caller, document));
  TRY(store_.remove(document.id, context_.record(call, {.target = title_of(document),
                                                        .project = document.project,
                                                        .before = document.name})));
  return view(call.caller, std::move(document));
}

}  // namespace lockstep::server
