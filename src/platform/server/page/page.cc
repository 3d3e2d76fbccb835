#include "platform/server/page/page.h"

#include <algorithm>
#include <array>

#include "base/format.h"

namespace lockstep::server {
namespace {

constexpr std::string_view kIndex = "index.html";
// Their names have a digest of their content, so the content of a name never changes.
constexpr std::string_view kAssets = "assets";
constexpr std::array<std::string_view, 3> kOtherParts = {"api", "login", "metrics"};

// No code and no style but the page's own files, and no request to another host.
constexpr std::string_view kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

constexpr std::string_view kNotBuilt =
    "This daemon was built without its page: run `./dev build` where npm's registry can be "
    "reached, then restart the daemon.\n";

std::string joined(const std::vector<std::string>& path) {
  std::string words;
  for (const std::string& part : path) words += (words.empty() ? "" : "/") + part;
  return words;
}

// True unless the caller refuses gzip: every browser takes it, and a request without the header
// takes any coding.
bool takes_gzip(const net::HttpRequest& request) {
  const auto header = request.headers.find("Accept-Encoding");
  if (!header) return true;
  for (std::string_view rest = *header; !rest.empty();) {
    const std::size_t end = rest.find(',');
    std::string_view coding = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    while (coding.starts_with(' ')) coding.remove_prefix(1);
    const std::string_view name = coding.substr(0, coding.find_first_of("; "));
    const bool is_refused = coding.ends_with("q=0") || coding.ends_with("q=0.0");
    if (net::equal_ignoring_case(name, "gzip") || name == "*") return !is_refused;
  }
  return false;
}

std::string tag_of(const PageFile& file) { return format("\"{}\"", file.digest); }

// The header is a list such as `"1a2b", W/"3c4d"`; the tags have no quotes in them.
bool has_tag(const net::HttpRequest& request, const PageFile& file) {
  const auto known = request.headers.find("If-None-Match").value_or("");
  return known == "*" || known.find(tag_of(file)) != std::string_view::npos;
}

void add_page_headers(net::HttpResponse& response) {
  response.headers.add("Content-Security-Policy", std::string(kContentPolicy));
  response.headers.add("X-Content-Type-Options", "nosniff");
  // Not no-referrer, with which browsers hide the origin of a form.
  response.headers.add("Referrer-Policy", "same-origin");
}

net::HttpResponse text_answer(int status, std::string text) {
  net::HttpResponse response{.status = status, .body = std::move(text)};
  response.headers.add("Cache-Control", "no-store");
  add_page_headers(response);
  return response;
}

}  // namespace

Page::Page(PageFiles files) {
  for (const PageFile& file : files) files_.emplace(file.path, &file);
  const auto index = files_.find(kIndex);
  if (index != files_.end()) index_ = index->second;
}

bool Page::takes(const net::HttpRequest& request) const {
  if ((request.method != "GET" && request.method != "HEAD") || request.has_body) return false;
  const auto& path = request.path;
  if (path.empty()) return true;
  const bool is_form = path.front() == "login" && path.size() == 1;
  return is_form || std::ranges::find(kOtherParts, path.front()) == kOtherParts.end();
}

const PageFile* Page::find(const net::HttpRequest& request) const {
  const auto found = files_.find(joined(request.path));
  if (found != files_.end()) return found->second;
  // A tab of an older version asks for a part that is gone: index.html would be no script.
  return !request.path.empty() && request.path.front() == kAssets ? nullptr : index_;
}

net::HttpResponse Page::answer(const net::HttpRequest& request) const {
  if (!is_built()) return text_answer(404, std::string(kNotBuilt));
  const PageFile* file = find(request);
  if (file == nullptr)
    return text_answer(404, "The page of this daemon has no such file; load the page again.\n");
  if (file->is_gzip && !takes_gzip(request))
    return text_answer(406, "The page is sent compressed by gzip: `curl --compressed` shows it.\n");
  net::HttpResponse response{.content_type = std::string(file->content_type)};
  const bool is_asset = file->path.starts_with(format("{}/", kAssets));
  response.headers.add("Cache-Control",
                       is_asset ? "public, max-age=31536000, immutable" : "no-cache");
  response.headers.add("ETag", tag_of(*file));
  response.headers.add("Vary", "Accept-Encoding");
  add_page_headers(response);
  if (has_tag(request, *file)) {
    response.status = 304;
    return response;
  }
  if (file->is_gzip) response.headers.add("Content-Encoding", "gzip");
  response.body = std::string(file->bytes);
  return response;
}

}  // namespace lockstep::server
